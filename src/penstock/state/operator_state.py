"""State of a subtask that belongs to no key: lists, union lists, broadcast maps.

A snapshot is plain data by state name and mode. A restore with another parallelism redistributes
it:

* split: all elements, in the order of the old subtasks, in contiguous runs; the first `T mod p` new
  subtasks get one more, and the next state begins where the extras stopped.
* union: every subtask gets all elements.
* broadcast: new subtask `i` gets the copy of old subtask `i mod old parallelism`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.core.copies import IMMUTABLE, Copier, snapshot
from penstock.core.errors import ProgramError, StateError
from penstock.state.api import (
    BroadcastState,
    ListState,
    OperatorStateStore,
    ReadOnlyBroadcastState,
)
from penstock.state.evolution import DeclaredTypes, StateFacts
from penstock.state.objects import checked_elements
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle
    from penstock.state.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        StateDescriptor,
    )

SPLIT: Final = "split"
UNION: Final = "union"
BROADCAST: Final = "broadcast"

KINDS: Final = {
    SPLIT: "operator-list",
    UNION: "operator-union",
    BROADCAST: "operator-broadcast",
}

Snapshot = dict[str, tuple[str, Any]]
"""{state name: (mode, elements as list, or entries as dict)}"""

WriteState = Callable[[str, str, Any, str, "FileHandle | None", "list[Any] | None"], "FileHandle"]
"""Writes a state, see `OperatorState.commit`."""

LEAST_BYTES: Final = 64 << 10
"""Size from which changes of a broadcast map are written, and not the map."""
MOST_DELTAS: Final = 16
"""Files of changes behind that of the map; then one file takes their place."""


class _Changes:
    """Which entries of a map have changed, in the order in which they came."""

    __slots__ = ("put", "removed")

    def __init__(self) -> None:
        self.put: dict[Any, None] = {}
        self.removed: dict[Any, None] = {}  # Before what was put.

    def remove(self, key: Any) -> None:
        self.put.pop(key, None)
        self.removed[key] = None

    def add(self, later: _Changes) -> None:
        for key in later.removed:
            self.remove(key)
        self.put.update(later.put)

    def __len__(self) -> int:
        return len(self.put) + len(self.removed)


class OperatorListState(ListState[Any]):
    """A list of the subtask."""

    __slots__ = ("_snapshot", "elements", "is_changed", "name")

    def __init__(self, name: str, snapshot: Copier = snapshot) -> None:
        self.name = name
        self._snapshot = snapshot
        self.elements: list[Any] = []
        self.is_changed = True

    def get(self) -> list[Any]:
        self.is_changed = self.is_changed or may_change(self.elements)
        return self.elements[:]

    def add(self, value: Any) -> None:
        self.is_changed = True
        self.elements += checked_elements(self.name, [value], self._snapshot)

    def add_all(self, values: Iterable[Any]) -> None:
        self.is_changed = True
        self.elements += checked_elements(self.name, values, self._snapshot)

    def update(self, values: Iterable[Any]) -> None:
        self.is_changed = True
        self.elements = checked_elements(self.name, values, self._snapshot)

    def clear(self) -> None:
        self.is_changed = True
        self.elements = []

    def content(self) -> list[Any]:
        """Returns a new list of the elements themselves."""
        return self.elements[:]


class HeapReadOnlyBroadcastState(ReadOnlyBroadcastState[Any, Any]):
    """A broadcast map that cannot be changed through this object."""

    __slots__ = ("_state",)

    def __init__(self, state: HeapBroadcastState) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._state.entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._state.entries.items())

    def keys(self) -> list[Any]:
        return list(self._state.entries)

    def values(self) -> list[Any]:
        return list(self._state.entries.values())

    def is_empty(self) -> bool:
        return not self._state.entries

    def clear(self) -> None:
        raise self._refusal("clear")

    def put(self, key: Any, value: Any) -> None:
        raise self._refusal("put")

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        raise self._refusal("put_all")

    def remove(self, key: Any) -> None:
        raise self._refusal("remove")

    def _refusal(self, method: str) -> ProgramError:
        return ProgramError(
            f"broadcast state {self._state.name!r}: {method}() was called on the side that does "
            "not broadcast, where it is read-only. Change it in process_broadcast_element()."
        )


class HeapBroadcastState(BroadcastState[Any, Any]):
    """A broadcast map."""

    __slots__ = ("_snapshot", "changes", "entries", "is_changed", "name", "since_whole")

    def __init__(self, name: str, snapshot: Copier = snapshot) -> None:
        self.name = name
        self._snapshot = snapshot
        self.entries: dict[Any, Any] = {}
        self.is_changed = True  # Perhaps all of it.
        self.changes = _Changes()  # Since it was written last.
        self.since_whole: _Changes | None = None  # Since all of it was written, if known.

    def get(self, key: Any) -> Any:
        value = self.entries.get(key)
        if value is not None and may_change((value,)):
            self.changes.put[key] = None
        return value

    def contains(self, key: Any) -> bool:
        return key in self.entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(zip(self.entries, self.values(), strict=True))

    def keys(self) -> list[Any]:
        return list(self.entries)

    def values(self) -> list[Any]:
        self.is_changed = self.is_changed or may_change(self.entries.values())
        return list(self.entries.values())

    def is_empty(self) -> bool:
        return not self.entries

    def put(self, key: Any, value: Any) -> None:
        self.changes.put[key] = None
        self.entries[key] = self._snapshot(value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        if key in self.entries:
            self.changes.remove(key)
            del self.entries[key]

    def clear(self) -> None:
        self.is_changed = True
        self.entries.clear()

    def content(self) -> dict[Any, Any]:
        """Returns a new dict of the entries themselves."""
        return dict(self.entries)

    def written(self, *, whole: bool) -> None:
        """Takes note that all changes are stored, as such or with all of the map."""
        if whole:
            self.since_whole = _Changes()
        elif self.since_whole is not None:
            self.since_whole.add(self.changes)
        self.is_changed = False
        self.changes = _Changes()


def may_change(values: Iterable[Any]) -> bool:
    """Returns whether these values can be changed in place."""
    return not IMMUTABLE.issuperset(map(type, values))


class OperatorState(OperatorStateStore):
    """All such states of one operator in one subtask."""

    def __init__(
        self, uid: str = "", pickles: Pickles = Pickles.ALLOW, snapshot: Copier = snapshot
    ) -> None:
        self._snapshot = snapshot
        self.is_restored = False
        self.schemas: dict[str, str] = {}
        """Types by name; "" for what is pickled."""
        self._declared = DeclaredTypes(uid, pickles)
        self._modes: dict[str, str] = {}
        self._states: dict[str, OperatorListState | HeapBroadcastState] = {}
        self._files: dict[str, tuple[FileHandle, ...]] = {}  # All of a state, then changes.

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> HeapBroadcastState:
        state = self._obtain(state_descriptor, BROADCAST)
        assert isinstance(state, HeapBroadcastState)
        return state

    def get_read_only_broadcast_state(
        self, state_descriptor: MapStateDescriptor
    ) -> HeapReadOnlyBroadcastState:
        """Returns a view of the broadcast state that refuses changes."""
        return HeapReadOnlyBroadcastState(self.get_broadcast_state(state_descriptor))

    def _list(self, descriptor: ListStateDescriptor, mode: str) -> OperatorListState:
        state = self._obtain(descriptor, mode)
        assert isinstance(state, OperatorListState)
        return state

    def _obtain(
        self, descriptor: StateDescriptor, mode: str
    ) -> OperatorListState | HeapBroadcastState:
        """Returns the state of a descriptor; what it holds becomes of the declared type."""
        self._declared.add(descriptor.name, descriptor)
        state = self._find(descriptor.name, mode)
        before = self.schemas[descriptor.name]
        if before != descriptor.schema:
            self.schemas[descriptor.name] = descriptor.schema
            self._convert(state, descriptor.name, before)
        return state

    def _convert(
        self, state: OperatorListState | HeapBroadcastState, name: str, before: str
    ) -> None:
        kind = "map" if isinstance(state, HeapBroadcastState) else "list"
        convert = self._declared.conversion(name, kind, before, self.schemas[name])
        state.is_changed = True
        if isinstance(state, OperatorListState):
            state.elements = convert(state.elements)
        else:
            values = convert(list(state.entries.values()))
            state.entries = dict(zip(state.entries, values, strict=True))

    def _find(self, name: str, mode: str) -> OperatorListState | HeapBroadcastState:
        known = self._modes.setdefault(name, mode)
        if known != mode:
            raise ProgramError(
                f"operator state {name!r} is obtained as {mode} state and is {known} state, in "
                "this program or in the snapshot; give one of them another name."
            )
        state = self._states.get(name)
        if state is None:
            make = HeapBroadcastState if mode == BROADCAST else OperatorListState
            state = self._states[name] = make(name, self._snapshot)
            self.schemas.setdefault(name, "")
        return state

    # -- versions -----------------------------------------------------------------------------

    def facts(self) -> tuple[StateFacts, ...]:
        """Describes each state, in order of their names."""
        return tuple(
            self._declared.facts_of(name, KINDS[self._modes[name]], self.schemas[name])
            for name in sorted(self._states)
        )

    def snapshot(self) -> Snapshot:
        """Returns a copy of everything as plain data."""
        return {name: (self._modes[name], each.content()) for name, each in self._states.items()}

    def commit(self, write: WriteState) -> tuple[FileHandle, ...]:
        """Has those states written that changed, or entries of a map; returns the files of all.

        Values that were handed out and can be changed in place count as changed, except to the side
        that does not broadcast, which may not change them.

        Args:
            write: Takes name, mode, content, type, a file that may be of the same content, and
                keys to remove before, for a file of changes.
        """
        for name, state in self._states.items():
            known = self._files.get(name, ())
            mode, schema = self._modes[name], self.schemas[name]
            if isinstance(state, HeapBroadcastState):
                if known and not state.is_changed and not state.changes:
                    continue
                before, changes = _delta(state, known)
                if changes is not None:
                    content = {key: state.entries[key] for key in changes.put}
                    file = write(name, mode, content, schema, None, list(changes.removed))
                    self._files[name] = (*before, file)
                    state.written(whole=False)
                    continue
                state.written(whole=True)
            elif known and not state.is_changed:
                continue
            same = known[0] if len(known) == 1 else None
            self._files[name] = (write(name, mode, state.content(), schema, same, None),)
            state.is_changed = False
        return tuple(file for files in self._files.values() for file in files)

    def restore(
        self,
        snapshots: Sequence[Snapshot | None],
        subtask: int,
        parallelism: int,
        schemas: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[FileHandle, ...]] | None = None,
    ) -> None:
        """Restores this subtask's share of old snapshots; without any, the state is empty.

        Args:
            snapshots: Of every old subtask, in order; the same in every new subtask.
            subtask: Index of this subtask.
            parallelism: Number of new subtasks.
            schemas: Types of what the snapshots hold.
            files: Where the states are stored already, if all of it is of this very subtask.

        Raises:
            StateError: A state has different modes in the program and in the snapshot, or
                incompatible types.
        """
        for state in self._states.values():
            state.clear()
        self._files = dict(files or {})
        self.is_restored = bool(snapshots)
        olds = [snapshot or {} for snapshot in snapshots]
        for name, (mode, share) in redistribute(olds, subtask, parallelism).items():
            if self._modes.get(name, mode) != mode:
                raise StateError(
                    f"operator state {name!r} is {self._modes[name]} state in the program and "
                    f"{mode} state in the snapshot. Give it another name, or change it back."
                )
            state = self._find(name, mode)
            if isinstance(state, HeapBroadcastState):
                state.entries.update(share)
                state.changes, state.since_whole = _Changes(), None
            else:
                state.elements = share
            state.is_changed = name not in self._files
            stored = (schemas or {}).get(name, "")
            if not self._declared.is_known(name):
                self.schemas[name] = stored
            elif stored != self.schemas[name]:
                self._convert(state, name, stored)


def _delta(
    state: HeapBroadcastState, files: tuple[FileHandle, ...]
) -> tuple[tuple[FileHandle, ...], _Changes | None]:
    """Returns the files that stay and the changes behind them; None to write all of the map."""
    if state.is_changed or not files or files[0].size_bytes < LEAST_BYTES:
        return (), None
    before, changes = files, state.changes
    if len(files) > MOST_DELTAS:
        if state.since_whole is None:
            return (), None
        before, changes = files[:1], _Changes()
        changes.add(state.since_whole)
        changes.add(state.changes)
    size = sum(file.size_bytes for file in before[1:])
    if size * 2 > files[0].size_bytes or len(changes) * 2 > len(state.entries):
        return (), None
    return before, changes


def redistribute(snapshots: Sequence[Snapshot], subtask: int, parallelism: int) -> Snapshot:
    """Returns the share of one new subtask."""
    shares: Snapshot = {}
    first_extra = 0
    for name in sorted({name for old in snapshots for name in old}):
        mode = next(old[name][0] for old in snapshots if name in old)
        parts = [old[name][1] if name in old else () for old in snapshots]
        if mode == BROADCAST:
            copies = [dict(part) for part in parts]
            shares[name] = (mode, copies[subtask % len(copies)])
        elif mode == UNION:
            shares[name] = (mode, [element for part in parts for element in part])
        elif len(snapshots) == parallelism:
            shares[name] = (mode, list(parts[subtask]))
        else:
            elements = [element for part in parts for element in part]
            share, first_extra = _deal(elements, subtask, parallelism, first_extra)
            shares[name] = (mode, share)
    return shares


def _deal(
    elements: list[Any], subtask: int, parallelism: int, first_extra: int
) -> tuple[list[Any], int]:
    """Returns the contiguous run of one subtask, and who is first to get an extra next time."""
    size, extras = divmod(len(elements), parallelism)
    taken = {(first_extra + number) % parallelism for number in range(extras)}
    start = sum(size + (other in taken) for other in range(subtask))
    end = start + size + (subtask in taken)
    return elements[start:end], (first_extra + extras) % parallelism
