"""Timers of both domains."""

from __future__ import annotations

from typing import Any

from penstock.datastream import TimeDomain
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ValueStateDescriptor

from . import program
from .kit import MAX, ShowTime, scheduled, timed


class Silence(KeyedProcessFunction):
    """Tells when a key was silent for 10 ms of event time."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        if self.last.value() is not None:
            timers.delete_event_time_timer(self.last.value() + 10)
        self.last.update(ctx.timestamp())
        timers.register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


@program(spark=True)
def event_timers_are_deleted_and_fire(env):
    records = [("a", 1), ("b", 5), ("a", 8), ("b", 14), ("c", 30), ("a", 35)]
    stream = timed(env, records).key_by(lambda r: r[0]).process(Silence())
    # a: 1 and 8 belong together, silent from 18 on; b: 5 and 14, silent from 24 on. Behind the
    # record of 30 the watermark is 29. The end fires the rest.
    return stream, [("a", 18, 29), ("b", 24, 29), ("c", 40, MAX), ("a", 45, MAX)]


class Once(KeyedProcessFunction):
    """The same timer twice, timers behind the watermark, and timers that set timers."""

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        for time in value[1]:
            timers.register_event_time_timer(time)
            timers.register_event_time_timer(time)
        timers.delete_event_time_timer(777)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp
        if timestamp == 10:
            ctx.timer_service().register_event_time_timer(12)
            ctx.timer_service().register_event_time_timer(5)


@program(ordered=True)
def timers_fire_once_and_in_order(env):
    records = [("k", [20, 10], 1), ("k", [], 15), ("k", [3], 16), ("k", [], 17)]
    stream = timed(env, records).key_by(lambda r: r[0]).process(Once())
    # At 15 the watermark is 14: 10, which sets 12 and 5; 3 is behind and fires at the next advance.
    return stream, [10, 5, 12, 3, 20]


@program()
def timer_output_has_the_time_of_the_timer(env):
    tag = OutputTag("side")

    class Emit(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(value[1] + 100)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            ctx.output(tag, "side")
            yield "main"

    main = timed(env, [("a", 1), ("a", 2)]).key_by(lambda r: r[0]).process(Emit())
    side = main.get_side_output(tag)
    return main.process(ShowTime()).union(side.process(ShowTime())), [
        (101, "main"),
        (101, "side"),
        (102, "main"),
        (102, "side"),
    ]


@program()
def timers_at_the_end_of_time(env):
    """A timer at MAX fires when bounded input ends."""

    class AtTheEnd(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(MAX)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key()

    stream = env.from_collection(["a", "b", "a"]).key_by(lambda v: v).process(AtTheEnd())
    return stream, ["a", "b"]


class Reminder(KeyedProcessFunction):
    """Sets a timer of the clock 100 ms ahead and tells when it came."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        if value == "delete":
            timers.delete_processing_time_timer(100)
        else:
            timers.register_processing_time_timer(now + 100)
        yield now, "set"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        yield ctx.timer_service().current_processing_time(), timestamp


@program(clocked=True)
def processing_timers_fire_when_the_clock_says(env):
    schedule = [(0, "a"), (50, "a"), (99, None), (100, None), (130, "a"), (500, None), (501, "a")]
    stream = scheduled(env, schedule).key_by(lambda v: 0).process(Reminder())
    # The jump to 500 fires what was due at 150 and 230 once each; the last timer dies with the job.
    return stream, [
        (0, "set"),
        (50, "set"),
        (100, 100),
        (130, "set"),
        (500, 150),
        (500, 230),
        (501, "set"),
    ]


@program(clocked=True)
def processing_timers_can_be_deleted(env):
    schedule = [(0, "a"), (20, "delete"), (100, None), (300, None)]
    stream = scheduled(env, schedule).key_by(lambda v: 0).process(Reminder())
    return stream, [(0, "set"), (20, "set")]


@program(clocked=True)
def both_domains_in_one_operator(env):
    class Both(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value[1] + 5)
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 5
            )

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.time_domain().name, timestamp

    from .kit import at_each_record

    stream = (
        scheduled(env, [(1_000, ("a", 1)), (1_010, ("a", 50)), (1_020, None)])
        .assign_timestamps_and_watermarks(at_each_record())
        .set_parallelism(1)
        .key_by(lambda r: r[0])
        .process(Both())
    )
    return stream, [
        ("PROCESSING_TIME", 1_005),
        ("EVENT_TIME", 6),
        ("PROCESSING_TIME", 1_015),
        ("EVENT_TIME", 55),
    ]
