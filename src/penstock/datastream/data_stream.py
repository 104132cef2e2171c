"""PyFlink's `datastream.data_stream`: streams, with keys and without.

A stream is a view on the program: the edges that its next operator will get. Methods append a node
and return a stream of its output; nothing runs before `execute()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.refused_names import earlier_keywords, names_of, refuses_methods
from penstock.core.types import TypeInformation, checked_type
from penstock.datastream.callables import (
    as_keyed_process_function,
    as_process_function,
    inspecting,
    key_groups,
    projection,
)
from penstock.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    CoGroupedStreams,
    ConnectedStreams,
    IntervalJoinedStreams,
    JoinedStreams,
)
from penstock.datastream.sinks import CloseableIterator, EndOfStream
from penstock.datastream.stream_view import DataStreamSink, FieldAggregates, PartitionedStream
from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream
from penstock.graph.nodes import Broadcast, Input, KeyGroups, NodeKind, Partitioning
from penstock.operators.convert import with_output_type
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.process import KeyedProcessSpec, ProcessSpec
from penstock.operators.reduce import ReduceSpec, RollingAggregation
from penstock.operators.results import OutputTag, as_output_tag
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)

if TYPE_CHECKING:
    from penstock.operators.functions import (
        FilterFunction,
        FlatMapFunction,
        KeyedProcessFunction,
        KeySelector,
        MapFunction,
        ProcessFunction,
        ReduceFunction,
    )
    from penstock.operators.watermark_strategy import WatermarkStrategy
    from penstock.operators.windows.assigners import WindowAssigner
    from penstock.state.descriptors import MapStateDescriptor

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoinedStreams",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]

__getattr__ = names_of(__name__)


@refuses_methods
class DataStream(PartitionedStream, EndOfStream):
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
        return KeyedStream(self, key_groups(key_selector, key_type, *more))

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
        return AllWindowedStream(self, window_assigner)

    def iterate(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            "iterate() feeds results back into a stream; Flink 2 has dropped it, and Penstock has "
            "never had it. Keep what goes round in keyed state and step on with timers, or write "
            "it where a source of the job reads it again, such as a watched directory."
        )

    # ---- for the other classes of this package ----

    _is_keyed = False

    def _then(self, name: str, spec: Any, output_type: Any = None) -> DataStream:
        """Appends an operator behind this stream and returns its output."""
        return self._append(name, spec, self._inputs, output_type)

    def _append(
        self,
        name: str,
        spec: Any,
        inputs: tuple[Input, ...],
        output_type: Any = None,
        **settings: Any,
    ) -> DataStream:
        """Appends an operator with any inputs and returns its output."""
        type_info = None if output_type is None else checked_type(output_type, "output_type")
        node_id = self._environment._program.append(
            NodeKind.OPERATOR, name, with_output_type(spec, type_info), inputs, **settings
        )
        return DataStream(self._environment, (Input(node_id),), type_info)

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        inputs = tuple(replace(given, partitioning=partitioning) for given in self._inputs)
        return DataStream(self._environment, inputs, self._type_info)


class KeyedStream(DataStream, FieldAggregates):
    """A stream partitioned by key."""

    _is_keyed = True

    def __init__(self, origin: DataStream, partitioning: KeyGroups) -> None:
        inputs = tuple(replace(given, partitioning=partitioning) for given in origin._inputs)
        super().__init__(origin._environment, inputs, origin._type_info)
        self._origin_stream = origin

    @earlier_keywords(key_type_info="key_type")
    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int,
        key_type: TypeInformation | str | int | None = None,
        *more: str | int,
    ) -> KeyedStream:
        """Replaces the key.

        Example:
            >>> orders = env.from_collection([("de", "ada", 3), ("de", "alan", 4)])
            >>> orders.key_by(lambda order: order[1]).key_by(lambda order: order[0]).sum(2).take()
            [('de', 'ada', 3), ('de', 'ada', 7)]
        """
        return self._origin_stream.key_by(key_selector, key_type, *more)

    def process(  # type: ignore[override]
        self,
        func: Callable[[Any, Any], Any] | KeyedProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function with state and timers by key.

        Example:
            >>> keyed = env.from_collection(["a", "bb"]).key_by(len)
            >>> keyed.process(lambda word, ctx: [(ctx.get_current_key(), word)]).take()
            [(1, 'a'), (2, 'bb')]
        """
        spec = KeyedProcessSpec(as_keyed_process_function(func))
        return self._then("KeyedProcess", spec, output_type)

    # ---- rolling values ----

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combines all records of a key so far; each record gives one result.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).take()
            [('a', 3), ('b', 7), ('a', 5)]
        """
        return self._then("Reduce", ReduceSpec(func), self._type_info)

    def _aggregate_field(self, kind: str, position: int | str) -> DataStream:
        name = kind.title().replace("_", "")
        return self._then(name, ReduceSpec(RollingAggregation(kind, position)), self._type_info)

    # ---- windows and joins ----

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Groups records of a key into windows.

        Example:
            >>> keyed = events.key_by(lambda event: event[0])
            >>> keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).count().take()
            [2, 1]
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Groups every `size` records of a key, and again every `slide` records if given.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).count_window(2).sum(1).take()
            [('a', 5)]
        """
        if slide == 0:
            return self.window(CountTumblingWindowAssigner.of(size))
        return self.window(CountSlidingWindowAssigner.of(size, slide))

    def interval_join(self, other: KeyedStream) -> IntervalJoinedStreams:
        """Pairs records of one key whose event times lie within bounds of each other.

        Continues with `.between(lower, upper).process(function)`.

        Example:
            >>> left = events.key_by(lambda event: event[0])
            >>> soon = left.interval_join(left).between(Time.milliseconds(1), Time.seconds(5))
            >>> soon.process(lambda a, b, ctx: [(a[1], b[1])]).take()
            [(1000, 4000)]
        """
        self._check_other(other, "interval_join")
        if not isinstance(other, KeyedStream):
            raise ProgramError(
                "interval_join() takes a KeyedStream, but the other stream has no key. Call "
                "key_by(...) on it first."
            )
        return IntervalJoinedStreams(self, other)

    def _own_node_id(self) -> int:
        raise ProgramError(
            "key_by() is an exchange and no operator: it has no name, uid, parallelism or side "
            "output. Set them on the operators before or behind it."
        )

    def broadcast(self, *args: Any) -> NoReturn:
        raise _refused_partitioning("broadcast")

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        if isinstance(partitioning, KeyGroups):
            return super()._repartition(partitioning)
        kind = type(partitioning).__name__
        verbs = {"Custom": "partition_custom", "Global": "global_"}
        raise _refused_partitioning(verbs.get(kind, kind.lower()))


def _refused_partitioning(verb: str) -> ProgramError:
    return ProgramError(
        f"{verb}() cannot be called on a KeyedStream: its partitioning is that of the key. "
        f"Call {verb}() before key_by(), or behind the next operator."
    )
