"""What may stand at the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.print_sink import PrintSink
from penstock.connectors.sink import Sink
from penstock.connectors.user_sink import FunctionSink, SinkFunction
from penstock.core.errors import ProgramError
from penstock.datastream.printing import formatter_of
from penstock.operators.adapters import check_methods
from penstock.operators.functions import Function

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

__all__ = ["as_sink", "print_sink"]


def as_sink(sink: Any, verb: str) -> Sink:
    """Returns a sink of a sink, of a `SinkFunction`, or of a function of a record."""
    if isinstance(sink, Sink | SinkFunction):
        check_methods(sink)
        return sink if isinstance(sink, Sink) else FunctionSink(sink)
    if callable(sink) and not isinstance(sink, type | Function):
        return FunctionSink(_Called(sink))
    if hasattr(sink, "build"):
        hint = " Call .build() on the builder first."
    elif isinstance(sink, type):
        hint = " Pass an instance: are the brackets missing?"
    else:
        hint = " Take one of penstock.datastream.connectors, or subclass PythonSink."
    raise ProgramError(f"{verb} takes a sink, but got {sink!r:.80}.{hint}")


class _Called(SinkFunction):
    """A plain function of a record as a sink."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def invoke(self, value: Any, context: Any) -> None:
        self._function(value)


def print_sink(sink_identifier: str | None, type_info: TypeInformation, *, to_stderr: bool) -> Sink:
    """Returns the sink of `print()`; declared rows are printed as PyFlink prints them."""
    if sink_identifier is not None and not isinstance(sink_identifier, str):
        raise ProgramError(f"print() takes a text to put before lines, not {sink_identifier!r}.")
    return PrintSink(sink_identifier, to_stderr=to_stderr, formatter=formatter_of(type_info))
