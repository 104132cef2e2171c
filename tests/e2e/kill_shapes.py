"""What else the job that gets killed does: timers, windows, joins, rules, time to live, slow calls.

Each shape is a branch of the job with a sink of its own, and its output does not depend on how
epochs cut the input. What it has to be says `kill_oracle.EXPECTED`, with plain loops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.common import Time, Types
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows

RULES: Final = 100
END_OF_TIME: Final = 2**62
"""A timer that fires with the last watermark only."""


class CountedSeconds(KeyedProcessFunction):
    """A timer for each key and second says how many records the second had."""

    def open(self, context: Any) -> None:
        self.counts = context.get_map_state(
            MapStateDescriptor("counts", Types.LONG(), Types.LONG())
        )

    def process_element(self, value: int, context: Any) -> None:
        second = value // 1_000
        self.counts.put(second, (self.counts.get(second) or 0) + 1)
        context.timer_service().register_event_time_timer((second + 1) * 1_000)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[str]:
        second = timestamp // 1_000 - 1
        yield f"{context.get_current_key()},{second},{self.counts.get(second)}"
        self.counts.remove(second)


class Debounced(KeyedProcessFunction):
    """Each record deletes the timer of the one before: only the last one of a key is said."""

    def open(self, context: Any) -> None:
        self.last = context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.most = context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.total = context.get_aggregating_state(AggregatingStateDescriptor("total", Summed()))

    def process_element(self, value: int, context: Any) -> None:
        timers = context.timer_service()
        last = self.last.value()
        if last is not None:
            timers.delete_event_time_timer(last + 5_000)
        # Deleted and registered again, at a time that stays the same.
        timers.delete_event_time_timer(END_OF_TIME)
        timers.register_event_time_timer(END_OF_TIME)
        timers.register_event_time_timer(value + 5_000)
        self.last.update(value)
        self.most.add(value)
        self.total.add(value)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[str]:
        key, last = context.get_current_key(), self.last.value()
        if timestamp == END_OF_TIME:
            yield f"{key},most {self.most.get()},total {self.total.get()}"
        else:
            yield f"{key},last {last}"


class Summed(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Buffered(KeyedProcessFunction):
    """Processing timers let go what is buffered; the rest goes with the end of the input."""

    def open(self, context: Any) -> None:
        self.buffer = context.get_list_state(ListStateDescriptor("buffer", Types.LONG()))

    def process_element(self, value: int, context: Any) -> None:
        self.buffer.add(value)
        timers = context.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 1)
        timers.register_event_time_timer(END_OF_TIME)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[str]:
        for value in self.buffer.get():
            yield f"{context.get_current_key()},{value}"
        self.buffer.clear()


class Lasting(KeyedProcessFunction):
    """Counts in state that lives longer than the job, beside state that dies at once."""

    def open(self, context: Any) -> None:
        self.count = self._state(context, "count", 3_600_000)
        self.fleeting = self._state(context, "fleeting", 1)

    @staticmethod
    def _state(context: Any, name: str, ms: int) -> Any:
        descriptor = ValueStateDescriptor(name, Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(ms)).build())
        return context.get_state(descriptor)

    def process_element(self, value: int, context: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.fleeting.update(value)
        yield f"{context.get_current_key()},{count},{value}"


class Joined(ProcessJoinFunction):
    def process_element(self, left: int, right: int, context: Any) -> Iterator[str]:
        yield f"{left},{right}"


_KNOWN: Final = MapStateDescriptor("known", Types.LONG(), Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Hands records on, and says at the end which rules each key has seen."""

    def process_element(self, value: int, context: Any) -> Iterator[str]:
        context.timer_service().register_event_time_timer(END_OF_TIME)
        yield str(value)

    def process_broadcast_element(self, value: int, context: Any) -> None:
        context.get_broadcast_state(_KNOWN).put(value, value)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[str]:
        known = context.get_broadcast_state(_KNOWN)
        yield f"{context.get_current_key()},rules,{sum(rule for rule, _ in known.items())}"


def slow(value: int) -> str:
    time.sleep(0.02)
    return str(value)


def _sessions(timed: Any, _: Any) -> Any:
    busy = timed.filter(lambda value: value % 1_000 < 300).key_by(lambda value: value % 3)
    windows = busy.window(EventTimeSessionWindows.with_gap(Time.milliseconds(200)))
    return windows.reduce(lambda a, b: a + b)


def _join(timed: Any, _: Any) -> Any:
    left = timed.filter(lambda value: value % 10 == 0).key_by(lambda value: value // 100 % 7)
    right = timed.filter(lambda value: value % 10 == 5).key_by(lambda value: value // 100 % 7)
    near = left.interval_join(right).between(Time.milliseconds(-10), Time.milliseconds(10))
    return near.process(Joined())


def _rules(timed: Any, env: Any) -> Any:
    rules = env.from_collection(list(range(RULES)), Types.LONG()).uid("rules-source")
    few = timed.filter(lambda value: value % 50 == 0).key_by(lambda value: value % 3)
    return few.connect(rules.broadcast(_KNOWN)).process(Ruled())


SHAPES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "seconds": lambda timed, _: timed.key_by(lambda value: value % 20).process(CountedSeconds()),
    "debounced": lambda timed, _: timed.key_by(lambda value: value % 40).process(Debounced()),
    "buffered": lambda timed, _: timed.key_by(lambda value: value % 8).process(Buffered()),
    "lasting": lambda timed, _: timed.key_by(lambda value: value % 30).process(Lasting()),
    "sessions": _sessions,
    "join": _join,
    "rules": _rules,
    "slow": lambda timed, _: timed.filter(lambda value: value % 500 < 2).map(slow),
}
"""By name: makes the branch from the numbers with their timestamps and the environment."""
