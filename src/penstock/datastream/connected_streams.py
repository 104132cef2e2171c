"""`ConnectedStreams`: two streams side by side, for functions with two inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.refused_names import Hints, earlier_keywords
from penstock.core.times import to_millis
from penstock.datastream.callables import as_process_join_function, key_groups
from penstock.datastream.windowed_stream import WindowSettings
from penstock.operators.adapters import as_instance
from penstock.operators.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.process import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
)
from penstock.operators.results import OutputTag, as_output_tag
from penstock.operators.runtime_context import CheckpointedFunction, RuntimeContext
from penstock.operators.windows.contents import PairContents
from penstock.operators.windows.functions import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
    PairFunction,
)
from penstock.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation
    from penstock.datastream.data_stream import DataStream
    from penstock.operators.functions import ProcessJoinFunction
    from penstock.operators.windows.assigners import WindowAssigner


class BroadcastStream:
    """A stream that every subtask gets, with the states that may be made of it."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ProgramError(
                    f"broadcast() takes MapStateDescriptors, but got {descriptor!r:.80}. Broadcast "
                    'state is a map: MapStateDescriptor("rules", key_type, value_type).'
                )
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        names = ", ".join(each.get_name() for each in self.broadcast_state_descriptors)
        return f"BroadcastStream({self.input_stream!r}, states: {names})"


class _TwoStreams:
    """Two streams that one operator will take; each step to it returns the next one."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def _then(self, name: str, spec: Any, output_type: Any, **settings: Any) -> DataStream:
        """Appends the operator and returns its output."""
        inputs = self._first._inputs + self._second._second_inputs()
        return self._first._append(name, spec, inputs, output_type, **settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r})"


class BroadcastConnectedStream(_TwoStreams):
    """A stream, keyed or not, beside a broadcast one."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(non_broadcast_stream, broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function that writes the state on one side and reads it on the other.

        Example:
            >>> rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
            >>> class Limit(BroadcastProcessFunction):
            ...     def process_broadcast_element(self, value, ctx):
            ...         ctx.get_broadcast_state(rules).put("limit", value)
            ...
            ...     def process_element(self, value, ctx):
            ...         limit = ctx.get_broadcast_state(rules).get("limit")
            ...         yield value if limit is None else min(value, limit)
            >>> limits = env.from_collection([5]).broadcast(rules)
            >>> env.from_collection([3, 4]).connect(limits).process(Limit()).take()
            [3, 4]
        """
        as_instance(func, BroadcastProcessFunction, KeyedBroadcastProcessFunction)
        is_keyed = self.non_broadcast_stream._is_keyed
        descriptors = tuple(self.broadcast_state_descriptors)
        name = type(func).__name__
        if isinstance(func, KeyedBroadcastProcessFunction):
            if not is_keyed:
                raise ProgramError(
                    f"{name} is a KeyedBroadcastProcessFunction, but the stream has no key. Call "
                    "key_by(...) before connect(), or make it a BroadcastProcessFunction."
                )
            keyed = KeyedBroadcastProcessSpec(func, descriptors)
            return self._then("Keyed-Co-Process-Broadcast", keyed, output_type)
        if is_keyed:
            raise ProgramError(
                f"{name} is a BroadcastProcessFunction, but the stream has a key. Make it a "
                "KeyedBroadcastProcessFunction, or call connect() before key_by(...)."
            )
        spec = BroadcastProcessSpec(func, descriptors)
        return self._then("Co-Process-Broadcast", spec, output_type)

    def __repr__(self) -> str:
        return f"BroadcastConnectedStream({self.non_broadcast_stream!r}, {self.broadcast_stream!r})"


class ConnectedStreams(_TwoStreams, Hints):
    """Two streams whose operator keeps one state for both."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        super().__init__(stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    @earlier_keywords(key_type_info="key_type")
    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Keys both streams; both selectors should give keys of one kind.

        Example:
            >>> clicks = env.from_collection([("ada", "/home")])
            >>> names = env.from_collection([{"id": "ada", "name": "Ada"}])
            >>> keyed = clicks.connect(names).key_by(lambda c: c[0], lambda n: n["id"])
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Makes one record of each, with a method per stream; None is dropped.

        Example:
            >>> class ToText(CoMapFunction):
            ...     def map1(self, value):
            ...         return f"number {value}"
            ...
            ...     def map2(self, value):
            ...         return f"word {value}"
            >>> both = env.from_collection([1]).connect(env.from_collection(["a"]))
            >>> sorted(both.map(ToText()).take())
            ['number 1', 'word a']
        """
        function = as_instance(func, CoMapFunction)
        return self._then("Co-Map", CoMapSpec(function, self._is_keyed()), output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Makes any number of records of each, with a method per stream.

        Example:
            >>> class Words(CoFlatMapFunction):
            ...     def flat_map1(self, value):
            ...         yield from value.split()
            ...
            ...     def flat_map2(self, value):
            ...         yield str(value)
            >>> both = env.from_collection(["to be"]).connect(env.from_collection([1]))
            >>> sorted(both.flat_map(Words()).take())
            ['1', 'be', 'to']
        """
        function = as_instance(func, CoFlatMapFunction)
        return self._then("Co-Flat Map", CoFlatMapSpec(function, self._is_keyed()), output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function with a method per stream, with timers and state if both have keys.

        Example:
            >>> class Total(KeyedCoProcessFunction):
            ...     def open(self, runtime_context):
            ...         total = ValueStateDescriptor("total", Types.INT())
            ...         self.total = runtime_context.get_state(total)
            ...
            ...     def process_element1(self, value, ctx):
            ...         self.total.update((self.total.value() or 0) + value[1])
            ...         yield self.total.value()
            ...
            ...     process_element2 = process_element1
            >>> paid = env.from_collection([("ada", 3)])
            >>> both = paid.connect(env.from_collection([("ada", 4)]))
            >>> max(both.key_by(lambda p: p[0], lambda p: p[0]).process(Total()).take())
            7
        """
        as_instance(func, CoProcessFunction, KeyedCoProcessFunction)
        if isinstance(func, KeyedCoProcessFunction):
            if not self._is_keyed():
                raise ProgramError(
                    f"{type(func).__name__} is a KeyedCoProcessFunction, but the streams have no "
                    "keys. Call .key_by(selector1, selector2) on the connected streams first."
                )
            return self._then("Keyed Co-Process", KeyedCoProcessSpec(func), output_type)
        if self._is_keyed():
            # PyFlink gives such a function keyed state and timers too.
            has_state = isinstance(func, CheckpointedFunction)
            keyed = KeyedCoProcessSpec((_WithKeysAndState if has_state else _WithKeys)(func))
            return self._then("Keyed Co-Process", keyed, output_type)
        return self._then("Co-Process", CoProcessSpec(func), output_type)

    def _is_keyed(self) -> bool:
        first, second = self.stream1._is_keyed, self.stream2._is_keyed
        if first != second:
            raise ProgramError(
                f"only the {'first' if first else 'second'} of two connected streams has a key. "
                "Key both with .key_by(selector1, selector2) on the connected streams, or none."
            )
        return first


class _WithKeys(KeyedCoProcessFunction):
    """A `CoProcessFunction` on keyed streams."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def close(self) -> None:
        self._function.close()

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._function.process_element1(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._function.process_element2(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        # Java Flink's CoProcessFunction has it, PyFlink's has not.
        on_timer = getattr(self._function, "on_timer", None)
        return None if on_timer is None else on_timer(timestamp, ctx)


class _WithKeysAndState(_WithKeys, CheckpointedFunction):
    """The same with operator state."""

    def snapshot_state(self, context: Any) -> None:
        self._function.snapshot_state(context)

    def initialize_state(self, context: Any) -> None:
        self._function.initialize_state(context)


# Joins and co-groups of two streams within windows, as Java Flink spells them.
#
# first.join(second).where(key).equal_to(key).window(assigner).apply(function)


class JoinedStreams(_TwoStreams):
    """Two streams whose records are paired."""

    _is_join = True

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> PairedByOneKey:
        """Sets the key of the first stream."""
        keyed = self._first.key_by(key_selector, key_type)
        return PairedByOneKey(keyed, self._second, is_join=self._is_join)


class CoGroupedStreams(JoinedStreams):
    """Two streams whose records are grouped."""

    _is_join = False


class _Pair(_TwoStreams):
    """Two streams on their way to a join or a co-group."""

    def __init__(self, first: DataStream, second: DataStream, *, is_join: bool) -> None:
        super().__init__(first, second)
        self._is_join = is_join


class PairedByOneKey(_Pair):
    """Two streams of which the first has its key; `equal_to` comes next."""

    def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> PairedByKeys:
        """Sets the key of the second stream; records with equal keys meet."""
        second = self._second._repartition(key_groups(key_selector, key_type))
        return PairedByKeys(self._first, second, is_join=self._is_join)


class PairedByKeys(_Pair):
    """Two streams with keys; `window` comes next."""

    def window(self, window_assigner: WindowAssigner) -> WindowedPairs:
        """Sets the windows within which records meet."""
        return WindowedPairs(self, window_assigner)


class WindowedPairs(_Pair, WindowSettings):
    """Two streams with keys and windows."""

    def __init__(self, pair: PairedByKeys, window_assigner: WindowAssigner) -> None:
        _Pair.__init__(self, pair._first, pair._second, is_join=pair._is_join)
        WindowSettings.__init__(self, window_assigner)

    def apply(
        self,
        function: Callable[[Any, Any], Any] | JoinFunction | FlatJoinFunction | CoGroupFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for each pair (join), or for all records of a window (co-group).

        Args:
            function: For a join a `JoinFunction`, a `FlatJoinFunction` or a function of two
                records; for a co-group a `CoGroupFunction` or a function of two lists of records.
            output_type: Type of the results.
        """
        spec = self._window_spec(PairContents(), self._pair_function(function))
        name = "Join" if self._is_join else "CoGroup"
        description = self._describe(name, function)
        return self._then(f"{name}-{self._window_name}", spec, output_type, description=description)

    def _pair_function(self, function: Any) -> PairFunction:
        if not self._is_join:
            return CoGroupPairs(function)
        if isinstance(function, FlatJoinFunction):
            return FlatJoinPairs(function)
        return JoinPairs(function)


class IntervalJoinedStreams(_TwoStreams):
    """Two keyed streams; `between` comes next."""

    def between(self, lower_bound: Any, upper_bound: Any) -> IntervalBounds:
        """Sets the bounds of `right time - left time`, both inclusive; spans or milliseconds."""
        lower_ms = to_millis(lower_bound, "the lower bound")
        upper_ms = to_millis(upper_bound, "the upper bound")
        if lower_ms > upper_ms:
            raise ProgramError(
                f"between() got the lower bound {lower_ms} ms above the upper bound {upper_ms} ms; "
                "swap them."
            )
        return IntervalBounds(self._first, self._second, lower_ms, upper_ms)

    def in_event_time(self) -> IntervalJoinedStreams:
        """Changes nothing: interval joins are by event time."""
        return self

    def in_processing_time(self) -> IntervalJoinedStreams:
        raise ProgramError(
            "interval joins are by event time only, in Flink too. For processing time use "
            "join(...).window(TumblingProcessingTimeWindows...)."
        )


class IntervalBounds(_TwoStreams):
    """Two keyed streams and the bounds between their records."""

    def __init__(self, left: DataStream, right: DataStream, lower_ms: int, upper_ms: int) -> None:
        super().__init__(left, right)
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._lower_inclusive = True
        self._upper_inclusive = True
        self._left_late_tag: OutputTag | None = None
        self._right_late_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalBounds:
        """Leaves out pairs that are exactly the lower bound apart."""
        self._lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> IntervalBounds:
        """Leaves out pairs that are exactly the upper bound apart."""
        self._upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalBounds:
        """Sends late records of the left stream to a side output."""
        self._left_late_tag = as_output_tag(output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalBounds:
        """Sends late records of the right stream to a side output."""
        self._right_late_tag = as_output_tag(output_tag)
        return self

    def process(
        self,
        process_join_function: Callable[[Any, Any, Any], Any] | ProcessJoinFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function with left record, right record and context for each pair."""
        spec = IntervalJoinSpec(
            self._lower_ms,
            self._upper_ms,
            self._lower_inclusive,
            self._upper_inclusive,
            as_process_join_function(process_join_function),
            self._left_late_tag,
            self._right_late_tag,
        )
        return self._then("Interval Join", spec, output_type)
