"""Joins two keyed streams where `left + lower <= right <= left + upper`, in event time.

Both sides are kept by timestamp until no partner can come any more; an event timer per timestamp
cleans up. A pair's result carries the larger timestamp of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProgramError
from penstock.core.times import MIN_WATERMARK, NO_TIMESTAMP, saturating_add
from penstock.operators.adapters import as_instance
from penstock.operators.errors import user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.functions import ProcessJoinFunction
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.results import OutputTag, SideOutputs, as_output_tag, deliver, spread

if TYPE_CHECKING:
    from penstock.core.records import Batch

_LEFT: Final = "left"
_RIGHT: Final = "right"


@dataclass(frozen=True)
class IntervalJoinSpec(OperatorSpec):
    """An interval join; input 0 is left, input 1 is right, both keyed."""

    is_keyed = True
    lower_ms: int  # Lower bound of `right - left`.
    upper_ms: int  # Upper bound of `right - left`.
    lower_inclusive: bool  # Whether a difference of exactly `lower_ms` joins.
    upper_inclusive: bool  # Whether a difference of exactly `upper_ms` joins.
    function: ProcessJoinFunction  # Called once per pair.
    left_late_tag: OutputTag | None = None  # Side output for late left records; None drops them.
    right_late_tag: OutputTag | None = None  # Side output for late right records; None drops them.

    def __post_init__(self) -> None:
        as_instance(self.function, ProcessJoinFunction)
        for tag in (self.left_late_tag, self.right_late_tag):
            if tag is not None:
                as_output_tag(tag)
        lower, upper = self.bounds
        if lower > upper:
            raise ProgramError(
                f"an interval join between {self.lower_ms} ms and {self.upper_ms} ms (lower bound "
                f"{_kind(self.lower_inclusive)}, upper bound {_kind(self.upper_inclusive)}) can "
                "have no pairs. Swap the bounds or include them."
            )

    @property
    def bounds(self) -> tuple[int, int]:
        """Both bounds as inclusive ones."""
        lower = self.lower_ms if self.lower_inclusive else self.lower_ms + 1
        upper = self.upper_ms if self.upper_inclusive else self.upper_ms - 1
        return lower, upper

    def build(self) -> OperatorLogic:
        return IntervalJoinLogic(self)


class IntervalJoinLogic(FunctionLogic):
    """Buffers both sides and pairs them."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        super().__init__(spec.function)
        self._lower_ms, self._upper_ms = spec.bounds
        self._late_tags = (spec.left_late_tag, spec.right_late_tag)

    def open(self) -> None:
        self._state = keyed_state_of(self)
        self._sides = SideOutputs(self.context.snapshot)
        self._pair = ProcessJoinFunction.Context(self._sides)
        # Timestamp to the records of that timestamp.
        self._buffers = (
            self._state.map_table("left-buffer"),
            self._state.map_table("right-buffer"),
        )
        self._late_dropped = self.context.metrics.counter("numLateRecordsDropped")
        super().open()

    def restore(self, state: Any) -> None:
        self._sides.clear()
        super().restore(state)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not batch.values:
            return
        is_left = input_index == 0
        state, keys = self._state, keys_of(self, batch)
        timestamps = batch.timestamps
        if timestamps is None or NO_TIMESTAMP in timestamps:
            raise ProgramError(
                f"interval join '{self.context.name}' received a {_LEFT if is_left else _RIGHT} "
                "record without a timestamp. Call assign_timestamps_and_watermarks on that input."
            )
        ours, others = self._buffers if is_left else self._buffers[::-1]
        lower = self._lower_ms if is_left else -self._upper_ms
        upper = self._upper_ms if is_left else -self._lower_ms
        keep_ms = max(upper, 0)
        watermark = self.watermark
        late_tag = self._late_tags[input_index]
        namespace = _LEFT if is_left else _RIGHT
        timers = state.event_timers
        values: list[Any] = []
        times: list[int] = []
        ends: list[int] = []
        records = iter(batch.values)
        state.prefetch(keys)
        with user_code(self.context, batch.values, records):
            for key, timestamp, value in zip(keys, timestamps, records, strict=True):
                if timestamp < watermark != MIN_WATERMARK:
                    self._drop(late_tag, value, timestamp)
                    continue
                state.key = key
                same = ours.get(key, None, timestamp)
                ours.put(key, None, timestamp, (value,) if same is None else (*same, value))
                timers.add(saturating_add(timestamp, keep_ms), key, namespace)
                first, last = timestamp + lower, timestamp + upper
                partners = [item for item in others.items(key, None) if first <= item[0] <= last]
                partners.sort(key=_time)
                for other_time, other_values in partners:
                    self._join(is_left, timestamp, value, other_time, other_values, values)
                    times.append(max(timestamp, other_time))
                    ends.append(len(values))
        deliver(self.output, self._sides, values, spread(times, ends, len(values)))

    def _join(  # noqa: PLR0913, PLR0917 - one pair is that many facts
        self,
        is_left: bool,
        timestamp: int,
        value: Any,
        other_time: int,
        other_values: tuple[Any, ...],
        values: list[Any],
    ) -> None:
        pair, call, snapshot = self._pair, self.function.process_element, self.context.snapshot
        if is_left:
            pair.left_timestamp, pair.right_timestamp = timestamp, other_time
        else:
            pair.left_timestamp, pair.right_timestamp = other_time, timestamp
        for other in other_values:
            # Both stay in the buffers, so the function gets copies that it may change.
            one, two = snapshot(value), snapshot(other)
            result = call(one, two, pair) if is_left else call(two, one, pair)
            if result is not None:
                values += map(snapshot, result)

    def _drop(self, late_tag: OutputTag | None, value: Any, timestamp: int) -> None:
        if late_tag is None:
            self._late_dropped.inc()
        else:
            self._sides.add(late_tag, value, timestamp)

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        if namespace == _LEFT:
            keep_ms, buffer = max(self._upper_ms, 0), self._buffers[0]
        else:
            keep_ms, buffer = max(-self._lower_ms, 0), self._buffers[1]
        buffer.remove(key, None, time_ms - keep_ms)


def _time(item: tuple[int, Any]) -> int:
    return item[0]


def _kind(inclusive: bool) -> str:
    return "inclusive" if inclusive else "exclusive"
