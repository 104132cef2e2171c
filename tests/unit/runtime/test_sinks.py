"""What the driver keeps of the output of sinks."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from penstock.core.errors import JobExecutionError, is_lasting
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


class Raising(PythonSink):
    """Its commit raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def commit(self, committables: list[Any], context: Any) -> None:
        raise self.error


@pytest.mark.parametrize("error", [TypeError("no len()"), NameError("x"), KeyError("x")], ids=repr)
def test_commits_that_no_restart_heals(error: Exception) -> None:
    """A restart commits the same again: its types and names are wrong then, too."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).sink_to(Raising(error)).uid("out")
    sinks = SinkCommits(compile_graph(env._stream_graph("job")), "a" * 32, SystemClock())
    sinks.prepared(1, [SubtaskReport(0, 0, 0, committables={"out": ["owed"]})])
    with pytest.raises(JobExecutionError, match=f"^sink 'out': {type(error).__name__}: ") as met:
        sinks.commit(1)
    assert is_lasting(met.value) == (not isinstance(error, KeyError))


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
