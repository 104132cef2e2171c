"""Two operators around another one: its output is converted, or its inputs come sorted.

An output becomes what its declared type says: tuples become rows with names. The inner operator
runs as it is; only its output is another one. Side outputs pass untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import UserFunctionError, shorten
from penstock.core.records import BATCH_RECORDS, Batch
from penstock.core.times import MAX_TIMESTAMP, MIN_WATERMARK, NO_TIMESTAMP
from penstock.core.types import PickledBytesTypeInfo, TypeInformation
from penstock.operators.function_logic import keyed_state_of, keys_of
from penstock.operators.logic import OperatorContext, OperatorLogic, OperatorSpec, Output

if TYPE_CHECKING:
    from penstock.state.tables import ListTable


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


# Gives an operator the records of a key in order of time, as Flink does in BATCH mode.
#
# 1. Records of keyed inputs wait in the key's state; those of broadcast inputs pass.
# 2. Event time does not advance before the end of all inputs. Then one timer for each key fires.
#   The records of the key are sorted by timestamp, those of all its inputs together, and the
#   operator gets them. Records of one time keep the order of their inputs, and in an input their
#   own.
# 3. Timers that the operator registers meanwhile fire behind.
#
# As in Flink, the watermark stands at its start while a function gets records, and at its end while
# timers fire. A timer for each key, and not one loop over all, lets epochs end in time.


_SORT: Final = "sort"
"""Namespace of the timers."""

Waiting = tuple[int, int, Any]
"""Timestamp, input and value of a record."""


@dataclass(frozen=True, slots=True)
class SortedInputsSpec(OperatorSpec):
    """A keyed operator whose records come sorted."""

    inner: OperatorSpec
    inputs: tuple[int, ...]  # Those with keys.
    is_keyed = True

    def build(self) -> OperatorLogic:
        logic = self.inner.build()
        _Sorting(logic, self.inputs).take_over()
        return logic


class _Sorting:
    """Stands before three methods of a logic; what it keeps is keyed state."""

    def __init__(self, logic: OperatorLogic, inputs: tuple[int, ...]) -> None:
        self._logic = logic
        self._inputs = inputs
        self._open: Callable[[], None] = logic.open
        self._process: Callable[[Batch, int], None] = logic.process
        self._on_event_timer: Callable[[int, Any, Any], None] = logic.on_event_timer
        self._waiting: ListTable

    def take_over(self) -> None:
        # A logic around the logic would have to follow every change of their contract.
        logic: Any = self._logic
        logic.open, logic.process = self.open, self.process
        logic.on_event_timer = self.on_event_timer

    def open(self) -> None:
        self._state = keyed_state_of(self._logic)
        self._waiting = self._state.list_table("sorted-input")
        self._open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if input_index not in self._inputs:
            self._process(batch, input_index)
            return
        keys = keys_of(self._logic, batch)
        times = batch.timestamps or [NO_TIMESTAMP] * len(batch)
        by_key: dict[Any, list[Waiting]] = {}
        for key, time_ms, value in zip(keys, times, batch.values, strict=True):
            by_key.setdefault(key, []).append((time_ms, input_index, value))
        for key, records in by_key.items():
            self._waiting.extend(key, None, records)
            self._state.event_timers.add(MAX_TIMESTAMP, key, _SORT)

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        if namespace != _SORT:
            self._on_event_timer(time_ms, key, namespace)
            return
        logic, timers = self._logic, self._logic.context.timers
        assert timers is not None, "keyed operators have timers"
        records = sorted(self._waiting.get(key), key=_time_and_input)
        self._waiting.remove(key)
        self._state.namespace = None
        watermark = logic.watermark
        logic.watermark = MIN_WATERMARK
        timers.restore_watermark(MIN_WATERMARK)
        for input_index, group in groupby(records, key=_input):
            run = list(group)
            for start in range(0, len(run), BATCH_RECORDS):
                self._process(_batch(key, run[start : start + BATCH_RECORDS]), input_index)
        logic.watermark = watermark
        timers.restore_watermark(watermark)


def _batch(key: Any, records: list[Waiting]) -> Batch:
    times = [time_ms for time_ms, _, _ in records]
    is_timed = any(time_ms != NO_TIMESTAMP for time_ms in times)
    values = [value for _, _, value in records]
    return Batch(values, times if is_timed else None, [key] * len(records))


def _time_and_input(record: Waiting) -> tuple[int, int]:
    return record[:2]


def _input(record: Waiting) -> int:
    return record[1]
