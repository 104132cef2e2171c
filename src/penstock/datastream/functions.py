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

AsyncFunctionDescriptor = unsupported_class(__name__, "AsyncFunctionDescriptor")
FunctionWrapper = unsupported_class(__name__, "FunctionWrapper")
InternalIterableAllWindowFunction = unsupported_class(__name__, "InternalIterableAllWindowFunction")
InternalIterableProcessAllWindowFunction = unsupported_class(
    __name__, "InternalIterableProcessAllWindowFunction"
)
InternalIterableProcessWindowFunction = unsupported_class(
    __name__, "InternalIterableProcessWindowFunction"
)
InternalIterableWindowFunction = unsupported_class(__name__, "InternalIterableWindowFunction")
InternalProcessAllWindowContext = unsupported_class(__name__, "InternalProcessAllWindowContext")
InternalProcessWindowContext = unsupported_class(__name__, "InternalProcessWindowContext")
InternalSingleValueAllWindowFunction = unsupported_class(
    __name__, "InternalSingleValueAllWindowFunction"
)
InternalSingleValueProcessAllWindowFunction = unsupported_class(
    __name__, "InternalSingleValueProcessAllWindowFunction"
)
InternalSingleValueProcessWindowFunction = unsupported_class(
    __name__, "InternalSingleValueProcessWindowFunction"
)
InternalSingleValueWindowFunction = unsupported_class(__name__, "InternalSingleValueWindowFunction")
InternalWindowFunction = unsupported_class(__name__, "InternalWindowFunction")
JavaFunctionWrapper = unsupported_class(__name__, "JavaFunctionWrapper")
ReduceFunctionWrapper = unsupported_class(__name__, "ReduceFunctionWrapper")
