"""PyFlink's `datastream.functions`: what programs subclass."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class
from penstock.connectors.custom import PythonSource as SourceFunction
from penstock.connectors.user_sink import SinkFunction
from penstock.operators.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from penstock.operators.functions import (
    AggregateFunction,
    AllWindowFunction,
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    Function,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStateStore,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
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
    "FunctionWrapper",
    "InternalIterableAllWindowFunction",
    "InternalIterableProcessAllWindowFunction",
    "InternalIterableProcessWindowFunction",
    "InternalIterableWindowFunction",
    "InternalProcessAllWindowContext",
    "InternalProcessWindowContext",
    "InternalSingleValueAllWindowFunction",
    "InternalSingleValueProcessAllWindowFunction",
    "InternalSingleValueProcessWindowFunction",
    "InternalSingleValueWindowFunction",
    "InternalWindowFunction",
    "JavaFunctionWrapper",
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
    "ReduceFunctionWrapper",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "WindowFunction",
]

AsyncFunctionDescriptor = unsupported_class("datastream.functions.AsyncFunctionDescriptor")
FunctionWrapper = unsupported_class("datastream.functions.FunctionWrapper")
InternalIterableAllWindowFunction = unsupported_class(
    "datastream.functions.InternalIterableAllWindowFunction"
)
InternalIterableProcessAllWindowFunction = unsupported_class(
    "datastream.functions.InternalIterableProcessAllWindowFunction"
)
InternalIterableProcessWindowFunction = unsupported_class(
    "datastream.functions.InternalIterableProcessWindowFunction"
)
InternalIterableWindowFunction = unsupported_class(
    "datastream.functions.InternalIterableWindowFunction"
)
InternalProcessAllWindowContext = unsupported_class(
    "datastream.functions.InternalProcessAllWindowContext"
)
InternalProcessWindowContext = unsupported_class(
    "datastream.functions.InternalProcessWindowContext"
)
InternalSingleValueAllWindowFunction = unsupported_class(
    "datastream.functions.InternalSingleValueAllWindowFunction"
)
InternalSingleValueProcessAllWindowFunction = unsupported_class(
    "datastream.functions.InternalSingleValueProcessAllWindowFunction"
)
InternalSingleValueProcessWindowFunction = unsupported_class(
    "datastream.functions.InternalSingleValueProcessWindowFunction"
)
InternalSingleValueWindowFunction = unsupported_class(
    "datastream.functions.InternalSingleValueWindowFunction"
)
InternalWindowFunction = unsupported_class("datastream.functions.InternalWindowFunction")
JavaFunctionWrapper = unsupported_class("datastream.functions.JavaFunctionWrapper")
ReduceFunctionWrapper = unsupported_class("datastream.functions.ReduceFunctionWrapper")
