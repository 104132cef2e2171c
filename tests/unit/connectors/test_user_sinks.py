"""The user's own sinks: two phases, or a call for every record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.user_sink import FunctionSink, PythonSink, SinkFunction
from penstock.core.errors import (
    ProgramError,
)

if TYPE_CHECKING:
    from penstock.connectors.sink import CommitContext, WriterContext

from sink_job import CONTEXT, at, write

# -- the user's own -------------------------------------------------------------------------------


class Noting(PythonSink):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, context: WriterContext) -> None:
        self.calls.append(("open", context.epoch))

    def write(self, value: Any, context: Any) -> None:
        times = (context.timestamp(), context.current_watermark())
        self.calls.append((value, *times, context.current_processing_time()))

    def prepare_commit(self) -> list[Any]:
        return ["staged"]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        self.calls.append(("commit", committables, context.epoch))

    def close(self) -> None:
        self.calls.append("close")


def test_own_sink() -> None:
    sink = Noting()
    writer = sink.create_writer(CONTEXT)
    writer.write(["a"], [5], 4)
    writer.write(["b"], None, 6)
    assert writer.prepare_commit() == ["staged"]
    writer.close()
    writer.close()
    assert sink.calls == [("open", 1), ("a", 5, 4, 77), ("b", None, 6, 77), "close"]
    committer = sink.create_committer()
    committer.commit([], at(1))
    committer.commit(["staged"], at(2))
    assert sink.calls[4:] == [("commit", ["staged"], 2)]


def test_each_epoch_has_a_copy() -> None:
    class Buffering(PythonSink):
        def open(self, context: WriterContext) -> None:
            self.buffer: list[Any] = []

        def write(self, value: Any, context: Any) -> None:
            self.buffer.append(value)

        def prepare_commit(self) -> list[Any]:
            return self.buffer

    sink = Buffering()
    assert write(sink, [1]) == [1]
    assert write(sink, [2]) == [2]
    assert not hasattr(sink, "buffer")


def test_own_sink_mistakes_are_named() -> None:
    class Nothing(PythonSink):
        def prepare_commit(self) -> Any:
            return "staged"

    writer = Nothing().create_writer(CONTEXT)
    with pytest.raises(ProgramError, match="neither write nor write_batch"):
        writer.write([1], None, 0)
    with pytest.raises(ProgramError, match="must be a list of committables"):
        writer.prepare_commit()


class Calls(SinkFunction):
    """The older form, noting every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, context: WriterContext) -> None:
        self.calls.append("open")

    def invoke(self, value: Any, context: Any) -> None:
        self.calls.append((value, context.timestamp()))

    def finish_epoch(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


def test_sink_functions_are_opened_once() -> None:
    function = Calls()
    sink = FunctionSink(function)
    assert sink.default_name() == "Sink: Calls"
    assert write(sink, [1], 1) == []
    assert write(sink, [2], 2) == []
    sink.close()
    sink.close()
    assert function.calls == ["open", (1, None), "flush", (2, None), "flush", "close"]
    sink.create_committer().commit([], at(2))
