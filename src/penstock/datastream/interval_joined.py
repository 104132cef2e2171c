"""Interval joins: pairs of one key whose event times lie within bounds of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.core.duration import to_millis
from penstock.core.errors import ProgramError
from penstock.datastream.callables import as_process_join_function
from penstock.datastream.plain_stream import DataStream, append_operator
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.results import as_output_tag

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.operators.functions import ProcessJoinFunction
    from penstock.operators.results import OutputTag

__all__ = ["IntervalJoinedStreams"]


class IntervalJoinedStreams:
    """Two keyed streams; `between` comes next."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        self._left = left
        self._right = right

    def between(self, lower_bound: Any, upper_bound: Any) -> IntervalBounds:
        """Sets the bounds of `right time - left time`, both inclusive; spans or milliseconds."""
        lower_ms = to_millis(lower_bound, "the lower bound")
        upper_ms = to_millis(upper_bound, "the upper bound")
        if lower_ms > upper_ms:
            raise ProgramError(
                f"between() got the lower bound {lower_ms} ms above the upper bound {upper_ms} ms; "
                "swap them."
            )
        return IntervalBounds(self._left, self._right, lower_ms, upper_ms)

    def in_event_time(self) -> IntervalJoinedStreams:
        """Says what is so anyway: interval joins are by event time."""
        return self

    def in_processing_time(self) -> IntervalJoinedStreams:
        raise ProgramError(
            "interval joins are by event time only, in Flink too. For processing time use "
            "join(...).window(TumblingProcessingTimeWindows...)."
        )


class IntervalBounds:
    """Two keyed streams and the bounds between their records."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._left = left
        self._right = right
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
        inputs = self._left._inputs + self._right._second_inputs()
        return append_operator(self._left._environment, "Interval Join", spec, inputs, output_type)
