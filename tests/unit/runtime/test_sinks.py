"""What the driver keeps of the output of sinks."""

from __future__ import annotations

import tracemalloc
from typing import Any

from penstock.core.times import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSink
from penstock.graph.job_graph import compile_graph
from penstock.runtime.records import SubtaskReport
from penstock.runtime.sinks import SinkCommits


class Nowhere(PythonSink):
    """Commits bytes to nowhere."""

    def commit(self, committables: list[Any], epoch: int) -> None:
        pass


def test_savepoints_leave_nothing_in_memory() -> None:
    """Committables that hold their bytes, 100 kB an epoch, and a savepoint of each epoch."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).sink_to(Nowhere()).uid("out")
    sinks = SinkCommits(compile_graph(env._stream_graph("job")), "a" * 32, SystemClock())

    def epoch(number: int) -> None:
        report = SubtaskReport(0, 0, 0)
        report.committables = {"out": [{"bytes": bytes([number]) * 100_000}]}
        sinks.prepared(number, [report])
        sinks.promise(sinks.snapshot()[0])
        sinks.commit(number, number)

    epoch(1)
    tracemalloc.start()
    try:
        for number in range(2, 52):
            epoch(number)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert sinks.has_promised


def test_splits_that_ended_leave_nothing_in_memory() -> None:
    """A source that follows a table has new files without end: here one in each epoch."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).sink_to(Nowhere()).uid("out")
    sinks = SinkCommits(compile_graph(env._stream_graph("job")), "a" * 32, SystemClock())

    def epoch(number: int) -> None:
        split = f"{number}:" + "x" * 1_000
        report = SubtaskReport(0, 0, 0, positions={split: number}, finished_splits=[split])
        sinks.prepared(number, [report])
        sinks.commit(number, number)

    epoch(1)
    tracemalloc.start()
    try:
        for number in range(2, 2_000):
            epoch(number)
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
