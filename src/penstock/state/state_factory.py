"""Makes the state object that a descriptor describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.core.copies import unchanged
from penstock.core.errors import ProgramError
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.heap import HeapValueTable
from penstock.state.objects import (
    CopyingHeapValueState,
    CopyingRocksValueState,
    HeapValueState,
    RocksValueState,
    Scope,
    TableAggregatingState,
    TableListState,
    TableMapState,
    TableReducingState,
    TableValueState,
    VoidScope,
    reduce_callable,
)
from penstock.state.rocksdb.values import RocksValueTable
from penstock.state.ttl_states import TtlListState, TtlMapState, TtlValueState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.copies import Copier
    from penstock.state.api import State, ValueState
    from penstock.state.keyed import KeyedState


def make_state(
    store: KeyedState, descriptor: StateDescriptor, owner: str, *, ignore_namespace: bool
) -> State:
    """Returns a new state object over the tables of `store`."""
    scope = cast("Scope", VoidScope(store) if ignore_namespace else store)
    if isinstance(descriptor, ListStateDescriptor):
        lists = store.list_table(descriptor.name, owner)
        store.declare(lists, descriptor)
        ttl = store.enable_ttl(lists, descriptor.ttl)
        return (
            TableListState(scope, lists, store.snapshot)
            if ttl is None
            else TtlListState(scope, lists, ttl, store.snapshot)
        )
    if isinstance(descriptor, MapStateDescriptor):
        maps = store.map_table(descriptor.name, owner)
        store.declare(maps, descriptor)
        ttl = store.enable_ttl(maps, descriptor.ttl)
        return (
            TableMapState(scope, maps, store.snapshot)
            if ttl is None
            else TtlMapState(scope, maps, ttl, store.snapshot)
        )
    if isinstance(descriptor, ValueStateDescriptor):
        return _value_state(store, owner, scope, descriptor, store.snapshot)
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = reduce_callable(descriptor.get_reduce_function())
        state = _value_state(store, owner, scope, descriptor, unchanged)
        return TableReducingState(state, _present(state), reduce, store.snapshot)
    if isinstance(descriptor, AggregatingStateDescriptor):
        state = _value_state(store, owner, scope, descriptor, unchanged)
        function = descriptor.get_agg_function()
        return TableAggregatingState(state, _present(state), function, store.snapshot)
    raise ProgramError(
        f"{descriptor!r} describes no keyed state; use a Value-, List-, Map-, Reducing- or "
        "AggregatingStateDescriptor."
    )


def _value_state(
    store: KeyedState, owner: str, scope: Scope, descriptor: StateDescriptor, snapshot: Copier
) -> ValueState[Any]:
    table = store.value_table(descriptor.name, owner)
    store.declare(table, descriptor)
    ttl = store.enable_ttl(table, descriptor.ttl)
    if ttl is not None:
        return TtlValueState(scope, table, ttl, snapshot)
    is_immutable = getattr(descriptor.type_info, "is_immutable", False)
    copies = snapshot is not unchanged and not is_immutable
    if isinstance(table, HeapValueTable):
        if copies:
            return CopyingHeapValueState(scope, table, snapshot)
        return HeapValueState(scope, table)
    if isinstance(table, RocksValueTable):
        if copies:
            return CopyingRocksValueState(scope, table, snapshot)
        return RocksValueState(scope, table)
    return TableValueState(scope, table, snapshot)


def _present(state: ValueState[Any]) -> Callable[[], Any]:
    """Returns what says which value an accumulation goes on from."""
    return state.unexpired if isinstance(state, TtlValueState) else state.value
