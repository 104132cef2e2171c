"""What a subtask keeps of one operator besides keyed state, as files of msgpack.

    ["LG1", watermark, [logic], [valves]]     one file in each epoch, small
    ["OS1", state]                            a file for each state, when it has changed

    state       [name, mode, schema, content], or behind all of a broadcast map changes of it:
                [name, mode, schema, content, keys to remove before]
    content     elements of a list; or [map keys, map values] of a broadcast map

The logic's own state and that of the valves say themselves what they are (`plain_serializer`), or
are pickled where they cannot: a user's watermark generator may hold anything. State of no declared
type is pickled too.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core.errors import StateError
from penstock.state.operator_state import BROADCAST, OperatorState, Snapshot
from penstock.state.plain_serializer import (
    Pickles,
    check_head,
    decode_body,
    decode_column,
    encode_body,
    encode_column,
    pickled_column,
    refusal,
)
from penstock.state.serializers import table_serializer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.handles import FileHandle
    from penstock.files.area import FileArea
    from penstock.state.evolution import StateFacts
    from penstock.state.keyed import KeyedState

_HEAD: Final = "LG1"
_STATE_HEAD: Final = "OS1"
_MALFORMED: Final = (ValueError, TypeError, LookupError)


class LogicState(NamedTuple):
    """What a subtask keeps of one operator besides keyed state.

    Attributes:
        watermark: Of its input.
        logic: What the operator's logic returned.
        operator_state: Lists and broadcast maps.
        valves: Watermarks of the channels; None behind the first operator of a stage.
        schemas: Types of the operator state by name; "" for pickled.
        files: Files of the operator state by name: all of it, then changes.
    """

    watermark: int
    logic: Any
    operator_state: Snapshot
    valves: Any
    schemas: dict[str, str]
    files: dict[str, tuple[FileHandle, ...]]


def encode_logic(watermark: int, logic: Any, valves: Any, pickles: Pickles, uid: str) -> bytes:
    """Returns the bytes of what a subtask keeps of an operator itself.

    Raises:
        StateError: It would be pickled where that is not allowed.
    """
    what = f"operator {uid!r}"
    body = [
        _HEAD,
        watermark,
        encode_column([logic], pickles, f"what {what} keeps for itself"),
        encode_column([valves], pickles, f"the watermarks of {what}"),
    ]
    return encode_body(body, what)


def write_states(
    own: OperatorState, area: FileArea, version: str, pickles: Pickles, uid: str
) -> tuple[FileHandle, ...]:
    """Writes the operator state that has changed; returns the files of all of it.

    Raises:
        StateError: A value is not of its declared type, or would be pickled where that is not
            allowed.
    """
    numbers = itertools.count()

    def write(  # noqa: PLR0913, PLR0917 - a state is that much
        name: str,
        mode: str,
        content: Any,
        schema: str,
        known: FileHandle | None,
        removed: list[Any] | None,
    ) -> FileHandle:
        what = f"operator state {name!r} of operator {uid!r}"
        state = [name, mode, schema, _Content(what, mode, schema, pickles).content(content)]
        if removed is not None:
            state.append(encode_column(removed, pickles, f"a map key of {what}"))
        data = encode_body([_STATE_HEAD, state], what)
        return area.write(f"{version}-{next(numbers)}.state", data, known)

    return own.commit(write)


def read_logic(
    handles: Sequence[FileHandle],
    states: Sequence[Sequence[FileHandle]],
    area: FileArea,
    pickles: Pickles,
) -> list[LogicState]:
    """Returns what former subtasks kept.

    Args:
        handles: One for each of them.
        states: The files of operator state of each.
        area: Where the files are.
        pickles: Whether to read pickles.

    Raises:
        StateError: A file is missing, damaged, of a newer release, or pickled although it must not
            be.
    """
    found = []
    for handle, files in zip(handles, states, strict=True):
        saved = _decode_logic(area.read(handle), pickles, f"state file {handle.name!r}")
        for file in files:
            _read_state(area.read(file), saved, pickles, file)
        found.append(saved)
    return found


def _decode_logic(data: bytes, pickles: Pickles, what: str) -> LogicState:
    check_head(data, _HEAD, what)
    try:
        _, watermark, logic, valves = decode_body(data)
        kept = decode_column(logic, pickles, what)[0]
        return LogicState(watermark, kept, {}, decode_column(valves, pickles, what)[0], {}, {})
    except _MALFORMED as error:
        raise _malformed(what, error) from error


def _read_state(data: bytes, into: LogicState, pickles: Pickles, file: FileHandle) -> None:
    what = f"state file {file.name!r}"
    check_head(data, _STATE_HEAD, what)
    try:
        _, (name, mode, schema, content, *removed) = decode_body(data)
        reader = _Content(f"operator state {name!r}", mode, schema, pickles)
        found = reader.read(content)
        if removed:
            entries = into.operator_state[name][1]
            for key in decode_column(removed[0], pickles, f"a map key of state {name!r}"):
                entries.pop(key, None)
            entries.update(found)
        else:
            into.operator_state[name] = (mode, found)
    except _MALFORMED as error:
        raise _malformed(what, error) from error
    into.schemas[name] = schema
    into.files[name] = (*into.files.get(name, ()), file)


def _malformed(what: str, error: Exception) -> StateError:
    return StateError(f"{what} is malformed: {error}. Choose another checkpoint.")


def schemas_of(saved: Sequence[LogicState]) -> dict[str, str]:
    """Returns the types of the operator state of several subtasks."""
    return {name: schema for each in saved for name, schema in each.schemas.items()}


def facts_of(keyed: KeyedState | None, own: OperatorState) -> tuple[StateFacts, ...]:
    """Returns what there is to say about all states of an operator."""
    return (*(() if keyed is None else keyed.facts()), *own.facts())


class _Content:
    """Writes and reads the content of one state."""

    def __init__(self, what: str, mode: str, schema: str, pickles: Pickles) -> None:
        self._what = what
        self._is_map = mode == BROADCAST
        self._serializer = table_serializer("map" if self._is_map else "list", schema)
        self._pickles = pickles

    def content(self, content: Any) -> Any:
        if not self._is_map:
            return self._values(content)
        keys = encode_column(list(content), self._pickles, f"a map key of {self._what}")
        return [keys, self._values(list(content.values()))]

    def _values(self, values: list[Any]) -> Any:
        if self._serializer is None:
            if self._pickles is not Pickles.ALLOW:
                raise refusal(f"{self._what} would be pickled")
            return pickled_column(values, self._what)
        return self._serializer.written(values, self._what)

    def read(self, content: Any) -> Any:
        if not self._is_map:
            return self._read_values(content)
        keys = decode_column(content[0], self._pickles, f"a map key of {self._what}")
        return dict(zip(keys, self._read_values(content[1]), strict=True))

    def _read_values(self, column: Any) -> list[Any]:
        if self._serializer is None:
            return decode_column(column, self._pickles, self._what)
        return self._serializer.from_wire(column)
