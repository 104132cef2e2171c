"""Makes the state object that a descriptor describes.

Value state without a namespace reads and writes the dicts of its table directly: this is the
hottest code of many jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.core.copies import IMMUTABLE, Copier, unchanged
from penstock.state.api import State, ValueState
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.state.heap import HeapValueTable
from penstock.state.objects import (
    Scope,
    TableAggregatingState,
    TableListState,
    TableMapState,
    TableReducingState,
    checked_elements,
    reduce_callable,
)
from penstock.state.rocksdb.table import MISSING, RocksValueTable
from penstock.state.tables import ABSENT, ListTable, MapTable, Table, ValueTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.core.times import EpochClock
    from penstock.state.descriptors import StateTtlConfig

# State objects with a time to live.
#
# Tables hold `(value, last access)`; each list element and each map entry has a last access of its
# own. An entry is expired when `last access + ttl <= now`, in processing time. An access that finds
# an expired entry removes it, even if it returns the value.


class Ttl:
    """The rules of one state, with the clock that they go by.

    Attributes:
        config: What the user asked for.
        accesses: Accesses since the last cleanup, which pay for its size.
    """

    __slots__ = ("_clock", "accesses", "config", "prolongs_on_read", "returns_expired", "ttl_ms")

    def __init__(self, config: StateTtlConfig, clock: EpochClock) -> None:
        self.config = config
        self.accesses = 0
        self.ttl_ms = config.ttl_ms
        self.prolongs_on_read = config.get_update_type() is config.UpdateType.OnReadAndWrite
        self.returns_expired = (
            config.get_state_visibility() is config.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self._clock = clock

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms

    @property
    def deadline_ms(self) -> int:
        """What was last accessed by then is expired now."""
        return self._clock.now_ms - self.ttl_ms

    def is_expired(self, accessed_ms: int) -> bool:
        return accessed_ms + self.ttl_ms <= self._clock.now_ms

    @property
    def cleans_images(self) -> bool:
        """Whether full images leave expired entries out."""
        strategies = self.config.get_cleanup_strategies()
        return strategies.in_full_snapshot() or strategies.is_cleanup_in_background()

    @property
    def cleans_rows(self) -> bool:
        """Whether rewriting the database drops expired rows."""
        strategies = self.config.get_cleanup_strategies()
        return (
            strategies.in_full_snapshot()
            or strategies.get_rocksdb_compact_filter_cleanup_strategy() is not None
        )

    def cleanup_size(self) -> int:
        """Returns how many entries the accesses since the last call oblige to look at."""
        strategy = self.config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        accesses, self.accesses = self.accesses, 0
        return 0 if strategy is None else accesses * strategy.get_cleanup_size()


class TtlValueState(ValueState[Any]):
    """Value state that expires."""

    __slots__ = ("_scope", "_snapshot", "_table", "_ttl")

    def __init__(self, scope: Scope, table: ValueTable, snapshot: Copier, ttl: Ttl) -> None:
        self._scope = scope
        self._table = table
        self._snapshot = snapshot
        self._ttl = ttl

    def value(self) -> Any:
        return self._read(
            returns_expired=self._ttl.returns_expired, prolongs=self._ttl.prolongs_on_read
        )

    def unexpired(self) -> Any:
        """Returns the value that an accumulation continues from: never an expired one."""
        return self._read(returns_expired=False, prolongs=False)

    def _read(self, *, returns_expired: bool, prolongs: bool) -> Any:
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        entry = self._table.get(scope.key, scope.namespace)
        if entry is None:
            return None
        value, accessed = entry
        if ttl.is_expired(accessed):
            self._table.remove(scope.key, scope.namespace)
            return value if returns_expired else None
        if prolongs and accessed != ttl.now_ms:
            self._table.put(scope.key, scope.namespace, (value, ttl.now_ms))
        return value

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        self._table.put(scope.key, scope.namespace, (self._snapshot(value), ttl.now_ms))

    def clear(self) -> None:
        scope = self._scope
        self._table.remove(scope.key, scope.namespace)


class TtlListState(TableListState):
    """List state whose elements expire one by one."""

    __slots__ = ("_ttl",)

    def __init__(self, scope: Scope, table: ListTable, snapshot: Copier, ttl: Ttl) -> None:
        super().__init__(scope, table, snapshot)
        self._ttl = ttl

    def get(self) -> list[Any]:
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        elements = self._table.get(scope.key, scope.namespace)
        fresh = [element for element in elements if not ttl.is_expired(element[1])]
        returned = elements if ttl.returns_expired else fresh
        values = [value for value, _ in returned]
        now = ttl.now_ms
        if ttl.prolongs_on_read and any(accessed != now for _, accessed in fresh):
            fresh = [(value, now) for value, _ in fresh]
        elif len(fresh) == len(elements):
            return values
        self._table.replace(scope.key, scope.namespace, fresh)
        return values

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        added = self._stamped(values)
        scope = self._scope
        if added:
            self._table.extend(scope.key, scope.namespace, added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = self._stamped(values)
        scope = self._scope
        self._table.replace(scope.key, scope.namespace, replaced)

    def _stamped(self, values: Iterable[Any]) -> list[Any]:
        self._ttl.accesses += 1
        now = self._ttl.now_ms
        checked = checked_elements(self._table.name, values, self._snapshot)
        return [(value, now) for value in checked]


class TtlMapState(TableMapState):
    """Map state whose entries expire one by one."""

    __slots__ = ("_ttl",)

    def __init__(self, scope: Scope, table: MapTable, snapshot: Copier, ttl: Ttl) -> None:
        super().__init__(scope, table, snapshot)
        self._ttl = ttl

    def get(self, key: Any) -> Any:
        scope = self._scope
        entry = self._table.get(scope.key, scope.namespace, key)
        value = ABSENT if entry is None else self._visible(key, entry)
        return None if value is ABSENT else value

    def contains(self, key: Any) -> bool:
        scope = self._scope
        entry = self._table.get(scope.key, scope.namespace, key)
        return entry is not None and self._visible(key, entry) is not ABSENT

    def _visible(self, key: Any, entry: tuple[Any, int]) -> Any:
        """Returns the value of an entry that was read, after what reading does to it."""
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        value, accessed = entry
        if ttl.is_expired(accessed):
            self._table.remove(scope.key, scope.namespace, key)
            return value if ttl.returns_expired else ABSENT
        if ttl.prolongs_on_read and accessed != ttl.now_ms:
            self._table.put(scope.key, scope.namespace, key, (value, ttl.now_ms))
        return value

    def items(self) -> Iterator[tuple[Any, Any]]:
        scope = self._scope
        for key, entry in self._table.items(scope.key, scope.namespace):
            value = self._visible(key, entry)
            if value is not ABSENT:
                yield key, value

    def is_empty(self) -> bool:
        scope, ttl = self._scope, self._ttl
        return not any(
            ttl.returns_expired or not ttl.is_expired(accessed)
            for _, (_, accessed) in self._table.items(scope.key, scope.namespace)
        )

    def put(self, key: Any, value: Any) -> None:
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        self._table.put(scope.key, scope.namespace, key, (self._snapshot(value), ttl.now_ms))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        scope, ttl = self._scope, self._ttl
        ttl.accesses += 1
        now = ttl.now_ms
        snapshot = self._snapshot
        stamped = {key: (snapshot(value), now) for key, value in dict_value.items()}
        self._table.update(scope.key, scope.namespace, stamped)


class HeapValueState(ValueState[Any]):
    """Value state over the dicts of a heap table: 55 ns to read, 85 ns to write, measured.

    `self._entries.get` beats a bound method kept in a slot: CPython calls it without making one.
    """

    __slots__ = ("_dirty", "_entries", "_scope", "_snapshot", "_table")

    def __init__(
        self, scope: Scope, table: HeapValueTable | RocksValueTable, snapshot: Copier
    ) -> None:
        self._scope = scope
        self._table = table
        self._snapshot = snapshot
        self._entries = table.spaces.entries
        self._dirty = table.spaces.dirty

    def value(self) -> Any:
        scope = self._scope
        if scope.namespace is None:
            return self._entries.get(scope.key)
        return self._table.get(scope.key, scope.namespace)

    def update(self, value: Any) -> None:
        scope = self._scope
        if value is None or scope.namespace is not None:
            self._table.put(scope.key, scope.namespace, value)
        else:
            key = scope.key
            self._entries[key] = value
            self._dirty[key] = value

    def clear(self) -> None:
        scope = self._scope
        self._table.remove(scope.key, scope.namespace)


class RocksValueState(HeapValueState):
    """Value state over a database: the same where memory knows the value, as after a prefetch."""

    __slots__ = ()

    def value(self) -> Any:
        scope = self._scope
        if scope.namespace is None:
            value = self._entries.get(scope.key, MISSING)
            if value is not MISSING:
                return value
        return self._table.get(scope.key, scope.namespace)


class CopyingHeapValueState(HeapValueState):
    """The same where values may change."""

    __slots__ = ()

    def update(self, value: Any) -> None:
        if type(value) not in IMMUTABLE:
            value = self._snapshot(value)
        HeapValueState.update(self, value)


class CopyingRocksValueState(CopyingHeapValueState):
    """The same over a database."""

    __slots__ = ()

    value = RocksValueState.value


def make_state(
    scope: Scope, table: Table, ttl: Ttl | None, descriptor: StateDescriptor, snapshot: Copier
) -> State:
    """Returns a new state object over a table of the kind that the descriptor needs.

    Args:
        scope: Says which key and namespace are current.
        table: Holds the values.
        ttl: The rules of its time to live, if it has one.
        descriptor: What the program said.
        snapshot: Copies what is put into the state.
    """
    expiry = () if ttl is None else (ttl,)
    if isinstance(table, ListTable):
        return (TtlListState if expiry else TableListState)(scope, table, snapshot, *expiry)
    if isinstance(table, MapTable):
        return (TtlMapState if expiry else TableMapState)(scope, table, snapshot, *expiry)
    values = cast("ValueTable", table)
    is_folded = isinstance(descriptor, ReducingStateDescriptor | AggregatingStateDescriptor)
    state = _value_state(scope, values, ttl, descriptor, unchanged if is_folded else snapshot)
    # An accumulation never continues from an expired value.
    present = state.unexpired if isinstance(state, TtlValueState) else state.value
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = reduce_callable(descriptor.get_reduce_function())
        return TableReducingState(state, present, reduce, snapshot)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return TableAggregatingState(state, present, descriptor.get_agg_function(), snapshot)
    return state


def _value_state(
    scope: Scope, table: ValueTable, ttl: Ttl | None, descriptor: StateDescriptor, snapshot: Copier
) -> ValueState[Any]:
    if ttl is not None:
        return TtlValueState(scope, table, snapshot, ttl)
    is_immutable = getattr(descriptor.type_info, "is_immutable", False)
    copies = snapshot is not unchanged and not is_immutable
    if isinstance(table, HeapValueTable):
        return (CopyingHeapValueState if copies else HeapValueState)(scope, table, snapshot)
    assert isinstance(table, RocksValueTable), table
    return (CopyingRocksValueState if copies else RocksValueState)(scope, table, snapshot)
