"""Collects what process functions give, and hands it on in batches.

Outputs of a batch lie in one flat list; `ends[i]` is its length after record `i`. From both, the
timestamp of each output is found for the whole batch at once.
"""

from __future__ import annotations

from itertools import chain, repeat
from operator import itemgetter, sub
from typing import TYPE_CHECKING, Any

from penstock.core.copies import IMMUTABLE, never_copy, snapshot
from penstock.core.errors import ProgramError
from penstock.core.records import Batch
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.operators.logic import OperatorLogic, Output


class OutputTag:
    """Names a side output; two tags with one id are the same side output.

    Attributes:
        tag_id: The name, not empty.
        type_info: Type of the records, or None for any Python object.
    """

    in_use = False
    """Whether this process ever saw a tag. While it did not, no output can be a tagged pair, and
    operators skip the search for them."""

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise ProgramError(
                f"an OutputTag needs a name that is not empty, but got {tag_id!r}. "
                'Write for example OutputTag("late-data").'
            )
        OutputTag.in_use = True
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through __init__, so that a worker that only unpickles a tag knows of it too.
        return type(self), (self.tag_id, self.type_info)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


never_copy(OutputTag)


def as_output_tag(tag: Any) -> OutputTag:
    """Returns `tag`, or says what a side output is named by."""
    if isinstance(tag, OutputTag):
        return tag
    raise ProgramError(
        f"a side output is named by an OutputTag, but got {type(tag).__name__} {tag!r:.80}. "
        'Make one with OutputTag("name").'
    )


def spread(timestamps: list[int], ends: list[int], count: int) -> list[int]:
    """Returns one timestamp per output, given one per record."""
    if count == len(timestamps) and ends == list(range(1, count + 1)):
        return timestamps
    counts = map(sub, ends, chain((0,), ends))
    return list(chain.from_iterable(map(repeat, timestamps, counts)))


class SideOutputs:
    """Values for side outputs, kept back until the batch is done."""

    __slots__ = ("_pending", "_snapshot")

    def __init__(self, snapshot: Callable[[Any], Any] = snapshot) -> None:
        self._snapshot = snapshot
        self._pending: dict[str, tuple[list[Any], list[int]]] = {}

    def add(self, tag: Any, value: Any, timestamp: int) -> None:
        """Adds one value."""
        tag_id = (tag if tag.__class__ is OutputTag else as_output_tag(tag)).tag_id
        pending = self._pending.get(tag_id)
        if pending is None:
            pending = self._pending[tag_id] = ([], [])
        pending[0].append(value if type(value) in IMMUTABLE else self._snapshot(value))
        pending[1].append(timestamp)

    def flush(self, output: Output) -> None:
        """Hands everything on."""
        if self._pending:
            pending, self._pending = self._pending, {}
            for tag_id, (values, timestamps) in pending.items():
                output.emit_side(tag_id, Batch(values, none_if_absent(timestamps)))

    def clear(self) -> None:
        """Forgets what an aborted epoch left."""
        self._pending = {}


def none_if_absent(timestamps: list[int]) -> list[int] | None:
    """Returns None in place of a list that holds no timestamp at all."""
    if timestamps and timestamps[0] == NO_TIMESTAMP and set(timestamps) == {NO_TIMESTAMP}:
        return None
    return timestamps


def deliver(
    output: Output, sides: SideOutputs, values: list[Any], timestamps: list[int] | None
) -> None:
    """Emits main outputs, with tagged pairs taken out, then the side outputs."""
    if OutputTag.in_use and may_hold_tags(values):
        values, timestamps = _take_tagged(sides, values, timestamps)
    if values:
        output.emit(Batch(values, timestamps))
    sides.flush(output)


def may_hold_tags(values: list[Any]) -> bool:
    """Whether any value is a tuple that starts with an `OutputTag`; runs at C speed."""
    types = set(map(type, values))
    if not any(issubclass(kind, tuple) for kind in types):
        return False
    try:
        if len(types) == 1:
            first_types = set(map(type, map(itemgetter(0), values)))
            return any(issubclass(kind, OutputTag) for kind in first_types)
    except (IndexError, KeyError, TypeError):
        pass
    return True


def _take_tagged(
    sides: SideOutputs, values: list[Any], timestamps: list[int] | None
) -> tuple[list[Any], list[int] | None]:
    main_values: list[Any] = []
    main_timestamps: list[int] = []
    for value, timestamp in zip(values, timestamps or repeat(NO_TIMESTAMP), strict=False):
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], OutputTag):
            sides.add(value[0], value[1], timestamp)
        else:
            main_values.append(value)
            main_timestamps.append(timestamp)
    return main_values, None if timestamps is None else main_timestamps


class TimerResults:
    """Outputs of timers, kept back until enough came together or the timers are done.

    Attributes:
        values: The outputs; the operator appends to it.
    """

    LIMIT = 16_384

    def __init__(self, logic: OperatorLogic, sides: SideOutputs) -> None:
        self._logic = logic
        self._sides = sides
        self._reset()

    def _reset(self) -> None:
        self.values: list[Any] = []
        self._times: list[int] = []
        self._ends: list[int] = []

    def mark(self, time_ms: int) -> None:
        """Gives everything since the last mark the timer's time."""
        self._times.append(time_ms)
        self._ends.append(len(self.values))

    def flush(self, *, timestamped: bool) -> None:
        """Hands everything on."""
        values, times, ends = self.values, self._times, self._ends
        self._reset()
        deliver(
            self._logic.output,
            self._sides,
            values,
            spread(times, ends, len(values)) if timestamped else None,
        )

    def clear(self) -> None:
        """Forgets what an aborted epoch left."""
        self._reset()
        self._sides.clear()
