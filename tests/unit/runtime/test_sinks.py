"""What the driver keeps of the output of sinks."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from penstock.connectors.collect import CollectSink
from penstock.core.errors import InputError, JobExecutionError, is_lasting
from penstock.core.times import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSink
from penstock.datastream.connectors.file_system import Encoder, FileSink
from penstock.datastream.connectors.services import HttpSink
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


def commits_of(sink: Any, job_id: str) -> SinkCommits:
    """Returns the commits of a job with this sink under the uid 'out'."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).sink_to(sink).uid("out")
    return SinkCommits(compile_graph(env._stream_graph("job")), job_id, SystemClock())


FILES = FileSink.for_row_format("/nowhere", Encoder.simple_string_encoder()).build()
OTHERS = {"file": FILES, "none": HttpSink("http://localhost:1"), "collect": CollectSink("results")}


@pytest.mark.parametrize("other", OTHERS)
def test_output_that_another_kind_of_sink_owes(other: str) -> None:
    """It has another form, which no restart changes: the job ends, and nothing is taken for it."""
    before, after = commits_of(Nowhere(), "a" * 32), commits_of(OTHERS[other], "a" * 32)
    before.prepared(1, [SubtaskReport(0, 0, 0, committables={"out": ["owed"]})])
    owed = before.snapshot()[0]
    with pytest.raises(InputError, match=r"kind of sink \(python\), which had the uid "):
        after.restore(owed, "a" * 32)
    before.commit(1)
    after.restore(before.snapshot()[0], "a" * 32)
    same = commits_of(Nowhere(), "b" * 32)
    same.restore(owed, "a" * 32)
    assert same.snapshot()[0]["out"]["pending"] == [[1, "owed"]]


def test_what_another_kind_of_sink_has_shown_before_the_job_ended() -> None:
    before, after = commits_of(CollectSink("results"), "a" * 32), commits_of(FILES, "b" * 32)
    before.prepared(1, [SubtaskReport(0, 0, 0, committables={"out": [(1, 0, "a", [b""])]})])
    after.restore(before.snapshot()[0], "a" * 32)
    assert after.snapshot()[0]["out"]["pending"] == []


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
