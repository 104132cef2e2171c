"""Rolling reduce and the built-in rolling aggregations of keyed streams.

Each record gives one output: the value so far, with that record's timestamp.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from penstock.core.errors import ProgramError, nothing_returned
from penstock.core.records import Batch
from penstock.operators.adapters import as_reduce
from penstock.operators.errors import user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.logic import OperatorLogic, OperatorSpec

# `sum`, `min`, `max`, `min_by` and `max_by` as reduce functions over one field of a record.
#
# `min` and `max` change the field only and keep the rest of the first record; `min_by` and `max_by`
# give the whole record that holds the extreme, the first one on ties. Records are tuples, named
# tuples, lists, dicts, `Row`s, dataclasses or plain values.

KINDS: Final = ("sum", "min", "max", "min_by", "max_by")

Get = Callable[[Any], Any]
Replace = Callable[[Any, Any], Any]
Reduce = Callable[[Any, Any], Any]

_PLAIN: Final = (str, bytes, bytearray, int, float, complex)


@dataclass(frozen=True)
class RollingAggregation:
    """Chooses the code for the type of the records that come, once per type."""

    kind: str  # One of `KINDS`.
    # Position or name of the field; 0 also means the whole of a plain value.
    position: int | str = 0
    _by_type: dict[type, Reduce] = field(default_factory=dict, init=False, compare=False)
    _access: dict[type, tuple[Get, Replace]] = field(
        default_factory=dict, init=False, compare=False
    )

    def __post_init__(self) -> None:
        kind, position = self.kind, self.position
        if kind not in KINDS:
            raise ProgramError(
                f"there is no aggregation {kind!r}; choose one of {', '.join(KINDS)}."
            )
        if isinstance(position, bool) or not isinstance(position, int | str):
            raise ProgramError(
                f"{kind}() takes the position (int) or the name (str) of a field, but got "
                f"{type(position).__name__} {position!r:.80}."
            )

    def __call__(self, first: Any, second: Any) -> Any:
        reduce = self._by_type.get(second.__class__) or self._learned(second)
        return reduce(first, second)

    def _learned(self, sample: Any) -> Reduce:
        reduce = self._by_type[type(sample)] = _reducer(self.kind, self.position, sample)
        return reduce

    def explained(self, error: Exception) -> Exception:
        """Returns what to raise for an error of `__call__`: better words if there are some."""
        text = str(error)
        is_mixture = "unsupported operand" in text or "not supported between" in text
        if not isinstance(error, TypeError) or not is_mixture:
            return error
        verb = "added" if self.kind == "sum" else "compared"
        return ProgramError(
            f"{self!r} met values that cannot be {verb}: {text}. Make them one type before it, for "
            "example with map(), and filter out None."
        )

    def specialized(self, values: list[Any]) -> Reduce:
        """Returns the code for these records alone if all are of one type, else itself."""
        types = set(map(type, values))
        if len(types) != 1:
            return self
        return self._by_type.get(types.pop()) or self._learned(values[0])

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        """Returns what reducing record by record gives, at the speed of C."""
        rest, kind = list(values), self.kind
        types = set(map(type, rest))
        if len(types) != 1:
            return functools.reduce(self, rest, accumulator)
        (record_type,) = types
        if record_type not in self._access:
            self._access[record_type] = field_access(rest[0], self.position, kind)
        get, replace = self._access[record_type]
        if kind == "sum":
            present = get(accumulator)
            return replace(accumulator, functools.reduce(operator.add, map(get, rest), present))
        everything = chain((accumulator,), rest)
        if kind == "min_by":
            return min(everything, key=get)
        if kind == "max_by":
            return max(everything, key=get)
        present = get(accumulator)
        best = (min if kind == "min" else max)(chain((present,), map(get, rest)))
        return accumulator if best is present else replace(accumulator, best)

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "position": self.position, "_by_type": {}, "_access": {}}

    def __repr__(self) -> str:
        return f"{self.kind}({self.position!r})"


def _reducer(kind: str, position: int | str, sample: Any) -> Reduce:
    get, replace = field_access(sample, position, kind)
    if kind == "sum" and type(sample) is tuple:
        return _sum_of_tuples(int(position) % len(sample))
    if kind == "min_by":
        return lambda first, second: second if get(second) < get(first) else first
    if kind == "max_by":
        return lambda first, second: second if get(second) > get(first) else first
    if kind == "min":
        return lambda first, second: (
            replace(first, get(second)) if get(second) < get(first) else first
        )
    if kind == "max":
        return lambda first, second: (
            replace(first, get(second)) if get(second) > get(first) else first
        )
    return lambda first, second: replace(first, get(first) + get(second))


def _sum_of_tuples(index: int) -> Reduce:
    """Returns the sum of one field of plain tuples: the commonest case, without inner calls."""
    rest = index + 1

    def add(first: Any, second: Any) -> Any:
        return (*first[:index], first[index] + second[index], *first[rest:])

    return add


def field_access(sample: Any, position: int | str, verb: str) -> tuple[Get, Replace]:
    """Returns how to read a field and how to make a record with another value in it.

    Args:
        sample: A record of the type in question.
        position: Position or name of the field.
        verb: What is asked for, for the error.
    """
    kind = type(sample)
    if isinstance(sample, tuple):
        return _tuple_access(sample, position, verb)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        name = _name_of(names, position, sample, verb)
        return operator.attrgetter(name), lambda record, value: dataclasses.replace(
            record, **{name: value}
        )
    if isinstance(sample, dict):
        if position not in sample:
            raise _no_field(sample, position, verb, list(sample))
        return operator.itemgetter(position), lambda record, value: {**record, position: value}
    if isinstance(sample, _PLAIN) or not hasattr(kind, "__getitem__"):
        if position != 0:
            raise _no_field(sample, position, verb, [0])
        return (lambda record: record), (lambda record, value: value)
    if isinstance(sample, list) and isinstance(position, str):
        raise _no_field(sample, position, verb, list(range(len(sample))))
    try:
        sample[position]
    except (LookupError, ValueError, TypeError, AttributeError):
        raise _no_field(sample, position, verb, _names_of(sample)) from None
    return operator.itemgetter(position), _replacer(position)


def _replacer(position: int | str) -> Replace:
    def replace(record: Any, value: Any) -> Any:
        # A copy: the old record may be in the output already.
        changed = copy.copy(record)
        changed[position] = value
        return changed

    return replace


def _tuple_access(sample: Any, position: int | str, verb: str) -> tuple[Get, Replace]:
    names = getattr(sample, "_fields", None)
    if names is not None and hasattr(sample, "_replace"):
        name = _name_of(list(names), position, sample, verb)
        return operator.attrgetter(name), lambda record, value: record._replace(**{name: value})
    if not isinstance(position, int) or not -len(sample) <= position < len(sample):
        raise _no_field(sample, position, verb, list(range(len(sample))))
    index = position % len(sample)

    def replace(record: Any, value: Any) -> Any:
        return (*record[:index], value, *record[index + 1 :])

    return operator.itemgetter(index), replace


def _name_of(names: list[str], position: int | str, sample: Any, verb: str) -> str:
    if isinstance(position, str) and position in names:
        return position
    if isinstance(position, int) and -len(names) <= position < len(names):
        return names[position]
    raise _no_field(sample, position, verb, names)


def _names_of(sample: Any) -> list[Any]:
    names = getattr(sample, "_fields", None)
    if names:
        return list(names)
    try:
        return list(range(len(sample)))
    except TypeError:
        return []


def _no_field(sample: Any, position: Any, verb: str, known: list[Any]) -> ProgramError:
    shown = ", ".join(repr(name) for name in known[:20]) or "none"
    return ProgramError(
        f"{verb}({position!r}) finds no such field in a record of type {type(sample).__name__}; "
        f"its fields are {shown}. A plain value has the field 0 only."
    )


_ABSENT: Final = object()


@dataclass(frozen=True)
class ReduceSpec(OperatorSpec):
    """`KeyedStream.reduce`, and with a `RollingAggregation` `sum`, `min`, `max` and so on."""

    is_keyed = True
    function: Any  # A `ReduceFunction` or any callable of two values.

    def __post_init__(self) -> None:
        as_reduce(self.function)

    def build(self) -> OperatorLogic:
        return ReduceLogic(self.function)


class ReduceLogic(FunctionLogic):
    """Folds each record into the value of its key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._call: Callable[[Any, Any], Any] = as_reduce(self.function)

    def open(self) -> None:
        self._state = keyed_state_of(self)
        self._table = self._state.value_table("reduce")
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        keys = keys_of(self, batch)
        self._state.prefetch(keys)
        self.output.emit(Batch(self._fold(keys, batch.values), batch.timestamps))

    def _fold(self, keys: list[Any], inputs: list[Any]) -> list[Any]:
        state, table, absent = self._state, self._table, _ABSENT
        immutable, snapshot = self.context.immutable, self.context.snapshot
        # The table is asked once per key and batch.
        held: dict[Any, Any] = {}
        look = held.get
        values: list[Any] = []
        append = values.append
        records = iter(inputs)
        with user_code(self.context, inputs, records):
            function = self._call
            if isinstance(function, RollingAggregation):
                function = function.specialized(inputs)
            try:
                for key, value in zip(keys, records, strict=True):
                    state.key = key
                    current = look(key, absent)
                    if current is absent:
                        current = table.get(key, None)
                    if current is None:
                        result = value
                    else:
                        result = function(current, value)
                        if result is None:
                            raise nothing_returned(self._call, "the combined record")
                    held[key] = result
                    append(result if type(result) in immutable else snapshot(result))
            except TypeError as error:
                if isinstance(self._call, RollingAggregation):
                    clearer = self._call.explained(error)
                    if clearer is not error:
                        raise clearer from error
                raise
        for key, value in held.items():
            table.put(key, None, value)
        return values
