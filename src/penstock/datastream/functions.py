"""PyFlink's `datastream.functions`: what programs subclass."""

from __future__ import annotations

from penstock.connectors.custom import PythonSource as _PythonSource
from penstock.connectors.user_sink import SinkFunction as SinkFunction
from penstock.core.refused_names import facade
from penstock.operators.async_function import (
    AsyncFunction as AsyncFunction,
    AsyncRetryPredicate as AsyncRetryPredicate,
    AsyncRetryStrategy as AsyncRetryStrategy,
)
from penstock.operators.functions import (
    AggregateFunction as AggregateFunction,
    BaseBroadcastProcessFunction as BaseBroadcastProcessFunction,
    BroadcastProcessFunction as BroadcastProcessFunction,
    CoFlatMapFunction as CoFlatMapFunction,
    CoGroupFunction as CoGroupFunction,
    CoMapFunction as CoMapFunction,
    CoProcessFunction as CoProcessFunction,
    FilterFunction as FilterFunction,
    FlatJoinFunction as FlatJoinFunction,
    FlatMapFunction as FlatMapFunction,
    Function as Function,
    JoinFunction as JoinFunction,
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction as KeyedCoProcessFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    NullByteKeySelector as NullByteKeySelector,
    Partitioner as Partitioner,
    ProcessFunction as ProcessFunction,
    ProcessJoinFunction as ProcessJoinFunction,
    ReduceFunction as ReduceFunction,
)
from penstock.operators.runtime_context import (
    CheckpointedFunction as CheckpointedFunction,
    RuntimeContext as RuntimeContext,
)
from penstock.operators.windows.functions import (
    AllWindowFunction as AllWindowFunction,
    PassThroughAllWindowFunction as PassThroughAllWindowFunction,
    PassThroughWindowFunction as PassThroughWindowFunction,
    ProcessAllWindowFunction as ProcessAllWindowFunction,
    ProcessWindowFunction as ProcessWindowFunction,
    WindowFunction as WindowFunction,
)
from penstock.state.api import (
    FunctionInitializationContext as FunctionInitializationContext,
    FunctionSnapshotContext as FunctionSnapshotContext,
    KeyedStateStore as KeyedStateStore,
)

__getattr__ = facade(__name__)

SourceFunction = _PythonSource
