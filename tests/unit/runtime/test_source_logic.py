"""Reading stops when its time is over, however slow functions and sources are.

Time is a number that functions and sources add to, so the figures below are worked out by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.source import READ_RECORDS, Budget, ReadResult, Split
from penstock.core.times import EpochClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.start import start_job
from penstock.operators.logic import MetricGroup
from penstock.runtime.records import SourceAssignment, SubtaskReport
from penstock.runtime.source_logic import READ_MS, ReadSize, SourceLogic


@dataclass
class Machine:
    """A chain that costs so much a record, behind a source that costs so much a read."""

    record_ms: float = 0.0
    read_ms: float = 0.0
    read_record_ms: float = 0.0
    now_s: float = 0.0
    batches: list[int] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """Counts of records, and watermarks as `w<time>`, in order."""

    def monotonic_s(self) -> float:
        return self.now_s

    def read(self, split: Split, position: int, budget: Budget) -> ReadResult:
        count = min(budget.max_records, split.data - position)
        self.now_s += (self.read_ms + count * self.read_record_ms) / 1000
        end = position + count
        values = list(range(position, end))
        finished = end == split.data
        return ReadResult(values, end, values, finished=finished, has_more=not finished)

    def register_metrics(self, metrics: Any) -> None:
        pass

    def emit(self, batch: Any) -> None:
        self.batches.append(len(batch))
        self.events.append(len(batch))
        self.now_s += len(batch) * self.record_ms / 1000

    def emit_watermark(self, watermark: int) -> None:
        self.events.append(f"w{watermark}")

    def emit_idle(self, *, idle: bool) -> None:
        pass


class Subtask:
    """Epoch after epoch of one source."""

    def __init__(
        self,
        machine: Machine,
        splits: list[Split],
        strategy: Any = None,
        at_once: int = 1,
    ) -> None:
        source = SimpleNamespace(create_reader=lambda: machine, emits_watermarks=False)
        spec: Any = SimpleNamespace(source=source, strategy=strategy, reads_columns=False)
        self.machine = machine
        self.positions = {split.split_id: (split, 0) for split in splits}
        self.logic = SourceLogic(spec, machine.monotonic_s)
        context: Any = SimpleNamespace(clock=EpochClock(), name="source", metrics=MetricGroup())
        self.logic.setup(context, machine)  # type: ignore[arg-type]
        self.logic.at_once = at_once
        self.logic.open()
        self.logic.restore(None)

    def epoch(self, max_ms: float, max_records: int = 1_000_000) -> SubtaskReport:
        report = SubtaskReport(0, 0, 1)
        budget = Budget(max_records, 1 << 30, 0, max_ms=max_ms)
        assignment = SourceAssignment(tuple(self.positions.values()), budget, is_last=True)
        for _ in self.logic.read(assignment, report):
            pass
        self.logic.end_of_epoch()
        for split_id, position in report.positions.items():
            self.positions[split_id] = self.positions[split_id][0], position
        for split_id in report.finished_splits:
            del self.positions[split_id]
        return report


def one(records: int = 50_000, *, concurrent: bool = False, name: str = "s") -> Split:
    return Split(name, records, concurrent=concurrent)


@pytest.mark.parametrize("record_ms", [0.5, 5.0, 20.0, 400.0, 5_000.0])
def test_an_epoch_ends_within_its_time_and_a_record(record_ms: float) -> None:
    machine = Machine(record_ms)
    job = Subtask(machine, [one()])
    for _ in range(5):
        began_s = machine.now_s
        report = job.epoch(1_000)
        took_ms = (machine.now_s - began_s) * 1000
        assert took_ms <= 1_000 + record_ms + 1e-6
        assert report.records_read >= 1
        assert report.backlog
        assert report.cut_short
        assert report.positions["s"] == sum(machine.batches)
    # All of the time is used: the epochs after the first know what a record costs.
    assert took_ms > 1_000 - record_ms


def test_nothing_is_read_twice_or_left_out() -> None:
    job = Subtask(Machine(3.0), [one(2_000)])
    reports = [job.epoch(1_000)]
    while not reports[-1].input_ended:
        reports.append(job.epoch(1_000))
    assert sum(report.records_read for report in reports) == sum(job.machine.batches) == 2_000
    assert len(reports) == 6  # Of 6 s of work.


def test_a_fast_chain_gets_whole_reads() -> None:
    machine = Machine(0.001)
    job = Subtask(machine, [one(1_000_000)])
    assert job.epoch(10_000, max_records=200_000).records_read == 200_000
    machine.batches.clear()
    job.epoch(10_000, max_records=2 * READ_RECORDS)
    assert machine.batches == [1024] * 32


def test_a_function_that_turns_slow_gets_few_records_again() -> None:
    machine = Machine(0.001)
    job = Subtask(machine, [one(1_000_000)])
    job.epoch(1_000)
    machine.record_ms = 1.0
    job.epoch(1_000)
    began_s = machine.now_s
    job.epoch(1_000)
    assert machine.now_s - began_s <= 1.001


def test_calls_that_run_at_once_are_not_made_one_by_one() -> None:
    """An asynchronous function with a capacity of 100 is given 100 records from the first on."""
    job = Subtask(Machine(10.0), [one()], at_once=100)
    assert job.epoch(1_000).records_read == 100
    assert job.machine.batches == [100]


def test_a_read_that_costs_the_same_whatever_it_gives_is_a_large_one() -> None:
    """A request of 200 ms for each read: reads grow to their full size, and stay there."""
    job = Subtask(Machine(read_ms=200.0), [one(1_000_000)])
    job.epoch(2_000)
    assert job.epoch(1_000).records_read == 5 * READ_RECORDS


def test_a_source_that_is_slow_itself_ends_in_time() -> None:
    machine = Machine(read_record_ms=20.0)
    job = Subtask(machine, [one()])
    for _ in range(3):
        began_s = machine.now_s
        assert job.epoch(1_000).backlog
        assert machine.now_s - began_s <= 1.16  # A read of eight tells what a record costs.
    assert job.epoch(1_000).records_read == 50


def test_splits_that_are_read_side_by_side_share_the_time() -> None:
    splits = [one(concurrent=True, name=name) for name in "abcd"]
    job = Subtask(Machine(5.0), splits)
    report = job.epoch(1_000)
    assert all(40 <= report.positions[name] <= 60 for name in "abcd")


def test_a_split_that_had_to_wait_is_the_first_of_the_next_epoch() -> None:
    """One record takes longer than the epoch should: each split has its turn."""
    splits = [one(concurrent=True, name=name) for name in "abc"]
    job = Subtask(Machine(5_000.0), splits)
    turns = []
    for _ in range(6):
        before = {name: at for name, (_, at) in job.positions.items()}
        after = job.epoch(1_000).positions
        turns.append([name for name in "abc" if after[name] > before[name]])
    assert turns == [["a"], ["b"], ["c"], ["a"], ["b"], ["c"]]


def test_a_split_without_time_reports_where_it_stands() -> None:
    job = Subtask(Machine(2_000.0), [one(5, name="a"), one(5, name="b")])
    report = job.epoch(1_000)
    assert report.positions == {"a": 1, "b": 0}
    assert not report.input_ended


def test_the_size_of_reads_has_no_say_in_when_watermarks_rise() -> None:
    """Few records at once, and yet watermarks rise where those of whole reads do."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    slow = Subtask(Machine(0.5), [one(2 * READ_RECORDS + 10)], strategy)
    report = slow.epoch(60_000)
    events = slow.machine.events
    marks = {
        mark: sum(each for each in events[:at] if isinstance(each, int))
        for at, mark in enumerate(events)
        if isinstance(mark, str)
    }
    ends = [READ_RECORDS, 2 * READ_RECORDS, 2 * READ_RECORDS + 10]
    assert list(marks.values())[:3] == ends
    assert list(marks)[:3] == [f"w{end - 2}" for end in ends]  # The newest, less a millisecond.
    assert report.input_ended


def test_the_watermark_follows_when_time_ends_a_read() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    job = Subtask(Machine(100.0), [one()], strategy)
    job.epoch(950)  # Ten records: the newest is 9.
    assert [each for each in job.machine.events if isinstance(each, str)] == ["w8"]


@pytest.mark.parametrize(
    ("cost", "most"),
    [
        (lambda n: 20.0 * n, 3),
        (lambda n: 0.1 * n, 500),
        (lambda n: 0.0001 * n, 8 * READ_RECORDS),
    ],
)
def test_read_sizes_settle(cost: Callable[[int], float], most: int) -> None:
    size = ReadSize()
    for _ in range(12):
        size.learn(size.records, 0.0, cost(size.records))
    assert most / 2 <= size.records <= most
    assert cost(size.records) <= READ_MS + cost(1)
    size.learn(0, 5_000.0, 0.0)  # Nothing there: nothing learnt.
    assert most / 2 <= size.records <= most


def test_epochs_of_a_job_with_a_slow_function() -> None:
    """A millisecond of sleep a record: an epoch of a tenth of a second has 150 at the very most."""
    epochs: list[int] = []
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.target-duration", "100 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)

    def slow(value: int) -> int:
        time.sleep(0.001)
        return value

    env.from_collection(list(range(500))).map(slow).print()
    job = start_job(
        env._stream_graph("slow"),
        configuration,
        lambda summary: epochs.append(summary.records_read),
    )
    job.wait()
    assert sum(epochs) == 500
    assert max(epochs) <= 150  # The time, and one read of 50 ms.


def test_nothing_learnt_and_no_time_left_is_the_least_read() -> None:
    assert ReadSize(3).within(-0.1) == 3
    learnt = ReadSize()
    learnt.learn(100, 0.0, 0.0)
    assert learnt.within(-5.0) == 1
