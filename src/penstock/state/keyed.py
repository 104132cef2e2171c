"""Keyed state of one operator in one subtask: tables, timers, and their versions.

1. User code and operators read and write tables under `key` and `namespace`, which the operator
   assigns. Nothing of that is durable or visible outside yet.
2. `commit` writes what changed as one delta file (now and then a new base) and returns the version.
3. `restore` brings the same objects to any version: free if it is held, by the missing deltas if
   an ancestor is held, else from its base.

Invariant: between `commit` or `restore` and the first change after it, the tables are exactly the
held version. A failed `restore` or `commit` leaves nothing held, so the next restore starts afresh.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from penstock.core.copies import snapshot
from penstock.core.errors import ProgramError, StateError
from penstock.state.delta_chain import DeltaChain, FoldPolicy, StateContext, is_same
from penstock.state.evolution import DeclaredTypes, StateFacts, table_kind
from penstock.state.objects import Scope, VoidScope
from penstock.state.payload import Payload, TableColumns
from penstock.state.plain_serializer import Pickles, is_hidden
from penstock.state.state_factory import Ttl, make_state
from penstock.state.tables import (
    NO_KEY,
    ListTable,
    MapTable,
    Row,
    Table,
    ValueTable,
    changed_columns,
    changed_content,
)
from penstock.state.timers import TimerTable, timer_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.state.api import State
    from penstock.state.descriptors import StateDescriptor, StateTtlConfig
    from penstock.state.tables import Conversion


TableT = TypeVar("TableT", bound=Table)

_IMPORTED = "(imported)"
_TABLES: Final[dict[str, type[Table]]] = {
    table.kind: table for table in (ValueTable, ListTable, MapTable)
}

FUNCTION: Final = "the function"
ASSIGNER: Final = "the window assigner"
TRIGGER: Final = "the trigger"
OPERATOR: Final = "the operator itself"


class KeyedState(ABC):
    """State and timers by key.

    Attributes:
        key: The current key; assigned by the operator before user code runs.
        namespace: The current namespace; None is user state.
        event_timers: Timers in event time.
        processing_timers: Timers in processing time.
    """

    # Read and written for each record: beyond some 30 attributes an object's others are slower.
    __slots__ = ("__dict__", "key", "namespace")

    backend_name: str
    snapshot: Callable[[Any], Any] = staticmethod(snapshot)
    """What is put into state is copied by this."""

    def __init__(self, context: StateContext, policy: FoldPolicy) -> None:
        self.key: Any = NO_KEY
        self.namespace: Any = None
        self.event_timers = TimerTable()
        self.processing_timers = TimerTable()
        self.context = context
        self.clock = context.clock
        self.uid = context.uid
        self._policy = policy
        self._deltas = DeltaChain(context, policy)
        self._tables: dict[str, Table] = {}
        self._ttls: dict[str, Ttl] = {}
        self._states: dict[tuple[str, bool, str], tuple[StateDescriptor, State]] = {}
        self._owners: dict[str, str] = {}
        self._declared = DeclaredTypes(context.uid, context.pickles)
        # None after a failure: then only a restore helps.
        self._held: KeyedStateVersion | None = self._version("")
        # The tables hold more than any version on disk says: the next commit writes a base.
        self._needs_base = False

    # -- use ----------------------------------------------------------------------------------

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Loads at once what user code may need for these keys; keys may repeat."""

    def get_state(
        self,
        descriptor: StateDescriptor,
        *,
        ignore_namespace: bool = False,
        owner: str = FUNCTION,
    ) -> Any:
        """Returns the state object of a descriptor; the same for the same name.

        Args:
            descriptor: Name and kind of the state.
            ignore_namespace: Bind to the key alone: a window function's global state.
            owner: Which part of the operator asks; parts share no state.

        Raises:
            ProgramError: The name is taken by a state of another kind or of another part.
        """
        found = self._states.get((descriptor.name, ignore_namespace, owner))
        if found is not None:
            if found[0].kind != descriptor.kind:
                raise ProgramError(
                    f"state {descriptor.name!r} of operator {self.uid!r} is obtained as "
                    f"{descriptor.kind} state and as {found[0].kind} state; give one of them "
                    "another name."
                )
            return found[1]
        wanted = _TABLES.get(table_kind(descriptor.kind))
        if wanted is None:
            raise ProgramError(
                f"{descriptor!r} describes no keyed state; use a Value-, List-, Map-, Reducing- or "
                "AggregatingStateDescriptor."
            )
        table = self._table(descriptor.name, owner, wanted)
        self.declare(table, descriptor)
        ttl = self.enable_ttl(table, descriptor.ttl)
        scope = cast("Scope", VoidScope(self) if ignore_namespace else self)
        state = make_state(scope, table, ttl, descriptor, self.snapshot)
        self._states[descriptor.name, ignore_namespace, owner] = (descriptor, state)
        return state

    def value_table(self, name: str, owner: str = OPERATOR) -> ValueTable:
        """Returns the value table of that name, made at the first call."""
        return self._table(name, owner, ValueTable)  # type: ignore[type-abstract]

    def list_table(self, name: str, owner: str = OPERATOR) -> ListTable:
        """Returns the list table of that name, made at the first call."""
        return self._table(name, owner, ListTable)  # type: ignore[type-abstract]

    def map_table(self, name: str, owner: str = OPERATOR) -> MapTable:
        """Returns the map table of that name, made at the first call."""
        return self._table(name, owner, MapTable)  # type: ignore[type-abstract]

    def _claim(self, name: str, owner: str) -> None:
        first = self._owners.setdefault(name, owner)
        if first != owner:
            raise ProgramError(
                f"state {name!r} of operator {self.uid!r} is used by {first} and by {owner}, which "
                "would overwrite each other's values; give the state of your function another name."
            )

    def _table(self, name: str, owner: str, wanted: type[TableT]) -> TableT:
        self._claim(name, owner)
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._new_table(wanted.kind, name)
        if not isinstance(table, wanted):
            raise ProgramError(
                f"state {name!r} of operator {self.uid!r} is {table.kind} state, and was asked for "
                f"as {wanted.kind} state. Give the state another name, or start without the "
                "snapshot that holds it."
            )
        self._declared.settle(table)
        return table

    def declare(self, table: Table, descriptor: StateDescriptor) -> None:
        """Gives a table the type that the program declares; what it holds is converted.

        Raises:
            StateError: The types are incompatible, or the state would be pickled although that is
                not allowed.
        """
        self._declared.add(table.name, descriptor)
        if table.schema != descriptor.schema:
            change = self._declared.conversion(
                table.name, table.kind, table.schema, descriptor.schema
            )
            if table.convert(descriptor.schema, change):
                self._rewrite()

    def facts(self) -> tuple[StateFacts, ...]:
        """Describes each state, for the record of a snapshot."""
        return tuple(map(self._declared.facts_of_table, self._tables.values()))

    def enable_ttl(self, table: Table, config: StateTtlConfig | None) -> Ttl | None:
        """Makes a table hold last accesses, or not; returns the rules of its TTL."""
        timed = config is not None
        if table.timed is not timed and table.retime(timed=timed, now_ms=self.clock.now_ms):
            self._rewrite()
        if config is None:
            return None
        return self._ttls.setdefault(table.name, Ttl(config, self.clock))

    def is_timed(self, name: str) -> bool:
        """Returns whether `entries` yields (value, last access) for a state."""
        table = self._tables.get(name)
        return table is not None and table.timed

    # -- versions -----------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether something changed since the last commit or restore."""
        return (
            self.event_timers.is_dirty
            or self.processing_timers.is_dirty
            or any(table.is_dirty for table in self._tables.values())
        )

    def commit(self, version_id: str) -> KeyedStateVersion:
        """Writes what changed and returns the version that the tables now are.

        Args:
            version_id: Never used again; a retry of the epoch passes another one.
        """
        held, self._held = self._held, None
        if held is None:
            raise StateError(
                f"keyed state of operator {self.uid!r} was left half-way by an earlier failure and "
                "cannot be committed; restore a version first."
            )
        for name, ttl in self._ttls.items():
            if count := ttl.cleanup_size():
                self._tables[name].expire(ttl.deadline_ms, count)
        if self._needs_base:
            held = self._write_base(version_id)
            self._needs_base = False
        else:
            held = self._advanced(held, version_id)
        # Drops the logs of what came and went, which are empty, also where nothing changed.
        self._collect()
        self._held = held
        return held

    def _advanced(self, held: KeyedStateVersion, version_id: str) -> KeyedStateVersion:
        """Returns the held version with what has changed since."""
        if not self.is_dirty:
            return held
        if self._policy.is_due(held):
            return self._write_base(version_id)
        return self._write_delta(held, version_id)

    def _write_delta(self, held: KeyedStateVersion, version_id: str) -> KeyedStateVersion:
        payload = self._collect()
        version, size_bytes = self._deltas.append(payload, held, version_id)
        self._delta_written(payload, size_bytes)
        return version

    def _collect(self) -> Payload:
        tables = [
            TableColumns(table.name, table.kind, table.timed, columns, table.schema)
            for table in self._tables.values()
            if (columns := table.collect())
        ]
        return Payload(tables, self.event_timers.collect(), self.processing_timers.collect())

    def restore(self, versions: Sequence[KeyedStateVersion]) -> None:
        """Becomes the given version, or the part in this key group range of several.

        Raises:
            StateError: A file is missing or damaged, or a state changed its kind.
        """
        if not versions:
            versions = (self._version(""),)
        first, *others = versions
        is_own = first.backend == self.backend_name and self.context.is_range_of(first)
        if is_own and not others:
            self._restore_own(first)
            return
        self._held = None
        self._reset_all()
        self._import(versions)
        self._needs_base = True
        self._held = self._version(_IMPORTED)

    def _restore_own(self, version: KeyedStateVersion) -> None:
        held, self._held = self._held, None
        if held is not None and not self.is_dirty:
            if is_same(held, version):
                self._held = version
                return
            missing = self._deltas.missing(held, version)
            if missing is not None:
                self._replay(missing)
                self._held = version
                return
        self._reset_all()
        self._load_base(version)
        self._replay(version.deltas)
        self._held = version

    def _replay(self, files: Sequence[FileHandle]) -> None:
        for handle in files:
            self._apply(self._deltas.read(handle), handle.size_bytes)

    def _apply(self, payload: Payload, size_bytes: int) -> None:
        for part in payload.tables:
            table = self.table_for(part.name, part.kind, timed=part.timed, schema=part.schema)
            change = self._declared.adaptation(part, table, self.clock.now_ms)
            if change is None:
                table.apply(part.columns)
            else:
                table.apply(changed_columns(part.kind, part.columns, change))
                self._rewrite()
        is_net = not payload.covers
        self.event_timers.apply(payload.event_timers, is_net=is_net)
        self.processing_timers.apply(payload.processing_timers, is_net=is_net)
        self._delta_written(payload, size_bytes)

    def table_for(self, name: str, kind: str, *, timed: bool, schema: str) -> Table:
        """Returns the table for something stored; a new one is as that is.

        Raises:
            StateError: The program has a state of that name and another kind.
        """
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._new_table(kind, name)
            table.timed = timed
            table.schema = schema
        self._declared.check_kind(name, table.kind, kind)
        return table

    def _version(self, version_id: str, base: tuple[FileHandle, ...] = ()) -> KeyedStateVersion:
        return self.context.version(version_id, self.backend_name, base)

    def _reset_all(self) -> None:
        self._needs_base = False
        self.key = NO_KEY
        self.namespace = None
        self.event_timers.reset()
        self.processing_timers.reset()
        for table in self._tables.values():
            table.reset()

    # -- other key group ranges, other backends -----------------------------------------------

    def _import(self, versions: Sequence[KeyedStateVersion]) -> None:
        """Adds what of versions of any range and backend lies in this range, entry by entry."""
        for version in versions:
            other = self.context.open_version(version, self.context)
            self._import_entries(other)
            other.close()

    def import_version(
        self, version: KeyedStateVersion, *, unpickle: bool, without: Collection[str]
    ) -> None:
        """Adds what a version of any number of key groups holds, except some states.

        Raises:
            StateError: Part of it is pickled, and `unpickle` does not allow to read it.
        """
        pickles = Pickles.ALLOW if unpickle else Pickles.OPAQUE
        context = replace(self.context, pickles=pickles)
        other = context.open_version(version, context)
        self._import_entries(other, without)
        other.close()

    def _import_entries(self, other: KeyedState, without: Collection[str] = ()) -> None:
        hidden = other.context.pickles is Pickles.OPAQUE
        owned: dict[Any, bool] = {}
        into: dict[str, tuple[Table, Conversion | None]] = {}
        for row in other.entries():
            name, kind, key, ns, value = row
            if name in without:
                continue
            if hidden and is_hidden(row[2:]):
                what = f"state {name!r}" if name else "a timer"
                raise StateError(f"{what} is pickled.")
            is_owned = owned.get(key)
            if is_owned is None:
                is_owned = owned[key] = self.context.owns(key)
            if not is_owned:
                continue
            if not name:
                timers = self.event_timers if kind == "event_timer" else self.processing_timers
                timers.add(value, key, ns)
                continue
            # What has changed is found out once for each table, not for each row.
            if name not in into:
                stored = other._tables[name]
                table = self.table_for(name, kind, timed=stored.timed, schema=stored.schema)
                into[name] = table, self._declared.adaptation(stored, table, self.clock.now_ms)
            table, change = into[name]
            _add(table, key, ns, value if change is None else changed_content(kind, value, change))

    # -- what a backend does ------------------------------------------------------------------

    @abstractmethod
    def _new_table(self, kind: str, name: str) -> Table:
        """Makes an empty table."""

    @abstractmethod
    def _load_base(self, version: KeyedStateVersion) -> None:
        """Loads the base of a version into empty tables; a version may have none."""

    @abstractmethod
    def _write_base(self, version_id: str) -> KeyedStateVersion:
        """Writes everything, changes included, as a version without deltas."""

    def _rewrite(self) -> None:
        """A state has another type, or gained or lost its TTL: older files hold another form."""
        self._needs_base = True

    def _delta_written(self, payload: Payload, size_bytes: int) -> None:
        """A delta was committed or applied."""

    def entries(self) -> Iterator[Row]:
        """Yields (state name, kind, key, namespace, value) of everything.

        Maps yield one row per entry, with value (map key, map value). Timers have the kinds
        `event_timer` and `processing_timer`, the name "" and their time as value.
        """
        for name, table in self._tables.items():
            for key, ns, value in table.entries_of_all():
                yield name, table.kind, key, ns, value
        yield from timer_entries(self.event_timers, self.processing_timers)

    def close(self) -> None:
        """Closes open files; the object is not used again."""


def _add(table: Table, key: Any, ns: Any, value: Any) -> None:
    """Adds what `entries_of_all` yields."""
    if isinstance(table, MapTable):
        table.put(key, ns, *value)
    elif isinstance(table, ListTable):
        table.extend(key, ns, value)
    elif isinstance(table, ValueTable):
        table.put(key, ns, value)
