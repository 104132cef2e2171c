"""Checks that a source or a sink of your own keeps its contract; for your tests.

    def test_source():
        check_source(Ticks("ticks.log"), [f"tick {n}" for n in range(100)])

    def test_sink(tmp_path):
        check_sink(lambda folder: SinkTarget(Orders(folder), lambda: lines_of(folder)), tmp_path)

They do to it what a job does that fails, restores and is rescaled. A rule that is broken is an
AssertionError that says which. The rules can be called one by one, too.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.connectors.sink import CommitContext, Committer, Sink, WriterContext
from penstock.connectors.source import Boundedness, Budget, ReadResult, Source, Split
from penstock.core.codec import to_stored
from penstock.files.area import FileArea

_HUGE: Final = 1 << 40
_HOUR_MS: Final = 3_600_000
_MOST_READS: Final = 100_000
_SEEDS: Final = 3


def _must(is_so: bool, text: str) -> None:
    if not is_so:
        raise AssertionError(text)


def _same(found: Iterable[Any], expected: Iterable[Any], rule: str, *, in_order: bool) -> None:
    first, second = list(map(repr, found)), list(map(repr, expected))
    if not in_order:
        first, second = sorted(first), sorted(second)
    if first == second:
        return
    missing = [each for each in second if each not in set(first)][:5]
    more = [each for each in first if each not in set(second)][:5]
    raise AssertionError(
        f"{rule}: got {len(first)} records, expected {len(second)}; missing: {missing}, not "
        f"expected: {more}" + ("." if missing or more else ", or the order or number differ.")
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return value is None or type(value) in (int, str, bool, float)


# -- sources --------------------------------------------------------------------------------------


def check_source(source: Source, records: Iterable[Any]) -> None:
    """Checks a source.

    Args:
        source: It may have no end, if it gives all its records at once.
        records: All that it gives, in any order.
    """
    expected = list(records)
    for rule in SOURCE_RULES:
        rule(pickle.loads(pickle.dumps(source)), expected)


def every_record_once(source: Source, records: list[Any]) -> None:
    """All splits together give every record once, and have different ids."""
    splits = source.discover(None, 0).splits
    clock = _Clock()
    read = [result for split in splits for result in _read(source, split, lambda: _whole(clock()))]
    values = [value for result in read for value in result.values]
    _same(values, records, "the splits together give each record once", in_order=False)
    ids = [split.split_id for split in splits]
    _must(len(set(ids)) == len(ids), f"two splits have one id: {sorted(ids)}")


def budgets_and_retries_change_nothing(source: Source, records: list[Any]) -> None:
    """A read depends on split, position and budget only: not on the reader, nor on earlier ones."""
    for seed in range(_SEEDS):
        generator, clock, whole_clock = random.Random(seed), _Clock(), _Clock()

        def small(generator: random.Random = generator, clock: _Clock = clock) -> Budget:
            size = generator.choice([1, 50, 5000, _HUGE])
            return Budget(generator.randint(1, 40), size, clock())

        def whole(clock: _Clock = whole_clock) -> Budget:
            return _whole(clock())

        for split in source.discover(None, 0).splits:
            at_once = _read(source, split, whole)
            parts = _read(source, split, small, retry=True)
            for what, of in (("values", _values), ("timestamps", _times), ("watermarks", _marks)):
                _must(
                    of(parts) == of(at_once),
                    f"split {split.split_id!r}, read in small parts, has other {what} than in one.",
                )


def searches_find_nothing_twice(source: Source, records: list[Any]) -> None:
    """What `discover` returns is plain data, and a search after it finds no split again."""
    first = source.discover(None, 0)
    _must(_is_plain(first.state), f"the state of discover is no plain data: {first.state!r:.200}")
    _must(first.state is not None, "the state of discover is None, as before the first search.")
    for split in first.splits:
        _must(
            _is_plain(split.data) and _is_plain(split.start),
            f"split {split.split_id!r} has data or a start that is no plain data.",
        )
    again = source.discover(first.state, 10**9)
    ids = {split.split_id for split in first.splits}
    twice = [split.split_id for split in again.splits if split.split_id in ids]
    _must(not twice, f"a second search finds splits again: {twice}")
    if source.boundedness is Boundedness.BOUNDED and first.complete:
        _must(again.complete and not again.splits, "a complete search was followed by more splits.")


SOURCE_RULES: Final = (
    every_record_once,
    budgets_and_retries_change_nothing,
    searches_find_nothing_twice,
)


class _Clock:
    """An hour passes between two reads, so that no rate has anything left to wait for."""

    now_ms = -_HOUR_MS

    def __call__(self) -> int:
        self.now_ms += _HOUR_MS
        return self.now_ms


def _whole(now_ms: int) -> Budget:
    return Budget(_HUGE, _HUGE, now_ms)


def _read(
    source: Source, split: Split, budgets: Callable[[], Budget], *, retry: bool = False
) -> list[ReadResult]:
    """Reads a split to its end; with `retry`, each read is done again by readers of all kinds."""
    ends = source.boundedness is Boundedness.BOUNDED
    reader, position = source.create_reader(), split.start
    results = []
    for _ in range(_MOST_READS):
        budget = budgets()
        result = reader.read(split, position, budget)
        if retry:
            fresh = source.create_reader()
            for again, which in ((reader, "the same reader"), (fresh, "a new reader")):
                _must(
                    again.read(split, position, budget) == result,
                    f"split {split.split_id!r}: the read from {position!r} is another one when it "
                    f"is repeated by {which}.",
                )
            fresh.close()
        _must(_is_plain(result.position), f"a position is no plain data: {result.position!r:.200}")
        _must(
            len(result.values) <= budget.max_records,
            f"split {split.split_id!r}: a read gave {len(result.values)} records, but "
            f"{budget.max_records} were allowed.",
        )
        results.append(result)
        position = result.position
        if result.finished or (not ends and not result.values and not result.has_more):
            reader.close()
            return results
    raise AssertionError(f"split {split.split_id!r} does not end; it stays at {position!r}.")


def _values(results: list[ReadResult]) -> list[Any]:
    return [value for result in results for value in result.values]


def _times(results: list[ReadResult]) -> list[int]:
    return [time for result in results for time in result.timestamps or []]


def _marks(results: list[ReadResult]) -> list[tuple[int, int]]:
    """Number of records of the split before each watermark, and the watermark."""
    found, before = [], 0
    for result in results:
        found += [(before + count, watermark) for count, watermark in result.punctuated]
        before += len(result.values)
    return found


# -- sinks ----------------------------------------------------------------------------------------


@dataclass
class SinkTarget:
    """A sink and a way to see what readers of its output see.

    Attributes:
        sink: Takes text as records.
        visible: Returns the records that readers see, those of one subtask in order.
        spark: A session, for sinks that write DataFrames.
    """

    sink: Sink
    visible: Callable[[], Iterable[Any]]
    spark: Any = None


def check_sink(make: Callable[[Path], SinkTarget], directory: Path) -> None:
    """Checks a sink that is exactly once; it is given text as records.

    Args:
        make: Makes a sink with an empty target, for each rule a new one, in an empty directory.
        directory: Empty, for all that is written.
    """
    for number, rule in enumerate(SINK_RULES):
        folder = directory / str(number)
        (folder / "out").mkdir(parents=True)
        (folder / "scratch").mkdir()
        target = make(folder / "out")
        rule(target, SinkJob(target, folder / "scratch"))


class SinkJob:
    """Writes and commits as the runtime does.

    Args:
        target: The sink.
        scratch: An empty directory for pending data.
    """

    def __init__(self, target: SinkTarget, scratch: Path) -> None:
        self.sink = target.sink
        self.spark = target.spark
        self.scratch = scratch
        self.area = FileArea(scratch / "area")
        # Some sinks remember by job and uid what they have written, so each is another job.
        self.job_id = f"{abs(hash(str(scratch))):032x}"[:32]

    def write(
        self,
        epoch: int,
        subtask: int,
        values: list[Any],
        *,
        attempt: str = "0",
        prepare: bool = True,
    ) -> list[Any]:
        """Writes an epoch of a subtask, and returns its committables as a checkpoint has them."""
        context = WriterContext(
            job_id=self.job_id,
            uid="sink",
            subtask=subtask,
            parallelism=2,
            epoch=epoch,
            attempt_id=f"{self.job_id[:8]}-0-{epoch}-{subtask}{attempt}",
            now_ms=epoch * 1000,
            scratch_dir=str(self.scratch),
            area=self.area,
        )
        writer = self.sink.create_writer(context)
        half = len(values) // 2
        writer.write(values[:half], None, 0)
        writer.write(values[half:], None, 0)
        if not prepare:
            return []
        committables = writer.prepare_commit()
        writer.close()
        # Checkpoints hold committables, and what cannot be held as plain data is refused.
        to_stored(committables, "committables")
        copy: list[Any] = pickle.loads(pickle.dumps(committables))
        return copy

    def context(self, epoch: int, *, final: bool = False) -> CommitContext:
        """Returns the context of a commit up to an epoch."""
        return CommitContext(
            job_id=self.job_id,
            uid="sink",
            epoch=epoch,
            checkpoint_id=None,
            final=final,
            now_ms=epoch * 1000,
            spark=self.spark,
            area=self.area,
        )

    def restarted(self, state: Any) -> Committer:
        """Returns a committer as after a restore."""
        committer: Committer = self.sink.create_committer()
        committer.restore(state)
        return committer


def _names(prefix: str) -> list[str]:
    return [f"{prefix}{number}" for number in range(5)]


def output_shows_once_it_is_committed(target: SinkTarget, job: SinkJob) -> None:
    """Readers see nothing before the commit, and everything after it."""
    committer = job.sink.create_committer()
    first = job.write(1, 0, _names("a")) + job.write(1, 1, _names("b"))
    second = job.write(2, 0, _names("c"))
    _same(target.visible(), [], "nothing shows before it is committed", in_order=False)
    committer.commit(first, job.context(1))
    expected = _names("a") + _names("b")
    _same(target.visible(), expected, "what is committed shows", in_order=False)
    committer.commit(second, job.context(2, final=True))
    expected += _names("c")
    _same(target.visible(), expected, "what is committed shows", in_order=False)


def records_of_a_subtask_stay_in_order(target: SinkTarget, job: SinkJob) -> None:
    """Also where a checkpoint commits several epochs at once."""
    committer = job.sink.create_committer()
    committables = [job.write(epoch, 0, _names(f"{epoch}-")) for epoch in (1, 2, 3)]
    committer.commit([one for each in committables for one in each], job.context(3, final=True))
    expected = _names("1-") + _names("2-") + _names("3-")
    _same(target.visible(), expected, "records of a subtask stay in order", in_order=True)


def a_commit_may_be_repeated(target: SinkTarget, job: SinkJob) -> None:
    """By the same committer, and by one that was restored from before the commit."""
    committer = job.sink.create_committer()
    before = committer.snapshot()
    to_stored(before, "state of the committer")
    committables = job.write(1, 0, _names("a")) + job.write(2, 0, _names("b"))
    for _ in range(2):
        committer.commit(committables, job.context(2))
    for _ in range(2):
        job.restarted(before).commit(committables, job.context(2))
    again = job.restarted(committer.snapshot())
    again.commit(committables, job.context(2))
    again.commit(job.write(3, 0, _names("c")), job.context(3, final=True))
    expected = _names("a") + _names("b") + _names("c")
    _same(target.visible(), expected, "a commit that is repeated adds nothing", in_order=False)


def an_epoch_may_come_again(target: SinkTarget, job: SinkJob) -> None:
    """Without checkpoints a failed job starts again; its first epochs hold other records."""
    job.sink.create_committer().commit(job.write(1, 0, _names("a")), job.context(1))
    committer = job.sink.create_committer()
    committer.commit(job.write(1, 0, _names("b"), attempt="1"), job.context(1, final=True))
    expected = _names("a") + _names("b")
    _same(target.visible(), expected, "two attempts of an epoch are both kept", in_order=False)


def aborted_output_never_shows(target: SinkTarget, job: SinkJob) -> None:
    """An abort may be repeated as well."""
    committer = job.sink.create_committer()
    wrong = job.write(1, 0, _names("x"))
    committer.abort(wrong, job.context(1))
    committer.abort(wrong, job.context(1))
    committer.commit(job.write(1, 0, _names("a"), attempt="1"), job.context(1, final=True))
    _same(target.visible(), _names("a"), "what was aborted never shows", in_order=True)


def a_dead_attempt_never_shows(target: SinkTarget, job: SinkJob) -> None:
    """Nothing of a task shows that was killed while it wrote, or whose report was lost."""
    committer = job.sink.create_committer()
    job.write(1, 0, _names("x"))
    job.write(1, 0, _names("y"), attempt="1", prepare=False)
    committer.commit(job.write(1, 0, _names("a"), attempt="2"), job.context(1))
    committer.commit(job.write(2, 0, _names("b")), job.context(2, final=True))
    expected = _names("a") + _names("b")
    _same(target.visible(), expected, "a dead attempt never shows", in_order=True)


SINK_RULES: Final = (
    output_shows_once_it_is_committed,
    records_of_a_subtask_stay_in_order,
    a_commit_may_be_repeated,
    an_epoch_may_come_again,
    aborted_output_never_shows,
    a_dead_attempt_never_shows,
)
