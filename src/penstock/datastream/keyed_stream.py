"""`KeyedStream`: records that have a key, with state and timers by key behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.core.errors import ProgramError
from penstock.datastream.callables import as_keyed_process_function
from penstock.datastream.missing_methods import earlier_keywords
from penstock.datastream.plain_stream import DataStream
from penstock.operators.process import KeyedProcessSpec
from penstock.operators.reduce import AggregationSpec, ReduceSpec
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)

if TYPE_CHECKING:
    from penstock.core.partitioning import KeyGroups
    from penstock.core.types import TypeInformation
    from penstock.datastream.connected_streams import IntervalJoinedStreams
    from penstock.datastream.windowed_stream import WindowedStream
    from penstock.operators.functions import KeyedProcessFunction, KeySelector, ReduceFunction
    from penstock.operators.windows.assigners import WindowAssigner

__all__ = ["KeyedStream"]


class KeyedStream(DataStream):
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
        return self._same_type("Reduce", ReduceSpec(func))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Adds up a field; the other fields are those of the key's first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).sum(1).take()
            [('a', 3), ('b', 7), ('a', 5)]
        """
        return self._same_type("Sum", AggregationSpec("sum", position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Keeps the smallest value of a field; the other fields are those of the first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).min(1).take()
            [('a', 3), ('b', 7), ('a', 2)]
        """
        return self._same_type("Min", AggregationSpec("min", position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keeps the largest value of a field; the other fields are those of the first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).max(1).take()
            [('a', 3), ('b', 7), ('a', 3)]
        """
        return self._same_type("Max", AggregationSpec("max", position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keeps the record with the smallest value of a field.

        Example:
            >>> bids = env.from_collection([("pen", 3, "Ada"), ("pen", 2, "Alan")])
            >>> bids.key_by(lambda bid: bid[0]).min_by(1).take()
            [('pen', 3, 'Ada'), ('pen', 2, 'Alan')]
        """
        return self._same_type("MinBy", AggregationSpec("min_by", position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keeps the record with the largest value of a field.

        Example:
            >>> bids = env.from_collection([("pen", 3, "Ada"), ("pen", 2, "Alan")])
            >>> bids.key_by(lambda bid: bid[0]).max_by(1).take()
            [('pen', 3, 'Ada'), ('pen', 3, 'Ada')]
        """
        return self._same_type("MaxBy", AggregationSpec("max_by", position_to_max_by))

    def _same_type(self, name: str, spec: Any) -> DataStream:
        return self._then(name, spec, self._type_info)

    # ---- windows and joins ----

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Groups records of a key into windows.

        Example:
            >>> keyed = events.key_by(lambda event: event[0])
            >>> keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).count().take()
            [2, 1]
        """
        from penstock.datastream.windowed_stream import WindowedStream

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
        from penstock.datastream.connected_streams import IntervalJoinedStreams

        self._check_other(other, "interval_join")
        if not isinstance(other, KeyedStream):
            raise ProgramError(
                "interval_join() takes a KeyedStream, but the other stream has no key. Call "
                "key_by(...) on it first."
            )
        return IntervalJoinedStreams(self, other)

    # ---- what a keyed stream has not ----

    def shuffle(self) -> NoReturn:
        _refuse_partitioning("shuffle")

    def rebalance(self) -> NoReturn:
        _refuse_partitioning("rebalance")

    def rescale(self) -> NoReturn:
        _refuse_partitioning("rescale")

    def forward(self) -> NoReturn:
        _refuse_partitioning("forward")

    def global_(self) -> NoReturn:
        _refuse_partitioning("global_")

    def broadcast(self, *args: Any) -> NoReturn:
        _refuse_partitioning("broadcast")

    def partition_custom(self, partitioner: Any, key_selector: Any) -> NoReturn:
        _refuse_partitioning("partition_custom")

    def _own_node_id(self) -> int:
        raise ProgramError(
            "key_by() is an exchange and no operator: it has no name, uid, parallelism or side "
            "output. Set them on the operators before or behind it."
        )


def _refuse_partitioning(verb: str) -> NoReturn:
    raise ProgramError(
        f"{verb}() cannot be called on a KeyedStream: its partitioning is that of the key. "
        f"Call {verb}() before key_by(), or behind the next operator."
    )
