"""Sinks whose records go back to the driver: `execute_and_collect` and `print()`.

1. A writer puts an epoch's records into a committable: pickled chunks, or lines.
2. The committer, in the driver, hands them to the receiver that the program registered under the
   sink's name, or prints them. Receiver and driver live in one process; the sink itself is pickled
   to workers and knows only the name.
3. What was delivered is remembered, so that a commit that is repeated after a recovery shows
   nothing twice. Epochs would not do as a memory: their numbers come again when a job starts again,
   with other records in them.

Prefixes of printed lines are Flink's: with parallelism above 1 the number of the subtask, from 1;
before it the identifier if there is one: `2> value`, `id> value`, `id:2> value`. Lines of an epoch
come subtask by subtask.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core import codec
from penstock.core.errors import ProgramError

_RECEIVERS: Final[dict[str, CollectedResults]] = {}


class CollectedResults:
    """The records of one collect sink, in the order in which they were committed.

    Iterating waits for records and ends when the job has. `put` may come from another thread.

    Args:
        name: Name that the sink carries; unique within the process.
        max_buffered: How many records wait at most; then the job waits for the program. None where
            the job runs in the thread that iterates, which would wait for itself.
    """

    def __init__(self, name: str, max_buffered: int | None = None) -> None:
        if name in _RECEIVERS:
            raise ProgramError(f"a receiver named {name!r} exists already; names are unique.")
        self.name = name
        self._max_buffered = max_buffered
        self._changed = threading.Condition()
        self._chunks: deque[list[Any]] = deque()
        self._buffered = 0
        self.delivered = DeliveredOutput()
        self._is_finished = False
        self._is_closed = False
        self._error: BaseException | None = None
        _RECEIVERS[name] = self

    def put(self, chunk: list[Any]) -> None:
        """Takes records; waits while too many are there already."""
        with self._changed:
            while self._is_full() and not self._is_closed:
                self._changed.wait()
            if not self._is_closed:
                self._chunks.append(chunk)
                self._buffered += len(chunk)
                self._changed.notify_all()

    def _is_full(self) -> bool:
        return self._max_buffered is not None and self._buffered >= self._max_buffered

    def finish(self, error: BaseException | None = None) -> None:
        """The job ended; iterators give the rest, then the error if there is one."""
        with self._changed:
            self._is_finished = True
            self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """The program wants no more; later records are dropped, and a waiting job goes on."""
        with self._changed:
            self._is_closed = True
            self._chunks.clear()
            self._buffered = 0
            self._changed.notify_all()
        _RECEIVERS.pop(self.name, None)

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._changed:
                while not (self._chunks or self._is_finished or self._is_closed):
                    self._changed.wait()
                if self._is_closed or not self._chunks:
                    break
                chunk = self._chunks.popleft()
                self._buffered -= len(chunk)
                self._changed.notify_all()
            yield from chunk
        if self._error is not None and not self._is_closed:
            raise self._error


class CollectSink(Sink):
    """Sends records to the `CollectedResults` of the same name.

    Args:
        name: The receiver's name.
    """

    _default_name = "Collect Sink"

    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _CollectWriter(context)

    def create_committer(self) -> Committer:
        return _CollectCommitter(self.name)


class _Writer(SinkWriter):
    """Has one committable for each epoch with output."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._chunks: list[Any] = []

    def prepare_commit(self) -> list[Any]:
        context = self._context
        output = (context.epoch, context.subtask, context.attempt_id, self._chunks)
        return [output] if self._chunks else []


class _CollectWriter(_Writer):
    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        # Pickled at once: a function may change a record after it has been written.
        try:
            self._chunks.append(codec.dumps(values))
        except Exception as error:
            raise ProgramError(
                f"the records of execute_and_collect() cannot be sent to the program: {error}. "
                "Map them to plain values first."
            ) from None


class _CollectCommitter(Committer):
    kind = "collect"
    owes_other_jobs = False

    def __init__(self, name: str) -> None:
        self._name = name

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        if not committables:
            return
        receiver = _RECEIVERS.get(self._name)
        if receiver is None:
            return  # The program closed its iterator and does not want the rest.
        for chunks in receiver.delivered.new(committables):
            for chunk in chunks:
                receiver.put(pickle.loads(chunk))


class DeliveredOutput:
    """Tells output that was delivered before from new one.

    Committables are `(epoch, subtask, attempt id, output)`. What a recovery commits again was in
    one of the last two commits, so no more is remembered.
    """

    def __init__(self) -> None:
        self._before: set[tuple[int, str]] = set()
        self._last: set[tuple[int, str]] = set()

    def new(self, committables: list[Any]) -> list[Any]:
        """Returns output that was not delivered yet, by epoch and subtask, and remembers it."""
        known = self._before | self._last
        given = {(subtask, attempt_id) for _, subtask, attempt_id, _ in committables}
        if not given <= known:
            self._before, self._last = self._last, given
        return [
            output
            for _, subtask, attempt_id, output in sorted(committables, key=lambda item: item[:3])
            if (subtask, attempt_id) not in known
        ]


class PrintSink(Sink):
    """Prints records.

    Args:
        identifier: Text before every line.
        to_stderr: Whether to print to standard error.
        formatter: Makes the text of a record; `str` unless a type asks for another form.
    """

    def __init__(
        self,
        identifier: str | None = None,
        to_stderr: bool = False,
        formatter: Callable[[Any], str] = str,
    ) -> None:
        self._identifier = identifier or ""
        self._to_stderr = to_stderr
        self._formatter = formatter

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _PrintWriter(context, self._prefix(context), self._formatter)

    def _prefix(self, context: WriterContext) -> str:
        parts = [self._identifier] if self._identifier else []
        if context.parallelism > 1:
            parts.append(str(context.subtask + 1))
        return f"{':'.join(parts)}> " if parts else ""

    def create_committer(self) -> Committer:
        return _PrintCommitter(self._to_stderr)

    def default_name(self) -> str:
        return f"Print to Std. {'Err' if self._to_stderr else 'Out'}"


def format_row(value: Any) -> str:
    """Formats a row of a declared row type as PyFlink prints it: `+I[1,a]`."""
    if hasattr(value, "get_row_kind"):
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    return str(value)


class _PrintWriter(_Writer):
    def __init__(
        self, context: WriterContext, prefix: str, formatter: Callable[[Any], str]
    ) -> None:
        super().__init__(context)
        self._prefix = prefix
        self._formatter = formatter

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        if values:
            prefix = self._prefix
            lines = map(self._formatter, values)
            self._chunks.append(prefix + f"\n{prefix}".join(lines) + "\n")


_PRINTED: Final[dict[tuple[str, str], DeliveredOutput]] = {}
"""What was printed in this process, by job and uid: it outlives a job's attempts."""


class _PrintCommitter(Committer):
    kind = "print"
    owes_other_jobs = False

    def __init__(self, to_stderr: bool) -> None:
        self._to_stderr = to_stderr

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        stream = sys.stderr if self._to_stderr else sys.stdout
        printed = _PRINTED.setdefault((context.job_id, context.uid), DeliveredOutput())
        for texts in printed.new(committables):
            stream.writelines(texts)
        stream.flush()
