"""Jobs over streaming DataFrames go on where a snapshot was: exactly once, here or elsewhere."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock.common import Configuration, Encoder, Types
from penstock.core.errors import JobExecutionError, PenstockError, UnsupportedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.datastream.connectors.file_system import OnCheckpointRollingPolicy
from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.runtime.job_state import SourceProgress
from penstock.spark.session import get_session
from penstock.spark.streaming_feed import StreamingFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

MASTER = "local[2,4]"
COMPACTION = "spark.sql.streaming.fileSource.log.compactInterval"
ROWS = 30
"""Rows of a batch; epochs of these jobs read less, so snapshots are also taken inside batches."""


def spark() -> Any:
    return get_session("test", MASTER, {})


def rate() -> DataFrame:
    """0, 1, 2 … without end, the same in every run."""
    reader = spark().readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return reader.option("numPartitions", 2).option("startTimestamp", 10_000).load()


def files(directory: Path) -> DataFrame:
    """0, 1, 2 …, one file a batch."""
    reader = spark().readStream.option("maxFilesPerTrigger", 1)
    return reader.text(str(directory)).selectExpr("cast(value AS long) AS value")


def write_files(directory: Path, numbers: range) -> None:
    directory.mkdir(exist_ok=True)
    for number in numbers:
        path = directory / f"{number:03d}.txt"
        path.write_text("".join(f"{n}\n" for n in range(number * ROWS, (number + 1) * ROWS)))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class FailOnce(MapFunction):
    """Fails at one value; a file remembers it, since workers are processes."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def map(self, value: Any) -> Any:
        if value == ("rate", 70) and not self.mark.exists():
            self.mark.touch()
            raise RuntimeError("once")
        return value


class Seen(KeyedProcessFunction):
    """Tells of each number: how many its key has had, the highest of them, and if it came again."""

    def open(self, runtime_context: Any) -> None:
        seen = MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN())
        self.seen = runtime_context.get_map_state(seen)
        counted = ValueStateDescriptor("counted", Types.TUPLE([Types.LONG(), Types.LONG()]))
        self.counted = runtime_context.get_state(counted)

    def process_element(self, value: Any, ctx: Any) -> Any:
        name, number = value
        count, highest = self.counted.value() or (0, -1)
        counted = count + 1, max(highest, number)
        came_again = self.seen.contains(number)
        self.seen.put(number, True)
        self.counted.update(counted)
        yield f"{name} {number} {counted[0]} {counted[1]} {came_again}"


class Line(NamedTuple):
    number: int
    count: int
    highest: int
    came_again: bool


def output(directory: Path) -> dict[str, list[Line]]:
    """Reads what is visible of a job's output, by source."""
    found: dict[str, list[Line]] = defaultdict(list)
    for path in directory.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            for text in path.read_text().splitlines():
                name, number, count, highest, came_again = text.split()
                line = Line(int(number), int(count), int(highest), came_again == "True")
                found[name].append(line)
    return found


def complete_up_to(lines: list[Line]) -> int:
    """Returns the highest number up to which nothing was missing when it was counted."""
    return max((line.highest for line in lines if line.count == line.highest + 1), default=-1)


class Jobs:
    """Runs one program over two DataFrames, again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = 0
        self.add_files(40)

    def add_files(self, count: int) -> None:
        write_files(self.root / "in", range(self.files, self.files + count))
        self.files += count

    def start(
        self, out: str, *, parallelism: int, sources: tuple[str, ...], start: str = ""
    ) -> Any:
        configuration = Configuration()
        for key, value in {
            "penstock.spark.master": MASTER,
            "penstock.epoch.max-records": "40",
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.num-retained": "10000",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.dir": str(self.root / "checkpoints"),
            "execution.state-recovery.path": start,
            "execution.state-recovery.ignore-unclaimed-state": "true",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }.items():
            if value:
                configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(parallelism)
        frames = {"rate": rate, "files": lambda: files(self.root / "in")}
        first, second = (self._stream(env, name, frames[name]()) for name in sources)
        together = first.union(second).map(FailOnce(self.root / "failed")).uid("fails")
        told = together.key_by(lambda value: value[0]).process(Seen()).uid("seen")
        encoder = Encoder.simple_string_encoder()
        sink = FileSink.for_row_format(str(self.root / out), encoder)
        sink = sink.with_rolling_policy(OnCheckpointRollingPolicy())
        # Output that another directory is owed stays there.
        told.sink_to(sink.build()).uid(out)
        return env.execute_async()

    @staticmethod
    def _stream(env: StreamExecutionEnvironment, name: str, df: DataFrame) -> Any:
        def named(row: Any) -> tuple[str, int]:
            return name, row["value"]

        return env.from_spark(df).uid(name).map(named).uid(f"{name}-named")

    def wait(self, client: Any, out: str, beyond: dict[str, int]) -> dict[str, int]:
        """Waits until output is complete beyond some numbers, or there is no more to read.

        Returns:
            Up to where it is complete.
        """
        reached: dict[str, int] = {}
        last = {"rate": -1, "files": self.files * ROWS - 1}

        def is_far() -> bool:
            found = output(self.root / out)
            reached.update({name: complete_up_to(found[name]) for name in beyond})
            return all(
                reached[name] > number or reached[name] == last[name]
                for name, number in beyond.items()
            )

        wait_for(client, is_far)
        return reached

    def check(self, out: str, *, is_whole: bool) -> None:
        for lines in output(self.root / out).values():
            assert not any(line.came_again for line in lines)
            numbers = [line.number for line in lines]
            assert len(set(numbers)) == len(numbers)
            if is_whole:
                assert set(range(complete_up_to(lines) + 1)) <= set(numbers)


def wait_for(client: Any, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        if client._job.result.done():
            client.get_job_execution_result().result(0)
            raise AssertionError("the job has ended")
        time.sleep(0.05)


@pytest.fixture
def often_compacted() -> Iterator[None]:
    """Spark's list of files that were read is rewritten at every third batch."""
    spark().conf.set(COMPACTION, "3")
    yield
    spark().conf.unset(COMPACTION)


@pytest.mark.usefixtures("often_compacted")
def test_two_dataframes_go_on_from_snapshots(tmp_path: Path) -> None:
    """Over a failure, from a savepoint with sources swapped, and from an older checkpoint."""
    jobs = Jobs(tmp_path)
    client = jobs.start("out", parallelism=2, sources=("rate", "files"))
    jobs.wait(client, "out", {"rate": 90, "files": 60})
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoint")).result(280)
    client.get_job_execution_result().result(280)
    assert (tmp_path / "failed").exists()
    at_savepoint = {name: max(lines).number for name, lines in output(tmp_path / "out").items()}

    client = jobs.start("out", parallelism=1, sources=("files", "rate"), start=savepoint)
    jobs.wait(client, "out", at_savepoint)
    number = client.trigger_checkpoint().result(280)
    (older,) = (tmp_path / "checkpoints").glob(f"*/chk-{number}")
    at_older = {name: max(lines).number for name, lines in output(tmp_path / "out").items()}
    reached = jobs.wait(client, "out", at_older)
    cancel(client)
    jobs.check("out", is_whole=True)

    jobs.add_files(20)
    client = jobs.start("again", parallelism=3, sources=("rate", "files"), start=str(older))
    jobs.wait(client, "again", reached)
    cancel(client)
    jobs.check("again", is_whole=False)


def cancel(client: Any) -> None:
    client.cancel().result(280)
    with pytest.raises(PenstockError, match="was cancelled"):
        client.get_job_execution_result().result(280)


def feed_of(df: DataFrame, directory: Path) -> StreamingFeed:
    return StreamingFeed(df, directory, "numbers", 2)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (
            {"log": {}, "stateful": "", "sources": ["kafka"]},
            r"source 'numbers' reads rate-micro-batch, but the snapshot has offsets of kafka",
        ),
        (
            {"log": {}, "stateful": "Deduplicate", "sources": ["rate-micro-batch"]},
            r"source 'numbers' keeps state in Spark \(Deduplicate\), which snapshots do not hold",
        ),
        ({"seen": {}, "polled_ms": 0}, r"another kind of source had this uid"),
    ],
    ids=["other-sources", "state-in-spark", "other-kind"],
)
def test_snapshots_of_another_query_are_refused(
    tmp_path: Path, state: dict[str, Any], told: str
) -> None:
    feed = feed_of(rate(), tmp_path)
    feed.check_restored(SourceProgress())
    feed.check_restored(
        SourceProgress({"log": {}, "stateful": "", "sources": ["rate-micro-batch"]})
    )
    with pytest.raises(UnsupportedError, match=told):
        feed.check_restored(SourceProgress(state))


def test_state_of_sparks_own_is_refused_where_checkpoints_are_taken() -> None:
    configuration = Configuration().set_string("penstock.spark.master", MASTER)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(1_000)
    env.from_spark(rate().dropDuplicates(["value"])).uid("once").print()
    with pytest.raises(UnsupportedError, match=r"'once' keeps state in Spark \(Deduplicate\)"):
        env.execute()


def test_a_batch_that_changed_is_not_read_on(tmp_path: Path) -> None:
    """Positions in it would mean other rows."""
    feed = feed_of(rate(), tmp_path)
    df = spark().range(100, numPartitions=2)
    state = {"batch": 3, "rows": [50, 50], "group_rows": 50, "partitions": 2}
    feed.write_again(df, state)
    with pytest.raises(JobExecutionError, match="batch 3, which had 100 rows in 2 partitions and"):
        feed.write_again(df.where("id < 90"), state)
    with pytest.raises(JobExecutionError, match="now has 100 in 1"):
        feed.write_again(df.coalesce(1), state)
