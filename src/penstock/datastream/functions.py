"""PyFlink's `datastream.functions`: what programs subclass."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class
from penstock.connectors.custom import PythonSource as SourceFunction
from penstock.connectors.user_sink import SinkFunction
from penstock.operators.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
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
from penstock.state.api import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
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
