"""Makes the state object that a descriptor describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.core.errors import ProgramError
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.hashmap.tables import HeapValueTable
from penstock.state.objects import (
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

    from penstock.state.api import State, ValueState
    from penstock.state.keyed import KeyedState


def make_state(store: KeyedState, descriptor: StateDescriptor, *, ignore_namespace: bool) -> State:
    """Returns a new state object over the tables of `store`."""
    scope = cast("Scope", VoidScope(store) if ignore_namespace else store)
    if isinstance(descriptor, ListStateDescriptor):
        lists = store.list_table(descriptor.name)
        store.declare(lists, descriptor)
        ttl = store.enable_ttl(lists, descriptor.ttl)
        return TableListState(scope, lists) if ttl is None else TtlListState(scope, lists, ttl)
    if isinstance(descriptor, MapStateDescriptor):
        maps = store.map_table(descriptor.name)
        store.declare(maps, descriptor)
        ttl = store.enable_ttl(maps, descriptor.ttl)
        return TableMapState(scope, maps) if ttl is None else TtlMapState(scope, maps, ttl)
    if isinstance(descriptor, ValueStateDescriptor):
        return _value_state(store, scope, descriptor)
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = reduce_callable(descriptor.get_reduce_function())
        state = _value_state(store, scope, descriptor)
        return TableReducingState(state, _present(state), reduce)
    if isinstance(descriptor, AggregatingStateDescriptor):
        state = _value_state(store, scope, descriptor)
        return TableAggregatingState(state, _present(state), descriptor.get_agg_function())
    raise ProgramError(
        f"{descriptor!r} describes no keyed state; use a Value-, List-, Map-, Reducing- or "
        "AggregatingStateDescriptor."
    )


def _value_state(store: KeyedState, scope: Scope, descriptor: StateDescriptor) -> ValueState[Any]:
    table = store.value_table(descriptor.name)
    store.declare(table, descriptor)
    ttl = store.enable_ttl(table, descriptor.ttl)
    if ttl is not None:
        return TtlValueState(scope, table, ttl)
    if isinstance(table, HeapValueTable):
        return HeapValueState(scope, table)
    if isinstance(table, RocksValueTable):
        return RocksValueState(scope, table)
    return TableValueState(scope, table)


def _present(state: ValueState[Any]) -> Callable[[], Any]:
    """Returns what says which value an accumulation goes on from."""
    return state.unexpired if isinstance(state, TtlValueState) else state.value
