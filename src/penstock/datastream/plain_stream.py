"""`DataStream`: records of one kind, and what can be made of them.

A stream is a view on the program: the edges that its next operator will get. Methods append a node
and return a stream of its output; nothing runs before `execute()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from penstock.core.errors import ProgramError
from penstock.core.partitioning import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.core.types import TypeInformation, checked_type
from penstock.datastream.callables import as_process_function, inspecting, key_groups, projection
from penstock.datastream.missing_methods import RefusedMethods, earlier_keywords
from penstock.datastream.stream_view import DataStreamSink, StreamView
from penstock.graph.nodes import Input, NodeKind
from penstock.operators.adapters import as_key_selector, as_partitioner
from penstock.operators.convert import with_output_type
from penstock.operators.process import ProcessSpec
from penstock.operators.results import as_output_tag
from penstock.operators.simple import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.timestamps import TimestampsAndWatermarksSpec

if TYPE_CHECKING:
    from penstock.connectors.sink import Sink
    from penstock.datastream.connected_streams import (
        BroadcastConnectedStream,
        BroadcastStream,
        CoGroupedStreams,
        ConnectedStreams,
        JoinedStreams,
    )
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.sinks import CloseableIterator
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.windowed_stream import AllWindowedStream
    from penstock.operators.functions import (
        FilterFunction,
        FlatMapFunction,
        KeySelector,
        MapFunction,
        Partitioner,
        ProcessFunction,
    )
    from penstock.operators.results import OutputTag
    from penstock.operators.watermark_strategy import WatermarkStrategy
    from penstock.operators.windows.assigners import WindowAssigner
    from penstock.state.descriptors import MapStateDescriptor

__all__ = ["DataStream"]


class DataStream(RefusedMethods, StreamView):
    """A stream of records."""

    # ---- one record at a time ----

    @earlier_keywords(result_type="output_type")
    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Makes one record of each.

        Example:
            >>> env.from_collection([1, 2]).map(lambda x: x * 10).take()
            [10, 20]
        """
        return self._then("Map", MapSpec(func, self._is_keyed), output_type)

    @earlier_keywords(result_type="output_type")
    def flat_map(
        self,
        func: Callable[[Any], Any] | FlatMapFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Makes any number of records of each.

        Example:
            >>> env.from_collection(["to be", "or not"]).flat_map(str.split).take()
            ['to', 'be', 'or', 'not']
        """
        return self._then("FlatMap", FlatMapSpec(func, self._is_keyed), output_type)

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keeps the records for which the function is true.

        Example:
            >>> env.from_collection([1, 2, 3]).filter(lambda x: x > 1).take()
            [2, 3]
        """
        stream = self._then("Filter", FilterSpec(func, self._is_keyed))
        stream._type_info = self._type_info
        return stream

    def process(
        self,
        func: Callable[[Any, Any], Any] | ProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function that also sees timestamps and has side outputs.

        Example:
            >>> env.from_collection([7]).process(lambda value, ctx: [value, ctx.timestamp()]).take()
            [7, None]
        """
        return self._then("Process", ProcessSpec(as_process_function(func)), output_type)

    def inspect(self, func: Callable[[Any], Any] = print) -> DataStream:
        """Calls a function with each record and hands the record on; by default it is printed.

        For a look into a chain, and for counting or logging. What the function returns is not used,
        and it is called again when an epoch is repeated.

        Example:
            >>> env.from_collection([1, 2]).inspect().map(lambda x: -x).take()
            1
            2
            [-1, -2]
        """
        stream = self._then("Inspect", MapSpec(inspecting(func), self._is_keyed))
        stream._type_info = self._type_info
        return stream

    peek = inspect

    def project(self, *field_indexes: int) -> DataStream:
        """Keeps some fields of tuples, in the given order.

        Example:
            >>> pairs = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
            >>> pairs.project(1, 0).take()
            [(1, 'a')]
        """
        project, output_type = projection(self._type_info, field_indexes)
        return self._then("Projection", MapSpec(project), output_type)

    # ---- event time ----

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Gives records event times, and says when event time advances.

        Example:
            >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            ...     lambda event, _: event[1]
            ... )
            >>> events = env.from_collection([("a", 5)]).assign_timestamps_and_watermarks(times)
            >>> events.process(lambda event, ctx: [ctx.timestamp()]).take()
            [5]
        """
        stream = self._then(
            "Timestamps/Watermarks", TimestampsAndWatermarksSpec(watermark_strategy)
        )
        stream._type_info = self._type_info
        return stream

    # ---- keys and partitions ----

    @earlier_keywords(key_type_info="key_type")
    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int,
        key_type: TypeInformation | str | int | None = None,
        *more: str | int,
    ) -> KeyedStream:
        """Brings records of one key together; state and timers are by key behind it.

        Args:
            key_selector: A function of a record, a `KeySelector`, or the name or position of a
                field.
            key_type: Type of the key; a tuple becomes a `Row` if it says so. Or a second name or
                position: the key is then the tuple of all fields that are named.
            more: Further names or positions.

        Example:
            >>> pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
            >>> pairs.key_by(lambda pair: pair[0]).sum(1).take()
            [('a', 1), ('b', 2), ('a', 4)]
        """
        from penstock.datastream.keyed_stream import KeyedStream

        return KeyedStream(self, key_groups(key_selector, key_type, *more))

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Sends each record to the subtask that the partitioner names for its key.

        Example:
            >>> orders = env.from_collection([("de", 10), ("us", 20)])
            >>> def region(country, subtasks):
            ...     return 0 if country == "us" else subtasks - 1
            >>> by_region = orders.partition_custom(region, lambda order: order[0]).map(str)
            >>> sorted(by_region.set_parallelism(2).take())
            ["('de', 10)", "('us', 20)"]
        """
        return self._repartition(Custom(as_partitioner(partitioner), as_key_selector(key_selector)))

    def shuffle(self) -> DataStream:
        """Sends each record to a subtask at random.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).shuffle()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Shuffle())

    def rebalance(self) -> DataStream:
        """Deals records out to all subtasks in turn.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).rebalance()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Rebalance())

    def rescale(self) -> DataStream:
        """Deals records out in turn to the subtasks that belong to this one.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).rescale()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Rescale())

    def forward(self) -> DataStream:
        """Keeps records in their subtask; both sides must have one parallelism.

        Example:
            >>> env.from_collection([1, 2]).map(abs).forward().map(str).take()
            ['1', '2']
        """
        return self._repartition(Forward(explicit=True))

    def global_(self) -> DataStream:
        """Sends every record to the first subtask.

        Example:
            >>> dealt = env.from_collection([1, 2]).rebalance().map(abs).set_parallelism(2)
            >>> sorted(dealt.global_().map(str).set_parallelism(2).take())
            ['1', '2']
        """
        return self._repartition(Global())

    @overload
    def broadcast(self) -> DataStream: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Sends every record to every subtask; with descriptors, for broadcast state.

        Example:
            >>> env.from_collection(["a"]).broadcast().map(str.upper).set_parallelism(3).take()
            ['A', 'A', 'A']
            >>> rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
            >>> limits = env.from_collection([("eu", 5)]).broadcast(rules)
        """
        from penstock.datastream.connected_streams import BroadcastStream

        stream = self._repartition(Broadcast())
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(
            stream, [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        )

    # ---- several streams ----

    def union(self, *streams: DataStream) -> DataStream:
        """Puts streams together as one; their records should be of one kind.

        Example:
            >>> sorted(env.from_collection([1]).union(env.from_collection([2])).take())
            [1, 2]
        """
        for stream in streams:
            self._check_other(stream, "union")
        inputs = tuple(given for stream in (self, *streams) for given in stream._inputs)
        return DataStream(self._environment, inputs, self._type_info)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...
    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...
    def connect(
        self, ds: DataStream | BroadcastStream
    ) -> ConnectedStreams | BroadcastConnectedStream:
        """Puts two streams of different kinds side by side, for functions with two inputs.

        Example:
            >>> class Same(CoMapFunction):
            ...     def map1(self, value):
            ...         return float(value)
            ...
            ...     def map2(self, value):
            ...         return float(value["n"])
            >>> numbers = env.from_collection([1])
            >>> sorted(numbers.connect(env.from_collection([{"n": 2}])).map(Same()).take())
            [1.0, 2.0]
        """
        from penstock.datastream.connected_streams import (
            BroadcastConnectedStream,
            BroadcastStream,
            ConnectedStreams,
        )

        if isinstance(ds, BroadcastStream):
            self._check_other(ds.input_stream, "connect")
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_other(ds, "connect")
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pairs records of two streams with one key in one window.

        Continues with `.where(key).equal_to(key).window(assigner).apply(function)`.

        Example:
            >>> joined = events.join(events).where(lambda a: a[0]).equal_to(lambda b: b[0])
            >>> windows = joined.window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> sorted(windows.apply(lambda a, b: (a[1], b[1])).take())
            [(1000, 1000), (1000, 4000), (4000, 1000), (4000, 4000), (12000, 12000)]
        """
        from penstock.datastream.connected_streams import JoinedStreams

        self._check_other(other, "join")
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Gives a function all records of both streams with one key in a window; then as `join`.

        Example:
            >>> paired = events.co_group(events).where(lambda a: a[0]).equal_to(lambda b: b[0])
            >>> windows = paired.window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.apply(lambda left, right: [(len(list(left)), len(list(right)))]).take()
            [(2, 2), (1, 1)]
        """
        from penstock.datastream.connected_streams import CoGroupedStreams

        self._check_other(other, "co_group")
        return CoGroupedStreams(self, other)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Returns what an operator sent to a side output.

        Example:
            >>> odd = OutputTag("odd", Types.INT())
            >>> numbers = env.from_collection([1, 2, 3])
            >>> even = numbers.process(lambda x, ctx: [(odd, x) if x % 2 else x])
            >>> even.get_side_output(odd).take()
            [1, 3]
        """
        tag = as_output_tag(output_tag)
        if len(self._inputs) == 1 and self._inputs[0].side_tag is not None:
            raise ProgramError(
                f"get_side_output({tag!r}) was called on a side output, which has none of its own. "
                "Call it on the stream of the operator that emits to the tag."
            )
        node_id = self._own_node_id()
        stream = DataStream(
            self._environment,
            (Input(node_id, side_tag=tag.tag_id),),
            None if tag.type_info is None else checked_type(tag.type_info, "an OutputTag"),
        )
        if stream._type_info.converter() is not None:
            stream._materialize()
        return stream

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """Windows over all records, in one subtask.

        Example:
            >>> pairs = env.from_sequence(1, 4).window_all(CountTumblingWindowAssigner.of(2))
            >>> pairs.sum().take()
            [3, 7]
        """
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    # ---- the end of a stream ----

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Writes the records to a sink.

        Example:
            >>> encoder = Encoder.simple_string_encoder()
            >>> lines = FileSink.for_row_format(str(folder), encoder).build()
            >>> _ = env.from_collection(["a", "b"], Types.STRING()).sink_to(lines)
            >>> _ = env.execute()
            >>> [path.read_text().split() for path in folder.rglob("part-*")]
            [['a', 'b']]
        """
        from penstock.datastream.sinks import as_sink, text_of

        return self._sink(as_sink(sink, "sink_to()").with_text(text_of(self._type_info)))

    def to_spark(
        self, function: Callable[[Any, int], None] | None = None, **settings: Any
    ) -> DataStreamSink:
        """Writes through Spark, by a function or in a format.

        Args:
            function: Called as `function(df, epoch_id)`, as with `foreachBatch`.
            **settings: Of a `SparkSink`: `output_format`, `path`, `options`, `partition_by`, and
                `schema`, which names the columns of records that are tuples.

        Example:
            >>> def write(data_frame, epoch):
            ...     data_frame.write.mode("append").parquet(str(folder / "words"))
            >>> words = env.from_collection(["to", "be"])
            >>> schema = Types.ROW_NAMED(["word"], [Types.STRING()])
            >>> _ = words.map(lambda word: Row(word=word), schema).to_spark(write)
            >>> _ = env.execute()
            >>> (folder / "words").is_dir()
            True
        """
        from penstock.connectors.spark import SparkSink

        return self._sink(SparkSink(function, **settings))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Writes the records to a sink; the older name of `sink_to`.

        Example:
            >>> class Collect(SinkFunction):
            ...     seen = []
            ...
            ...     def invoke(self, value, context):
            ...         self.seen.append(value)
            >>> _ = env.from_collection([1, 2]).add_sink(Collect())
            >>> _ = env.execute()
            >>> Collect.seen
            [1, 2]
        """
        from penstock.datastream.sinks import as_sink

        return self.sink_to(as_sink(sink_func, "add_sink()"))

    def print(
        self, sink_identifier: str | None = None, *, to_stderr: bool = False
    ) -> DataStreamSink:
        """Prints every record, with the subtask in front when there are several.

        Example:
            >>> _ = env.from_collection(["a", "b"]).print()
            >>> _ = env.from_collection([1]).print("numbers")
            >>> _ = env.execute()
            a
            b
            numbers> 1
        """
        from penstock.datastream.sinks import print_sink

        return self._sink(print_sink(sink_identifier, self._type_info, to_stderr=to_stderr))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator: ...
    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int = ...
    ) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the program and returns the records of this stream.

        Args:
            job_execution_name: Name of the job.
            limit: With a limit a list of at most that many records is returned and the job is
                cancelled then; otherwise an iterator, which must be closed (`with` does).

        Example:
            >>> with env.from_collection([1, 2]).execute_and_collect() as records:
            ...     sum(records)
            3
        """
        from penstock.datastream.sinks import collect

        return collect(self, job_execution_name, limit)

    def take(self, limit: int = 20) -> list[Any]:
        """Runs the program and returns the first records of this stream, then cancels the job.

        For notebooks and trials: whatever else the program does runs as long.

        Example:
            >>> env.from_sequence(1, 1_000_000).take(3)
            [1, 2, 3]
        """
        return self.execute_and_collect("DataStream Take", limit)

    def show(self, limit: int = 20) -> None:
        """Runs the program and prints the first records, in columns if they have names.

        For notebooks and trials: whatever else the program does runs as long.

        Example:
            >>> env.from_collection([{"name": "Ada", "year": 1815}]).show()
            name  year
            Ada   1815
        """
        from penstock.datastream.notebook import as_table

        print(as_table(self.take(limit)))

    # ---- for the other classes of this package ----

    _is_keyed = False

    def _then(self, name: str, spec: Any, output_type: Any = None, **settings: Any) -> DataStream:
        """Appends an operator behind this stream and returns its output."""
        return append_operator(self._environment, name, spec, self._inputs, output_type, **settings)

    def _sink(self, sink: Sink) -> DataStreamSink:
        from penstock.runtime.lowering import SinkSpec

        node_id = self._environment._program.append(
            NodeKind.SINK, sink.default_name(), SinkSpec(sink), self._inputs
        )
        return DataStreamSink(self._environment, node_id)

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        inputs = tuple(replace(given, partitioning=partitioning) for given in self._inputs)
        return DataStream(self._environment, inputs, self._type_info)


def append_operator(
    environment: StreamExecutionEnvironment,
    name: str,
    spec: Any,
    inputs: tuple[Input, ...],
    output_type: Any = None,
    **settings: Any,
) -> DataStream:
    """Appends an operator and returns its output."""
    type_info = None if output_type is None else checked_type(output_type, "output_type")
    node_id = environment._program.append(
        NodeKind.OPERATOR, name, with_output_type(spec, type_info), inputs, **settings
    )
    return DataStream(environment, (Input(node_id),), type_info)
