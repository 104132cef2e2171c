"""The bases of a user's own sinks.

`PythonSink` has two phases. One object per subtask and epoch writes, in a worker; what it returns
from `prepare_commit` reaches `commit` or `abort` in the driver, when it is known whether the epoch
counts. A sink that only overrides `write` writes at once: at least once, and visible early.

    class Orders(PythonSink):
        def open(self, context):
            self.rows = []

        def write(self, value, context):
            self.rows.append(value)

        def prepare_commit(self):
            return [self.rows]          # numbers, text, bytes, and lists, tuples, dicts of these

        def commit(self, committables, context):
            with connect() as database:  # must be idempotent: it is called again after a failure
                ...

`SinkFunction` is the older form: `invoke` for every record, at least once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from penstock.connectors.sink import (
    CommitContext,
    Committer,
    NothingToCommit,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.core.errors import ProgramError, shorten
from penstock.core.times import NO_TIMESTAMP


class SinkContext:
    """What is known about the record that is being written; one object, used again and again."""

    __slots__ = ("_now_ms", "_timestamp", "_watermark")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._timestamp = NO_TIMESTAMP
        self._watermark = NO_TIMESTAMP

    def timestamp(self) -> int | None:
        """Returns the record's event time, or None when it has none."""
        return None if self._timestamp == NO_TIMESTAMP else self._timestamp

    def current_watermark(self) -> int:
        """Returns the watermark before the record."""
        return self._watermark

    def current_processing_time(self) -> int:
        """Returns the processing time of the epoch."""
        return self._now_ms


def _write_each(
    write: Callable[[Any, SinkContext], object],
    values: list[Any],
    timestamps: list[int] | None,
    context: SinkContext,
) -> None:
    """Writes records one by one; an exception is given the record as a note."""
    value: Any = None
    try:
        if timestamps is None:
            context._timestamp = NO_TIMESTAMP
            for value in values:
                write(value, context)
            return
        for value, timestamp in zip(values, timestamps, strict=True):
            context._timestamp = timestamp
            write(value, context)
    except Exception as error:
        error.add_note(f"record: {shorten(value)}")
        raise


class PythonSink(Sink):
    """Base of sinks written in Python; instances are pickled and sent to the workers.

    Each epoch of each subtask works on a copy of the object, from `open` to `close`; `commit` and
    `abort` run in the driver, on another copy.
    """

    def open(self, context: WriterContext) -> None:
        """Begins an epoch of a subtask, in the worker."""

    def write(self, value: Any, context: SinkContext) -> None:
        """Writes one record."""
        raise ProgramError(
            f"{type(self).__name__} overrides neither write nor write_batch; one is needed."
        )

    def write_batch(
        self, values: list[Any], timestamps: list[int] | None, context: SinkContext
    ) -> None:
        """Writes records; override it instead of `write` where the target takes many at once."""
        _write_each(self.write, values, timestamps, context)

    def prepare_commit(self) -> list[Any]:
        """Makes durable what was written, and names it in committables for the driver.

        Committables are plain data (numbers, text, bytes, and lists, tuples or dicts of these):
        checkpoints hold them until they are committed.
        """
        return []

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        """Makes output visible, in the driver; must be idempotent."""

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        """Removes output that will never count, in the driver."""

    def close(self) -> None:
        """Ends an epoch, also after an error."""

    # -- the contract of sinks, in terms of the above ---------------------------------------------

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _PythonWriter(copy.copy(self), context)

    def create_committer(self) -> Committer:
        return _PythonCommitter(copy.copy(self))


class _PythonWriter(SinkWriter):
    def __init__(self, sink: PythonSink, context: WriterContext) -> None:
        self._sink = sink
        self._context = SinkContext(context.now_ms)
        self._is_open = True
        sink.open(context)

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        self._context._watermark = watermark
        self._sink.write_batch(values, timestamps, self._context)

    def prepare_commit(self) -> list[Any]:
        committables = self._sink.prepare_commit()
        if not isinstance(committables, list):
            raise ProgramError(
                f"{type(self._sink).__name__}.prepare_commit returned {committables!r:.100}; it "
                "must be a list of committables."
            )
        return committables

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._sink.close()


class _PythonCommitter(Committer):
    kind = "python"

    def __init__(self, sink: PythonSink) -> None:
        self._sink = sink

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        if committables or context.final:
            self._sink.commit(committables, context)

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        self._sink.abort(committables, context)


class SinkFunction:
    """Base of sinks in the older form: called once for every record, at least once."""

    def open(self, context: WriterContext) -> None:
        """Opens connections; called before the first record in a worker."""

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Writes one record."""
        raise ProgramError(f"{type(self).__name__} must override invoke.")

    def finish_epoch(self) -> None:
        """Flushes: whatever came before must be durable afterwards."""

    def close(self) -> None:
        """Closes connections."""


class FunctionSink(Sink):
    """Calls a `SinkFunction`, which is opened once in each worker.

    Args:
        function: The function; records may reach it again after a failure.
    """

    def __init__(self, function: SinkFunction) -> None:
        self._function = function
        self._is_open = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_function": self._function, "_is_open": False}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if not self._is_open:
            self._function.open(context)
            self._is_open = True
        return _FunctionWriter(self._function, context)

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._function.close()

    def default_name(self) -> str:
        return f"Sink: {type(self._function).__name__}"


class _FunctionWriter(SinkWriter):
    def __init__(self, function: SinkFunction, context: WriterContext) -> None:
        self._function = function
        self._context = SinkContext(context.now_ms)

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        context, invoke = self._context, self._function.invoke
        context._watermark = watermark
        _write_each(invoke, values, timestamps, context)

    def prepare_commit(self) -> list[Any]:
        self._function.finish_epoch()
        return []
