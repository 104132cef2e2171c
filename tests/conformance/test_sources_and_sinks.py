"""Every source and every sink keeps its contract; a new one is a new row.

Sources: what is read is a function of split, position and budget, and the splits together hold
every record once. Sinks: what is pending is invisible, a commit may be repeated, what is aborted or
was written by a dead attempt never shows.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import pickle
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.collect import CollectedResults, CollectSink
from penstock.connectors.collection import CollectionSource
from penstock.connectors.custom import PythonSource, Timestamped, Watermark
from penstock.connectors.demo_events import DemoEvents, DemoEventSource
from penstock.connectors.file_sink.buckets import BucketAssigner
from penstock.connectors.file_sink.encoders import BulkWriterFactory, Encoder
from penstock.connectors.file_sink.rolling import RollingPolicy
from penstock.connectors.file_sink.sink import FileSink
from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.generator import DataGeneratorSource
from penstock.connectors.number_seq import NumberSequenceSource
from penstock.connectors.print_sink import PrintSink
from penstock.connectors.sink import CommitContext, Committer, Sink, WriterContext
from penstock.connectors.source import Budget, ReadResult, Source, Split
from penstock.connectors.spark_sink import SparkSink
from penstock.connectors.user_sink import PythonSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HUGE = 1 << 40

# -- sources --------------------------------------------------------------------------------------


class Halves(PythonSource):
    """Two splits of numbers with event times and watermarks."""

    bounded = True
    emits_own_watermarks = True

    def splits(self) -> list[str]:
        return ["low", "high"]

    def start_offset(self, split: str) -> int:
        return 0 if split == "low" else 250

    def end_offset(self, split: str) -> int:
        return 250 if split == "low" else 500

    def read(self, split: str, start: int, end: int) -> Iterator[Any]:
        for number in range(start, end):
            yield Timestamped(number, number * 10)
            if number % 7 == 0:
                yield Watermark(number * 10)


TEXT_LINES = ["first", "", "größer", "\N{GREEK SMALL LETTER ALPHA}" * 50, " padded ", "last"] * 40
CSV_ROWS = [(str(n), f'say "{n}"', "two\nlines" if n % 3 else "", f"k,{n}") for n in range(200)]
JSON_VALUES: list[Any] = [{"n": n, "s": "é" * (n % 5)} for n in range(200)] + [[1, None], "x", 1.5]


def text_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.txt"
    path.write_bytes(("\r\n".join(TEXT_LINES[:90]) + "\n" + "\n".join(TEXT_LINES[90:])).encode())
    return lines_of(path, 100), TEXT_LINES


def lines_of(path: Path, cut_bytes: int, charset: str = "UTF-8") -> Source:
    line_format = StreamFormat.text_line_format(charset)
    builder = FileSource.for_record_stream_format(line_format, str(path))
    return builder.set_cut_bytes(cut_bytes).build()


def utf16_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "wide.txt"
    path.write_bytes("\n".join(TEXT_LINES).encode("utf-16"))
    return lines_of(path, 100, "utf-16"), TEXT_LINES


def gzip_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.txt.gz"
    path.write_bytes(gzip.compress(("\n".join(TEXT_LINES) + "\n").encode()))
    return lines_of(path, 10), TEXT_LINES


def bz2_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.bz2"
    path.write_bytes(bz2.compress("\n".join(TEXT_LINES).encode()))
    return lines_of(path, 10), TEXT_LINES


def csv_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d"])
        writer.writerows(CSV_ROWS)
    csv_format = StreamFormat.csv_format(records="tuple")
    builder = FileSource.for_record_stream_format(csv_format, str(path))
    return builder.set_cut_bytes(300).build(), CSV_ROWS


def json_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in JSON_VALUES) + "\n")
    builder = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(path))
    return builder.set_cut_bytes(300).build(), JSON_VALUES


def parquet_file(folder: Path) -> tuple[Source, list[Any]]:
    rows = [{"n": n, "s": None if n % 5 == 0 else f"v{n}"} for n in range(500)]
    parquet.write_table(arrow.Table.from_pylist(rows), folder / "t.parquet", row_group_size=70)
    builder = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(folder))
    return builder.set_cut_bytes(1).build(), rows


def several_files(folder: Path) -> tuple[Source, list[Any]]:
    expected: list[str] = []
    (folder / "deep").mkdir()
    for name in ("deep/a.txt", "b.txt", "c.txt"):
        lines = [f"{name} {number}" for number in range(20)]
        (folder / name).write_text("\n".join(lines))
        expected += lines
    (folder / "empty.txt").touch()
    return lines_of(folder, 64), expected


def rated(folder: Path) -> tuple[Source, list[Any]]:
    source = DataGeneratorSource(lambda_free_square, 3000, rate_per_second=500, num_splits=3)
    return source, [number * number for number in range(3000)]


def lambda_free_square(index: int) -> int:
    return index * index


def drawn(index: int, source: random.Random) -> tuple[int, int]:
    return index, source.randrange(10**9)


def seeded(folder: Path) -> tuple[Source, list[Any]]:
    values = []
    for block in range(3):
        generator = random.Random(f"5:{block}")
        values += [drawn(index, generator) for index in range(block * 1024, block * 1024 + 1024)]
    return DataGeneratorSource(drawn, 2500, seed=5, num_splits=2), values[:2500]


def demo(folder: Path) -> tuple[Source, list[Any]]:
    lines = [line for block in DemoEvents(seed=3, ids=50).blocks(3000) for line in block]
    return DemoEventSource(3000, seed=3, ids=50, num_splits=2), lines


SOURCES: dict[str, Callable[[Path], tuple[Source, list[Any]]]] = {
    "collection": lambda folder: (CollectionSource(range(1000), 64), list(range(1000))),
    "numbers": lambda folder: (
        NumberSequenceSource(-3, 700).with_parallelism(3),
        list(range(-3, 701)),
    ),
    "generator": rated,
    "seeded generator": seeded,
    "demo events": demo,
    "own": lambda folder: (Halves(), list(range(500))),
    "text": text_file,
    "text in UTF-16": utf16_file,
    "text, gzip": gzip_file,
    "text, bzip2": bz2_file,
    "text, directory": several_files,
    "CSV": csv_file,
    "JSON lines": json_file,
    "Parquet": parquet_file,
}


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


@dataclass
class Target:
    """A sink and a way to see what readers of its output see."""

    sink: Sink
    visible: Callable[[], list[str]]
    spark: Any = None
    files: Path | None = None
    counts_dead_files: bool = True


class Staging(PythonSink):
    """Stages text in files, and links them on commit."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, context: WriterContext) -> None:
        self.path = Path(self.folder, f".{context.attempt_id}-{context.subtask}")
        self.lines: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        self.lines.append(str(value))

    def prepare_commit(self) -> list[Any]:
        self.path.write_text("\n".join(self.lines))
        return [str(self.path)]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for name in committables:
            path = Path(name)
            if path.exists():
                path.rename(path.with_name(path.name[1:]))

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for name in committables:
            Path(name).unlink(missing_ok=True)


class FakeSpark:
    """As much of a Spark session as the sink uses."""

    def __init__(self) -> None:
        self.read = self
        self.rows: list[str] = []

    def parquet(self, *paths: str) -> Any:
        return [parquet.read_table(path) for path in paths]

    def function(self, df: Any, epoch_id: int) -> None:
        self.rows += [row["value"] for table in df for row in table.to_pylist()]


def visible_lines(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            found += path.read_text().splitlines()
    return found


def visible_rows(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            found += [row["value"] for row in parquet.read_table(path).to_pylist()]
    return found


def collect_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    name = str(folder)
    results = CollectedResults(name)
    seen: list[str] = []

    def visible() -> list[str]:
        while results._chunks:
            seen.extend(results._chunks.popleft())
        return seen

    return Target(CollectSink(name), visible)


def print_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    seen: list[str] = []

    def visible() -> list[str]:
        lines = capsys.readouterr().out.splitlines()
        seen.extend(line.split("> ", 1)[1] for line in lines)
        return seen

    return Target(PrintSink("out"), visible)


def row_file_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return Target(builder.build(), lambda: visible_lines(folder), files=folder)


def parquet_file_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    builder = FileSink.for_bulk_format(str(folder), BulkWriterFactory.parquet())
    return Target(builder.build(), lambda: visible_rows(folder), files=folder)


def own_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    # What an attempt that never reported left is the user's own to clean up.
    return Target(
        Staging(str(folder)), lambda: visible_lines(folder), files=folder, counts_dead_files=False
    )


def spark_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    spark = FakeSpark()
    # Dead attempts' files lie in the job's scratch directory, which goes with the job.
    return Target(SparkSink(spark.function), lambda: spark.rows, spark)


SINKS = {
    "collect": collect_target,
    "print": print_target,
    "files, rows": row_file_target,
    "files, Parquet": parquet_file_target,
    "own": own_target,
    "Spark": spark_target,
}


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
    assert is_plain(before)
    committables = job.write(1, 0, names("a")) + job.write(2, 0, names("b"))
    for _ in range(2):
        committer.commit(committables, job.context(2))
    for _ in range(2):
        job.restarted(before).commit(committables, job.context(2))
    again = job.restarted(committer.snapshot())
    again.commit(committables, job.context(2))
    again.commit(job.write(3, 0, names("c")), job.context(3, final=True))
    assert in_order(target.visible()) == in_order(names("a") + names("b") + names("c"))


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
