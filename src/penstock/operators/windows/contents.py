"""What a window holds, as the program said it: all records, their reduction, or an accumulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.operators.adapters import as_instance, as_reduce, private_copy
from penstock.operators.function_base import AggregateFunction
from penstock.operators.function_checks import refuse_operator_state
from penstock.operators.windows.folded import Aggregated, Reduced
from penstock.operators.windows.window_state import Contents, ContentsSpec, RecordContents

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext

__all__ = ["AggregateContents", "Buffer", "ContentsSpec", "ReduceContents"]

_Aggregated = Aggregated
_PLACE: Final = "what combines the records of a window"


@dataclass(frozen=True, slots=True)
class Buffer(ContentsSpec):
    """All records, for functions that want to see each of them."""

    def open(self, context: OperatorContext) -> Contents:
        return RecordContents(context)


@dataclass(frozen=True, slots=True)
class ReduceContents(ContentsSpec):
    """The records reduced to one by a function of two records."""

    function: Any

    def __post_init__(self) -> None:
        as_reduce(self.function)
        refuse_operator_state(self.function, _PLACE)

    def open(self, context: OperatorContext) -> Contents:
        return Reduced(context, private_copy(self.function))


@dataclass(frozen=True, slots=True)
class AggregateContents(ContentsSpec):
    """The records folded into an accumulator."""

    function: Any

    def __post_init__(self) -> None:
        as_instance(self.function, AggregateFunction)
        refuse_operator_state(self.function, _PLACE)

    def open(self, context: OperatorContext) -> Contents:
        return Aggregated(context, private_copy(self.function))
