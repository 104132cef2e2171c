"""Watermarks of sources with micro-batches rise between these, whatever is read first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.graph.job_graph import JobGraph
from penstock.runtime.job_state import FirstRead

ONE_DISORDERED_BATCH = (((1000, 1001, 1002, 1003), (0, 1, 2, 3), (500, 501), (20, 1500)),)
"""Splits of times; a watermark that rose with each split would pass most of them."""


@dataclass(frozen=True)
class Batches(Source):
    """Micro-batches of splits of times."""

    batches: tuple[tuple[tuple[int, ...], ...], ...]

    boundedness = Boundedness.BOUNDED
    has_micro_batches = True

    def discover(self, state: Any, now_ms: int) -> Discovery:
        batch = 0 if state is None else state
        splits = tuple(
            Split(f"{batch}-{number}", times) for number, times in enumerate(self.batches[batch])
        )
        return Discovery(splits, batch + 1, complete=batch + 1 == len(self.batches))

    def create_reader(self) -> SourceReader:
        return TimesReader()


class TimesReader(SourceReader):
    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        end = min(len(split.data), position + budget.max_records)
        finished = end == len(split.data)
        return ReadResult(
            list(split.data[position:end]), end, finished=finished, has_more=not finished
        )


def environment(parallelism: int, epoch: int) -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", str(epoch))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def stamped(env: StreamExecutionEnvironment, batches: Any, where: str) -> Any:
    """The stream, its times taken at the source, behind it, or behind an exchange."""
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    strategy = monotonous.with_timestamp_assigner(lambda time: time)
    if where == "source":
        return env.from_source(Batches(batches), strategy, "batches")
    stream = env.from_source(Batches(batches), WatermarkStrategy.no_watermarks(), "batches")
    if where == "exchange":
        stream = stream.rebalance()
    return stream.assign_timestamps_and_watermarks(strategy)


class SeenWatermark(KeyedProcessFunction):
    """Says of each time which watermark it met."""

    def process_element(self, value: int, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("where", ["source", "chain", "exchange"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("epoch", [2, 6, 1000])
def test_nothing_of_one_batch_is_late(where: str, parallelism: int, epoch: int) -> None:
    counts = (
        stamped(environment(parallelism, epoch), ONE_DISORDERED_BATCH, where)
        .key_by(lambda time: 0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .process(lambda key, context, times: [(context.window().start, len(list(times)))])
    )
    assert sorted(counts.execute_and_collect()) == [
        (0, 4),
        (20, 1),
        (500, 2),
        (1000, 4),
        (1500, 1),
    ]


@pytest.mark.parametrize("where", ["source", "chain", "exchange"])
@pytest.mark.parametrize("epoch", [2, 1000])
def test_the_watermark_rises_between_batches(where: str, epoch: int) -> None:
    """The second batch meets the newest of the first, less 1; the third that of the second."""
    batches = (((50, 10), (70, 20)), ((71, 90), (30,)), ((100,),))
    seen = (
        stamped(environment(1, epoch), batches, where)
        .key_by(lambda time: 0)
        .process(SeenWatermark())
    )
    least = -(2**63)
    assert dict(seen.execute_and_collect()) == {
        **dict.fromkeys((50, 10, 70, 20), least),
        **dict.fromkeys((71, 90, 30), 69),
        100: 89,
    }


def test_a_first_read_ends_with_an_epoch_that_finds_nothing_more() -> None:
    first = FirstRead(JobGraph("none", (), ()), is_over=False)
    assert first.is_cut_by(4)
    first.epoch_counts(0, backlog=False)
    first.epoch_counts(4, backlog=True)
    assert first.is_cut_by(64)
    first.epoch_counts(0, backlog=False)
    assert not first.is_cut_by(64)
