"""`print()`: lines on standard output of the driver, when their epoch counts.

Prefixes are Flink's: with parallelism above 1 the number of the subtask, from 1; before it the
identifier if there is one: `2> value`, `id> value`, `id:2> value`. Lines of an epoch come subtask
by subtask. After a recovery, lines that were printed already are not printed again by the same
driver.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from penstock.connectors.collect import DeliveredOutput
from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext


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


class _PrintWriter(SinkWriter):
    def __init__(
        self, context: WriterContext, prefix: str, formatter: Callable[[Any], str]
    ) -> None:
        self._context = context
        self._prefix = prefix
        self._formatter = formatter
        self._texts: list[str] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        if values:
            prefix = self._prefix
            lines = map(self._formatter, values)
            self._texts.append(prefix + f"\n{prefix}".join(lines) + "\n")

    def prepare_commit(self) -> list[Any]:
        if not self._texts:
            return []
        context = self._context
        return [(context.epoch, context.subtask, context.attempt_id, "".join(self._texts))]


_PRINTED: Final[dict[tuple[str, str], DeliveredOutput]] = {}
"""What was printed in this process, by job and uid: it outlives a job's attempts."""


class _PrintCommitter(Committer):
    owes_other_jobs = False

    def __init__(self, to_stderr: bool) -> None:
        self._to_stderr = to_stderr

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        stream = sys.stderr if self._to_stderr else sys.stdout
        printed = _PRINTED.setdefault((context.job_id, context.uid), DeliveredOutput())
        stream.writelines(printed.new(committables))
        stream.flush()
