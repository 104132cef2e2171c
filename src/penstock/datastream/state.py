"""PyFlink's `datastream.state`: state of functions, and its descriptors."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.state.api import (
    AggregatingState as AggregatingState,
    AppendingState as AppendingState,
    BroadcastState as BroadcastState,
    ListState as ListState,
    MapState as MapState,
    MergingState as MergingState,
    OperatorStateStore as OperatorStateStore,
    ReadOnlyBroadcastState as ReadOnlyBroadcastState,
    ReducingState as ReducingState,
    State as State,
    ValueState as ValueState,
)
from penstock.state.descriptors import (
    AggregatingStateDescriptor as AggregatingStateDescriptor,
    ListStateDescriptor as ListStateDescriptor,
    MapStateDescriptor as MapStateDescriptor,
    ReducingStateDescriptor as ReducingStateDescriptor,
    StateDescriptor as StateDescriptor,
    StateTtlConfig as StateTtlConfig,
    ValueStateDescriptor as ValueStateDescriptor,
)

__getattr__ = facade(__name__)
