"""Each trigger by hand; all run record by record."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from penstock.state.descriptors import ListStateDescriptor, ValueStateDescriptor

MAX = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield list(elements)


def driver(assigner, trigger, **settings):
    spec = WindowSpec(assigner, trigger, function=Show(), **settings)
    return Driver(spec, now=settings.pop("now", 0))


def test_results():
    assert TriggerResult.FIRE_AND_PURGE.is_fire()
    assert TriggerResult.FIRE_AND_PURGE.is_purge()
    assert TriggerResult.PURGE.is_purge()
    assert not TriggerResult.PURGE.is_fire()
    assert not TriggerResult.CONTINUE.is_fire()


def test_count_trigger_keeps_contents_and_counts_per_key_and_window():
    run = driver(TumblingEventTimeWindows.of(10), CountTrigger.of(2))
    run.records(("a", 1, 1), ("a", 2, 11), ("b", 3, 1), ("a", 4, 2)).reload()
    assert run.values == [[1, 4]]
    run.records(("a", 5, 3), ("a", 6, 4), ("a", 7, 12))
    assert run.values == [[1, 4], [1, 4, 5, 6], [2, 7]]
    # It never fires by time, and cleanup leaves nothing.
    assert run.watermark(MAX).values == [[1, 4], [1, 4, 5, 6], [2, 7]]
    assert run.left_over() == []


def test_a_purging_count_trigger_makes_javas_count_windows():
    run = driver(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)))
    run.records(*[("a", n, None) for n in range(8)])
    assert run.out == [([0, 1, 2], MAX), ([3, 4, 5], MAX)]


def test_continuous_event_time_fires_each_interval_and_at_the_end():
    run = driver(TumblingEventTimeWindows.of(100), ContinuousEventTimeTrigger.of(30))
    # First firing at 45 - 45 mod 30 + 30 = 60.
    run.records(("a", 1, 45)).watermark(59)
    assert run.values == []
    run.reload().watermark(60).records(("a", 2, 61))
    assert run.take() == [([1], 99)]
    # The next ones: 90, then 120 is capped at 99, which is the end.
    assert run.watermark(89).out == []
    assert run.watermark(90).take() == [([1, 2], 99)]
    assert run.watermark(99).take() == [([1, 2], 99)]
    assert run.left_over() == []


def test_continuous_event_time_fires_at_once_when_late():
    run = driver(
        TumblingEventTimeWindows.of(10), ContinuousEventTimeTrigger.of(4), allowed_lateness_ms=9
    )
    run.watermark(12).records(("a", 1, 5), ("a", 2, 6))
    assert run.values == [[1], [1, 2]]
    assert run.watermark(18).left_over() == []


def test_continuous_event_time_keeps_the_earliest_fire_time_in_a_merge():
    run = driver(EventTimeSessionWindows.with_gap(10), ContinuousEventTimeTrigger.of(20))
    # Fire times: 20 - 0 + 20 = 40 capped at 29; 5 -> 20 capped at 14. Merged: 14.
    run.records(("a", 1, 20), ("a", 2, 5)).records(("a", 3, 12)).reload()
    assert run.watermark(14).take() == [([2, 1, 3], 29)]
    assert run.watermark(29).take() == [([2, 1, 3], 29)]
    assert run.left_over() == []


def test_continuous_processing_time():
    spec = WindowSpec(
        TumblingProcessingTimeWindows.of(100),
        ContinuousProcessingTimeTrigger.of(30),
        function=Show(),
    )
    run = Driver(spec, now=40).records(("a", 1, None))
    assert run.now(59).values == []
    assert run.now(60).values == [[1]]
    run.records(("a", 2, None))
    # A jump of the clock fires each due timer once: 90, then 99.
    assert run.now(500).values == [[1], [1, 2], [1, 2]]
    assert run.left_over() == []


def test_delta_trigger_compares_with_the_record_that_fired_last():
    run = driver(GlobalWindows.create(), DeltaTrigger.of(5, lambda old, new: new - old))
    run.records(*[("a", n, None) for n in (0, 3, 5, 6, 11, 12)])
    # 6 - 0 > 5 fires; 11 - 6 does not; 12 - 6 fires.
    assert run.values == [[0, 3, 5, 6], [0, 3, 5, 6, 11, 12]]


def test_never():
    run = driver(TumblingEventTimeWindows.of(10), NeverTrigger())
    assert run.records(("a", 1, 1)).watermark(MAX).out == []
    assert run.left_over() == []


class EveryOther(Trigger):
    """A trigger of a program's own: fires each second record and purges on a "stop"."""

    def __init__(self):
        self.seen = ListStateDescriptor("seen")
        self.last = ValueStateDescriptor("last")

    def on_element(self, element, timestamp, window, ctx):
        if element == "stop":
            return TriggerResult.PURGE
        seen = ctx.get_partitioned_state(self.seen)
        seen.add(element)
        ctx.get_partitioned_state(self.last).update(element)
        ctx.register_processing_time_timer(ctx.get_current_processing_time() + 5)
        ctx.register_event_time_timer(timestamp + 1)
        ctx.delete_event_time_timer(timestamp + 1)
        ctx.get_metric_group().counter("asked").inc()
        return TriggerResult.FIRE if len(seen.get()) % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_event_time(self, time, window, ctx):
        raise AssertionError("its event timers are deleted at once")

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.seen).clear()
        ctx.get_partitioned_state(self.last).clear()


def test_a_trigger_of_the_programs_own():
    run = driver(TumblingEventTimeWindows.of(10), EveryOther())
    run.records(("a", 1, 1), ("a", 2, 2), ("b", 3, 3), ("a", 4, 4))
    assert run.take() == [([1, 2], 9)]
    assert run.metrics.counter("asked").get_count() == 4
    assert run.now(5).take() == [([1, 2, 4], 9), ([3], 9)]
    run.records(("a", "stop", 5), ("a", 6, 6))
    assert run.take() == [([6], 9)]
    # The cleanup timer is the operator's own; trigger state goes with it.
    run.logic.trigger.on_event_time = lambda *_: TriggerResult.CONTINUE
    run.watermark(9)
    assert [entry for entry in run.left_over() if entry[1] != "processing_timer"] == []


def test_errors_of_a_trigger_name_the_record_or_the_timer():
    class Fails(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            if element == "bad":
                raise ValueError("element")
            return super().on_element(element, timestamp, window, ctx)

        def on_event_time(self, time, window, ctx):
            raise ValueError("timer")

    run = driver(TumblingEventTimeWindows.of(10), Fails()).records(("a", "good", 1))
    with pytest.raises(UserFunctionError, match="element") as raised:
        run.records(("a", "fine", 2), ("b", "bad", 3))
    assert raised.value.record == "'bad'"
    with pytest.raises(UserFunctionError, match=r"timer at 9 of TimeWindow\(start=0"):
        run.watermark(9)


def test_merging_windows_need_a_trigger_that_merges():
    with pytest.raises(ProgramError, match="can_merge"):
        WindowSpec(EventTimeSessionWindows.with_gap(5), DeltaTrigger.of(1, max), function=Show())
    with pytest.raises(ProgramError, match="can_merge"):
        WindowSpec(
            EventTimeSessionWindows.with_gap(5),
            PurgingTrigger.of(NeverTrigger()),
            function=Show(),
        )


def test_counts_merge_with_their_sessions():
    run = driver(EventTimeSessionWindows.with_gap(10), CountTrigger.of(4))
    run.records(("a", 1, 0), ("a", 2, 1)).records(("a", 3, 20)).reload()
    assert run.out == []
    # The bridge is the fourth record of the merged session.
    assert run.records(("a", 4, 10)).out == [([1, 2, 3, 4], 29)]
    assert run.watermark(MAX).left_over() == []


def test_windows_of_the_other_domain_do_not_mix():
    run = driver(TumblingEventTimeWindows.of(10), ProcessingTimeTrigger())
    run.records(("a", 1, 1))
    # Its timer is at 9 on the clock, whatever the watermark says; cleanup is in event time.
    assert run.now(9).values == [[1]]
    assert run.watermark(9).left_over() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: CountTrigger.of(0),
        lambda: CountTrigger.of(1.5),
        lambda: ContinuousEventTimeTrigger.of(0),
        lambda: ContinuousProcessingTimeTrigger.of(-1),
        lambda: DeltaTrigger.of(1, "max"),
    ],
)
def test_wrong_settings_are_refused(make):
    with pytest.raises(ProgramError):
        make()


def test_triggers_say_what_they_are():
    purging = PurgingTrigger.of(CountTrigger.of(3))
    assert repr(purging) == "PurgingTrigger(CountTrigger(3))"
    assert EventTimeTrigger.create().can_merge()
    assert purging.can_merge()
