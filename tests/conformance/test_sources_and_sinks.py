"""Every source and every sink keeps its contract; a new one is a new row.

Sources: what is read is a function of split, position and budget, and the splits together hold
every record once. Sinks: what is pending is invisible, a commit may be repeated, what is aborted or
was written by a dead attempt never shows.
"""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.sink import CommitContext, Committer, WriterContext
from penstock.connectors.source import Budget, ReadResult, Source, Split

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

from sink_rows import SINKS, Target
from source_rows import SOURCES

from penstock.core.codec import to_stored

HUGE = 1 << 40

# -- sources --------------------------------------------------------------------------------------


@pytest.fixture(params=list(SOURCES))
def source_and_records(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, list[Any]]:
    source, records = SOURCES[request.param](tmp_path)
    copy: Source = pickle.loads(pickle.dumps(source))
    return copy, records


def read_split(
    source: Source, split: Split, budgets: Callable[[], Budget], *, retry: bool = False
) -> list[ReadResult]:
    """Reads a split to its end; with `retry`, each read is done again by readers of all kinds."""
    reader = source.create_reader()
    position = split.start
    results = []
    for _ in range(100_000):
        budget = budgets()
        result = reader.read(split, position, budget)
        if retry:
            fresh = source.create_reader()
            for again in (
                reader.read(split, position, budget),
                fresh.read(split, position, budget),
            ):
                assert again == result
            fresh.close()
        assert is_plain(result.position)
        assert len(result.values) <= budget.max_records
        results.append(result)
        position = result.position
        if result.finished:
            reader.close()
            return results
    raise AssertionError(f"{split.split_id} does not end; it stays at {position}")


def values_of(results: list[ReadResult]) -> list[Any]:
    return [value for result in results for value in result.values]


def times_of(results: list[ReadResult]) -> list[int]:
    return [time for result in results for time in result.timestamps or []]


def watermarks_of(results: list[ReadResult]) -> list[tuple[int, int]]:
    """Number of records of the split before each watermark, and the watermark."""
    found = []
    before = 0
    for result in results:
        found += [(before + count, watermark) for count, watermark in result.punctuated]
        before += len(result.values)
    return found


def big() -> Budget:
    # An hour after the first read at 0, any rate of these tests has nothing left to wait for.
    return Budget(HUGE, HUGE, big_clock())


class _Clock:
    now_ms = -3_600_000

    def __call__(self) -> int:
        self.now_ms += 3_600_000
        return self.now_ms


big_clock = _Clock()


def is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    return value is None or type(value) in (int, str, bool, float)


def in_order(records: list[Any]) -> list[str]:
    return sorted(map(repr, records))


def test_splits_cover_every_record_once(source_and_records: tuple[Source, list[Any]]) -> None:
    source, records = source_and_records
    splits = source.discover(None, 0).splits
    found = [value for split in splits for value in values_of(read_split(source, split, big))]
    assert in_order(found) == in_order(records)
    assert len({split.split_id for split in splits}) == len(splits)


@pytest.mark.parametrize("seed", range(3))
def test_budgets_and_retries_change_nothing(
    source_and_records: tuple[Source, list[Any]], seed: int
) -> None:
    source, _ = source_and_records
    generator = random.Random(seed)
    clock = _Clock()

    def small() -> Budget:
        return Budget(generator.randint(1, 40), generator.choice([1, 50, 5000, HUGE]), clock())

    for split in source.discover(None, 0).splits:
        whole = read_split(source, split, big)
        parts = read_split(source, split, small, retry=True)
        assert values_of(parts) == values_of(whole)
        assert times_of(parts) == times_of(whole)
        assert watermarks_of(parts) == watermarks_of(whole)


def test_discovery_is_plain_and_finds_nothing_twice(
    source_and_records: tuple[Source, list[Any]],
) -> None:
    source, _ = source_and_records
    first = source.discover(None, 0)
    assert first.complete
    assert is_plain(first.state)
    assert first.state is not None
    for split in first.splits:
        assert is_plain(split.data)
        assert is_plain(split.start)
    again = source.discover(first.state, 10**9)
    assert again.splits == ()
    assert again.complete


# -- sinks ----------------------------------------------------------------------------------------


@pytest.fixture(params=list(SINKS))
def target(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Target:
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "scratch").mkdir()
    return SINKS[request.param](folder, capsys)


class Job:
    """Writes and commits as the runtime does."""

    def __init__(self, target: Target, scratch: Path) -> None:
        self.sink = target.sink
        self.spark = target.spark
        self.scratch = scratch
        # Print remembers per job and uid what it has printed, so every test is another job.
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
        context = WriterContext(
            job_id=self.job_id,
            uid="sink",
            subtask=subtask,
            parallelism=2,
            epoch=epoch,
            attempt_id=f"{self.job_id[:8]}-0-{epoch}-{subtask}{attempt}",
            now_ms=epoch * 1000,
            scratch_dir=str(self.scratch),
        )
        writer = self.sink.create_writer(context)
        half = len(values) // 2
        writer.write(values[:half], None, 0)
        writer.write(values[half:], None, 0)
        if not prepare:
            return []
        committables = writer.prepare_commit()
        writer.close()
        # Checkpoints hold committables, and whatever cannot be held as plain data is refused.
        to_stored(committables, "committables")
        copy: list[Any] = pickle.loads(pickle.dumps(committables))
        return copy

    def context(self, epoch: int, *, final: bool = False) -> CommitContext:
        return CommitContext(
            job_id=self.job_id,
            uid="sink",
            epoch=epoch,
            checkpoint_id=None,
            final=final,
            now_ms=epoch * 1000,
            spark=self.spark,
        )

    def restarted(self, state: Any) -> Committer:
        committer: Committer = self.sink.create_committer()
        committer.restore(state)
        return committer


def names(prefix: str, count: int = 5) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_output_shows_once_it_is_committed(target: Target, tmp_path: Path) -> None:
    job = Job(target, tmp_path / "scratch")
    committer = job.sink.create_committer()
    first = job.write(1, 0, names("a")) + job.write(1, 1, names("b"))
    second = job.write(2, 0, names("c"))
    assert target.visible() == []
    committer.commit(first, job.context(1))
    assert in_order(target.visible()) == in_order(names("a") + names("b"))
    committer.commit(second, job.context(2, final=True))
    assert in_order(target.visible()) == in_order(names("a") + names("b") + names("c"))


def test_records_of_a_subtask_stay_in_order(target: Target, tmp_path: Path) -> None:
    job = Job(target, tmp_path / "scratch")
    committer = job.sink.create_committer()
    committables = [job.write(epoch, 0, names(f"{epoch}-")) for epoch in (1, 2, 3)]
    # A checkpoint commits several epochs at once.
    committer.commit([one for each in committables for one in each], job.context(3, final=True))
    assert list(target.visible()) == names("1-") + names("2-") + names("3-")


def test_a_commit_may_be_repeated(target: Target, tmp_path: Path) -> None:
    job = Job(target, tmp_path / "scratch")
    committer = job.sink.create_committer()
    before = committer.snapshot()
    to_stored(before, "state of the committer")
    committables = job.write(1, 0, names("a")) + job.write(2, 0, names("b"))
    for _ in range(2):
        committer.commit(committables, job.context(2))
    for _ in range(2):
        job.restarted(before).commit(committables, job.context(2))
    again = job.restarted(committer.snapshot())
    again.commit(committables, job.context(2))
    again.commit(job.write(3, 0, names("c")), job.context(3, final=True))
    assert in_order(target.visible()) == in_order(names("a") + names("b") + names("c"))


def test_an_epoch_may_come_again(target: Target, tmp_path: Path) -> None:
    """Without checkpointing a failed job starts anew; its first epochs hold other records."""
    job = Job(target, tmp_path / "scratch")
    job.sink.create_committer().commit(job.write(1, 0, names("a")), job.context(1))
    committer = job.sink.create_committer()
    committer.commit(job.write(1, 0, names("b"), attempt="1"), job.context(1, final=True))
    assert in_order(target.visible()) == in_order(names("a") + names("b"))


def test_aborted_output_never_shows(target: Target, tmp_path: Path) -> None:
    job = Job(target, tmp_path / "scratch")
    committer = job.sink.create_committer()
    wrong = job.write(1, 0, names("x"))
    committer.abort(wrong, job.context(1))
    committer.abort(wrong, job.context(1))
    committer.commit(job.write(1, 0, names("a"), attempt="1"), job.context(1, final=True))
    assert list(target.visible()) == names("a")
    assert_nothing_hidden(target)


def test_a_dead_attempt_never_shows(target: Target, tmp_path: Path) -> None:
    job = Job(target, tmp_path / "scratch")
    committer = job.sink.create_committer()
    job.write(1, 0, names("x"))  # Prepared, but its report was lost.
    job.write(1, 0, names("y"), attempt="1", prepare=False)  # Killed while it wrote.
    committer.commit(job.write(1, 0, names("a"), attempt="2"), job.context(1))
    committer.commit(job.write(2, 0, names("b")), job.context(2, final=True))
    assert list(target.visible()) == names("a") + names("b")
    if target.counts_dead_files:
        assert_nothing_hidden(target)


def assert_nothing_hidden(target: Target) -> None:
    if target.files is not None:
        hidden = [path for path in target.files.rglob("*") if path.name.startswith(".")]
        assert hidden == []
