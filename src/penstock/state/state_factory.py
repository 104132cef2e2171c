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
from penstock.state.heap_tables import HeapValueTable
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
from penstock.state.rocks_tables import RocksValueTable

if TYPE_CHECKING:
    from penstock.state.api import State, ValueState
    from penstock.state.keyed import KeyedState


def make_state(
    store: KeyedState, descriptor: StateDescriptor, *, ignore_namespace: bool
) -> State:
    """Returns a new state object over the tables of `store`."""
    scope = cast("Scope", VoidScope(store) if ignore_namespace else store)
    if isinstance(descriptor, ListStateDescriptor):
        return TableListState(scope, store.list_table(descriptor.name))
    if isinstance(descriptor, MapStateDescriptor):
        return TableMapState(scope, store.map_table(descriptor.name))
    if isinstance(descriptor, ValueStateDescriptor):
        return _value_state(store, scope, descriptor)
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce = reduce_callable(descriptor.get_reduce_function())
        return TableReducingState(_value_state(store, scope, descriptor), reduce)
    if isinstance(descriptor, AggregatingStateDescriptor):
        function = descriptor.get_agg_function()
        return TableAggregatingState(_value_state(store, scope, descriptor), function)
    raise ProgramError(
        f"{descriptor!r} describes no keyed state; use a Value-, List-, Map-, Reducing- or "
        "AggregatingStateDescriptor."
    )


def _value_state(store: KeyedState, scope: Scope, descriptor: StateDescriptor) -> ValueState[Any]:
    table = store.value_table(descriptor.name)
    if isinstance(table, HeapValueTable):
        return HeapValueState(scope, table)
    if isinstance(table, RocksValueTable):
        return RocksValueState(scope, table)
    return TableValueState(scope, table)
