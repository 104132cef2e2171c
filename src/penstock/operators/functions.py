"""User functions, by PyFlink's names: `pyflink.datastream.functions` in one place."""

from __future__ import annotations

from penstock.operators.adapters import (
    as_co_group,
    as_filter,
    as_flat_join,
    as_flat_map,
    as_instance,
    as_join,
    as_key_selector,
    as_map,
    as_partitioner,
    as_reduce,
    close_function,
    open_function,
    private_copy,
)
from penstock.operators.function_base import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
    SinkFunction,
    SourceFunction,
)
from penstock.operators.function_broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.operators.function_checkpointed import CheckpointedFunction
from penstock.operators.function_join import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from penstock.operators.function_process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.operators.function_window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.user_timers import TimeDomain, TimerService
from penstock.state.api import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimeDomain",
    "TimerService",
    "WindowFunction",
    "as_co_group",
    "as_filter",
    "as_flat_join",
    "as_flat_map",
    "as_instance",
    "as_join",
    "as_key_selector",
    "as_map",
    "as_partitioner",
    "as_reduce",
    "close_function",
    "open_function",
    "private_copy",
]
