"""PyFlink's `datastream`: programs over streams."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.datastream.async_data_stream import AsyncDataStream as AsyncDataStream
from penstock.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage as CheckpointStorage,
    FileSystemCheckpointStorage as FileSystemCheckpointStorage,
    JobManagerCheckpointStorage as JobManagerCheckpointStorage,
)
from penstock.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
from penstock.datastream.data_stream import (
    AllWindowedStream as AllWindowedStream,
    BroadcastConnectedStream as BroadcastConnectedStream,
    BroadcastStream as BroadcastStream,
    CloseableIterator as CloseableIterator,
    CoGroupedStreams as CoGroupedStreams,
    ConnectedStreams as ConnectedStreams,
    DataStream as DataStream,
    DataStreamSink as DataStreamSink,
    IntervalJoinedStreams as IntervalJoinedStreams,
    JoinedStreams as JoinedStreams,
    KeyedStream as KeyedStream,
    WindowedStream as WindowedStream,
)
from penstock.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
from penstock.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)
from penstock.datastream.functions import (
    AggregateFunction as AggregateFunction,
    AllWindowFunction as AllWindowFunction,
    AsyncFunction as AsyncFunction,
    AsyncRetryPredicate as AsyncRetryPredicate,
    AsyncRetryStrategy as AsyncRetryStrategy,
    BroadcastProcessFunction as BroadcastProcessFunction,
    CheckpointedFunction as CheckpointedFunction,
    CoFlatMapFunction as CoFlatMapFunction,
    CoGroupFunction as CoGroupFunction,
    CoMapFunction as CoMapFunction,
    CoProcessFunction as CoProcessFunction,
    FilterFunction as FilterFunction,
    FlatJoinFunction as FlatJoinFunction,
    FlatMapFunction as FlatMapFunction,
    FunctionInitializationContext as FunctionInitializationContext,
    FunctionSnapshotContext as FunctionSnapshotContext,
    JoinFunction as JoinFunction,
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction as KeyedCoProcessFunction,
    KeyedProcessFunction as KeyedProcessFunction,
    KeySelector as KeySelector,
    MapFunction as MapFunction,
    Partitioner as Partitioner,
    ProcessAllWindowFunction as ProcessAllWindowFunction,
    ProcessFunction as ProcessFunction,
    ProcessJoinFunction as ProcessJoinFunction,
    ProcessWindowFunction as ProcessWindowFunction,
    ReduceFunction as ReduceFunction,
    RuntimeContext as RuntimeContext,
    SinkFunction as SinkFunction,
    SourceFunction as SourceFunction,
    WindowFunction as WindowFunction,
)
from penstock.datastream.output_tag import OutputTag as OutputTag
from penstock.datastream.slot_sharing_group import (
    MemorySize as MemorySize,
    SlotSharingGroup as SlotSharingGroup,
)
from penstock.datastream.state_backend import (
    EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend,
    HashMapStateBackend as HashMapStateBackend,
    PredefinedOptions as PredefinedOptions,
    StateBackend as StateBackend,
)
from penstock.datastream.stream_execution_environment import (
    StreamExecutionEnvironment as StreamExecutionEnvironment,
)
from penstock.datastream.time_domain import TimeDomain as TimeDomain
from penstock.datastream.timerservice import TimerService as TimerService
from penstock.datastream.window import (
    CountWindow as CountWindow,
    GlobalWindow as GlobalWindow,
    MergingWindowAssigner as MergingWindowAssigner,
    TimeWindow as TimeWindow,
    Trigger as Trigger,
    TriggerResult as TriggerResult,
    Window as Window,
    WindowAssigner as WindowAssigner,
)

__getattr__ = facade(__name__, also="CustomCheckpointStorage CustomStateBackend")
