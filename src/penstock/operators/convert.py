"""Makes an operator's output what its declared type says: tuples become rows with names.

The inner operator runs as it is; only its output is another one. Side outputs pass untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.errors import UserFunctionError
from penstock.core.naming import shorten
from penstock.core.records import Batch
from penstock.core.types import PickledBytesTypeInfo, TypeInformation
from penstock.operators.logic import OperatorLogic, OperatorSpec

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext, Output


def with_output_type(spec: Any, type_info: TypeInformation | None) -> Any:
    """Returns the spec, wrapped if the declared type asks for a check or a conversion."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return spec
    return ConvertOutputSpec(spec, type_info)


@dataclass(frozen=True, slots=True)
class ConvertOutputSpec(OperatorSpec):
    """An operator whose output has a declared type."""

    inner: OperatorSpec
    type_info: TypeInformation

    @property
    def is_keyed(self) -> bool:
        return self.inner.is_keyed

    def build(self) -> OperatorLogic:
        logic = self.inner.build()
        setup, type_info = logic.setup, self.type_info

        def setup_with_type(context: OperatorContext, output: Output) -> None:
            if type_info.is_immutable:
                context.emits_immutable = True
                context.immutable |= {tuple}
            setup(context, TypedOutput(output, type_info, context))

        # A logic around the logic would cost a call for each of its methods and would have to
        # follow every change of their contract; the output is handed over in this one place.
        logic.setup = setup_with_type  # type: ignore[method-assign]
        return logic


class TypedOutput:
    """Checks the first record of each batch and converts all of them."""

    def __init__(
        self, output: Output, type_info: TypeInformation, context: OperatorContext
    ) -> None:
        self._output = output
        self._type_info = type_info
        self._context = context
        self.emit_side = output.emit_side
        self.emit_watermark = output.emit_watermark
        self.emit_idle = output.emit_idle

    def emit(self, batch: Batch) -> None:
        values = batch.values
        if not values:
            self._output.emit(batch)
            return
        wrong = self._type_info.mismatch(values[0])
        if wrong is not None:
            raise self._error(wrong, values[0])
        try:
            converted = self._type_info.convert_all(values)
        except Exception as error:
            record = self._first_failing(values)
            wrong = self._type_info.mismatch(record) or str(error)
            raise self._error(wrong, record) from error
        if converted is not values:
            batch = Batch(converted, batch.timestamps, batch.keys)
        self._output.emit(batch)

    def _first_failing(self, values: list[Any]) -> Any:
        for value in values:
            if self._type_info.mismatch(value) is not None:
                return value
        return values[0]

    def _error(self, wrong: str, record: Any) -> UserFunctionError:
        context = self._context
        return UserFunctionError(
            f"the output of operator '{context.name}' (uid '{context.uid}') is not of its "
            f"output_type: {wrong}. Return records of that type, or declare another one.",
            operator_name=context.name,
            uid=context.uid,
            subtask=context.subtask,
            record=shorten(record),
        )
