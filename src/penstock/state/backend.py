"""The state backends by name, and versions of any of them read as data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.keygroups import LIMIT_MAX_PARALLELISM
from penstock.core.times import EpochClock
from penstock.state.delta_chain import FoldPolicy, StateContext
from penstock.state.heap import HASHMAP, HeapListTable, HeapMapTable, HeapValueTable
from penstock.state.keyed import KeyedState
from penstock.state.payload import Payload, TableColumns
from penstock.state.plain_serializer import Pickles
from penstock.state.rocksdb.backend import ROCKSDB, RocksKeyedState
from penstock.state.rocksdb.base import RocksLimits, RocksSettings, require_rocksdict
from penstock.state.tables import changed_content, retimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.core.handles import KeyedStateVersion
    from penstock.files.area import FileArea
    from penstock.state.tables import Row, Table


@dataclass(frozen=True, slots=True)
class KeyedStateBackend:
    """Makes keyed state; everything else is the contract of `KeyedState`."""

    make: Callable[[StateContext], KeyedState]
    pickles: Pickles

    def create_state(  # noqa: PLR0913, PLR0917 - the range is two numbers everywhere
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        """Returns the empty state of one operator in one subtask."""
        key_groups = first_key_group, last_key_group, max_parallelism
        return self.make(StateContext(*key_groups, area, clock, uid, open_version, self.pickles))


def create_backend(
    name: str, *, pickles: Pickles = Pickles.ALLOW, **settings: Any
) -> KeyedStateBackend:
    """Returns the backend of that name.

    Args:
        name: `hashmap` or `rocksdb`.
        pickles: What to do about state that is pickled.
        settings: Fields of `FoldPolicy`; for `rocksdb` also of `RocksLimits` and `RocksSettings`.

    Raises:
        ConfigurationError: There is no such backend or setting, or its library is missing.
    """
    if name == HASHMAP:
        (policy,) = _take_settings(name, settings, FoldPolicy)
        return KeyedStateBackend(lambda context: HeapKeyedState(context, policy), pickles)
    if name == ROCKSDB:
        require_rocksdict()
        # Deltas over a base in RocksDB are bounded by themselves, however large it is.
        parts = _take_settings(
            name, {"full_share": 0.0, **settings}, FoldPolicy, RocksLimits, RocksSettings
        )
        return KeyedStateBackend(lambda context: RocksKeyedState(context, *parts), pickles)
    raise ConfigurationError(f"state.backend.type is {name!r}; it must be 'hashmap' or 'rocksdb'.")


def _take_settings(name: str, settings: dict[str, Any], *parts: type[Any]) -> list[Any]:
    """Deals flat settings out to the dataclasses that have them as fields."""
    names = [{field.name for field in fields(part)} for part in parts]
    known = sorted(set().union(*names))
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: no setting of the {name!r} state backend, which has "
            f"{', '.join(known)}."
        )
    return [
        part(**{key: value for key, value in settings.items() if key in own})
        for part, own in zip(parts, names, strict=True)
    ]


_TABLES: Final = {table.kind: table for table in (HeapValueTable, HeapListTable, HeapMapTable)}


class HeapKeyedState(KeyedState):
    """The `hashmap` backend: all state of a subtask in dicts, its base one file.

    A base is not sorted by key group: that would cost more than writing it does, once per fold, to
    save a filter once per rescale.
    """

    backend_name = HASHMAP

    def _new_table(self, kind: str, name: str) -> Table:
        return _TABLES[kind](name)

    def _load_base(self, version: KeyedStateVersion) -> None:
        self._replay(version.base)

    def _write_base(self, version_id: str) -> KeyedStateVersion:
        tables = []
        for table in self._tables.values():
            assert isinstance(table, HeapValueTable | HeapListTable | HeapMapTable)
            ttl = self._ttls.get(table.name)
            if ttl is not None and ttl.cleans_images:
                table.expire_all(ttl.deadline_ms)
            columns = table.image()
            tables.append(TableColumns(table.name, table.kind, table.timed, columns, table.schema))
            table.mark_clean()
        payload = Payload(tables, self.event_timers.image(), self.processing_timers.image())
        self.event_timers.mark_clean()
        self.processing_timers.mark_clean()
        handle = self.context.area.write(
            f"{version_id}.base", payload.encode(self.uid, self.context.pickles)
        )
        return self._version(version_id, (handle,))


def open_version(version: KeyedStateVersion, context: StateContext) -> KeyedState:
    """Returns a version of any range and backend, to be read only."""
    backend = create_backend(version.backend, pickles=context.pickles)
    groups = version.first_key_group, version.last_key_group, context.max_parallelism
    state = backend.create_state(*groups, context.area, context.clock, context.uid)
    state.restore((version,))
    return state


def read_entries(
    version: KeyedStateVersion, area: FileArea, pickles: Pickles = Pickles.ALLOW
) -> Iterator[Row]:
    """Yields (state name, kind, key, namespace, value) of everything in a version.

    Kinds are `value`, `list`, `map`, `event_timer` and `processing_timer`. A map yields one row per
    entry with value (map key, map value); a list one row or several, in order. Timers have the name
    "" and their time as value. Last accesses of states with a TTL are left out, and entries that
    expired but were not removed yet are yielded.

    Args:
        version: Of any backend.
        area: Where its files are.
        pickles: ALLOW runs the pickles in it, so it must come from where code may come from; with
            OPAQUE a pickled value or key is an `Opaque`.

    Raises:
        StateError: A file is missing or damaged.
    """
    # Rows are read from the first to the last, never looked up by key group.
    groups = version.first_key_group, version.last_key_group, LIMIT_MAX_PARALLELISM
    state = create_backend(version.backend, pickles=pickles).create_state(
        *groups, area, EpochClock(), "(reader)"
    )
    plain = retimed(to_timed=False, now_ms=0)
    try:
        state.restore((version,))
        for row in state.entries():
            name, kind, key, ns, value = row
            is_timed = state.is_timed(name)
            yield (name, kind, key, ns, changed_content(kind, value, plain)) if is_timed else row
    finally:
        state.close()
