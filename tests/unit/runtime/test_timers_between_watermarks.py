"""When a later record deletes the timer of an earlier one, the watermark between them decides."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor

BOUND_MS = 20
QUIET_MS = 50


class Quiet(KeyedProcessFunction):
    """Says when a key had no record for so long; each record takes the place of the one before."""

    def open(self, runtime_context: Any) -> None:
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer"))

    def process_element(self, value: Any, ctx: Any) -> None:
        if (before := self.timer.value()) is not None:
            ctx.timer_service().delete_event_time_timer(before)
        self.timer.update(value[1] + QUIET_MS)
        ctx.timer_service().register_event_time_timer(value[1] + QUIET_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp


def model(events: list[tuple[str, int]], at_once: int) -> list[tuple[str, int]]:
    """The watermark rises after each `at_once` records, and timers due then fire in time order."""
    timers: dict[str, int] = {}
    fired = []
    for start in range(0, len(events), at_once):
        for key, time in events[start : start + at_once]:
            timers[key] = time + QUIET_MS
        watermark = max(time for _, time in events[: start + at_once]) - BOUND_MS - 1
        for key, time in list(timers.items()):
            if time <= watermark:
                fired.append((key, timers.pop(key)))
    return sorted(fired + list(timers.items()))


class BehindEachRecord(WatermarkGenerator):
    def __init__(self) -> None:
        self.newest = 0

    def on_event(self, event: Any, timestamp: int, output: Any) -> None:
        self.newest = max(self.newest, timestamp)
        output.emit_watermark(self.newest - BOUND_MS - 1)

    def on_periodic_emit(self, output: Any) -> None:
        pass


def events(seed: int) -> list[tuple[str, int]]:
    chance = random.Random(seed)
    return [
        (chance.choice("abcde"), 10 * number + chance.randrange(-BOUND_MS, 1))
        for number in range(300)
    ]


def fired(
    events: list[tuple[str, int]], at_once: int, strategy: WatermarkStrategy
) -> list[tuple[str, int]]:
    """What the function gives when an epoch reads so many records."""
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", str(at_once))
    configuration.set_string("penstock.epoch.target-duration", "1 h")  # Records alone end an epoch.
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection(events).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda event, _: event[1])
    )
    return sorted(stream.key_by(lambda event: event[0]).process(Quiet()).execute_and_collect())


@pytest.mark.parametrize("at_once", [1, 7, 100])
@pytest.mark.parametrize("seed", range(3))
def test_records_of_an_epoch_come_before_its_watermark(at_once: int, seed: int) -> None:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    found = fired(events(seed), at_once, bounded)
    assert found == model(events(seed), at_once)
    # This is about something: with a watermark behind each record more timers fire.
    assert (len(found) < len(model(events(seed), 1))) == (at_once > 1)


def test_a_watermark_of_on_event_keeps_its_position() -> None:
    strategy = WatermarkStrategy.for_generator(BehindEachRecord)
    assert fired(events(0), 100, strategy) == model(events(0), 1)
