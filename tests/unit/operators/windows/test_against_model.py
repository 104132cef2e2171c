"""Random programs: the batch paths, the record-by-record path and the naive model agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from window_driver import Driver
from window_model import EventTimeModel, Step, aligned, count_windows

from penstock.operators.functions import AggregateFunction
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.contents import AggregateContents, Buffer, ReduceContents
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec, path_of
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)

quick = settings(max_examples=150)

KEYS = st.sampled_from(["a", "b", "c", 1])
TIMES = st.integers(-40, 90)
RECORDS = st.lists(st.tuples(KEYS, st.integers(0, 99), TIMES), min_size=1, max_size=12)
STEPS = st.lists(
    st.one_of(RECORDS.map(lambda r: ("records", r)), TIMES.map(lambda w: ("watermark", w))),
    max_size=12,
)


class Show(ProcessWindowFunction):
    """Yields everything there is to know about a firing."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, list(elements)


class ShowCount(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().id, list(elements)


class Concat(AggregateFunction):
    """Keeps order visible: results are the records as text."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return acc_a + acc_b


def rising(steps: list[Step]) -> list[Step]:
    """Drops watermarks that do not rise, as the subtask does."""
    kept, watermark = [], -(2**63)
    for kind, payload in steps:
        if kind == "watermark":
            if payload <= watermark:
                continue
            watermark = payload
        kept.append((kind, payload))
    return kept


def run(driver: Driver, steps: list[Step], reload_at: int) -> list[list[Any]]:
    """Returns what each step emits; once in between, everything is lost but state."""
    emitted = []
    for number, (kind, payload) in enumerate(steps):
        if number == reload_at:
            driver.reload()
        if kind == "records":
            driver.records(*payload)
        else:
            driver.watermark(payload)
        out: list[Any] = []
        for event in driver.events:
            if event[0] == "out":
                if hasattr(event[1], "__len__") and len(event[1]) == 4:
                    assert event[2] == event[1][2] - 1
                out.append(event[1])
            elif event[0] == "late":
                out.append(event)
        driver.events.clear()
        emitted.append(out)
    return emitted


def normal(steps: list[Step], emitted: list[list[Any]]) -> list[list[Any]]:
    """Sorts what is emitted at one instant of a watermark: order between keys is unspecified."""
    result = []
    for (kind, _), out in zip(steps, emitted, strict=True):
        if kind == "watermark":
            times = [found[2] for found in out]
            assert times == sorted(times)
            out = sorted(out, key=repr)
        else:
            late = [found for found in out if found[0] == "late"]
            out = [found for found in out if found[0] != "late"] + late
        result.append(out)
    return result


def state_of(driver: Driver) -> list[str]:
    return sorted(map(repr, driver.left_over()))


ALIGNED = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(-11, 11))
    .filter(lambda s: abs(s[1]) < s[0])
    .map(lambda s: (TumblingEventTimeWindows.of(*s), aligned(s[0], s[0], s[1]))),
    st.tuples(st.integers(1, 20), st.integers(1, 9), st.integers(-8, 8))
    .filter(lambda s: abs(s[2]) < s[1])
    .map(lambda s: (SlidingEventTimeWindows.of(*s), aligned(*s))),
)


@quick
@given(ALIGNED, STEPS, st.integers(0, 15), st.booleans(), st.integers(0, 12), st.booleans())
def test_tumbling_and_sliding(windows, steps, lateness, purging, reload_at, general):
    assigner, naive = windows
    steps = rising(steps)
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else None
    spec = WindowSpec(
        assigner, trigger, allowed_lateness_ms=lateness, late_tag="late", function=Show()
    )
    expected = EventTimeModel(naive, lateness=lateness, purging=purging).run(steps)
    emitted = run(Driver(spec, general=general), steps, reload_at)
    assert normal(steps, emitted) == normal(steps, expected)


GAPS = {"fixed": lambda value: 7, "dynamic": lambda value: 1 + value % 13}


@quick
@given(
    st.sampled_from(sorted(GAPS)),
    STEPS,
    st.integers(0, 15),
    st.booleans(),
    st.integers(0, 12),
    st.booleans(),
)
def test_sessions(kind, steps, lateness, purging, reload_at, general):
    gap = GAPS[kind]
    if kind == "fixed":
        assigner: Any = EventTimeSessionWindows.with_gap(7)
    else:
        assigner = EventTimeSessionWindows.with_dynamic_gap(gap)
    steps = rising(steps)
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else None
    spec = WindowSpec(
        assigner, trigger, allowed_lateness_ms=lateness, late_tag="late", function=Show()
    )
    model = EventTimeModel(None, gap, lateness=lateness, purging=purging)
    expected = model.run(steps)
    emitted = run(Driver(spec, general=general), steps, reload_at)
    assert normal(steps, emitted) == normal(steps, expected)


CONTENTS = {
    "buffer": Buffer(),
    "reduce": ReduceContents(lambda left, right: f"({left}{right})"),
    "aggregate": AggregateContents(Concat()),
}
ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(10, 3),
    "sliding": SlidingEventTimeWindows.of(10, 4),
    "sparse": SlidingEventTimeWindows.of(4, 7),
    "session": EventTimeSessionWindows.with_gap(6),
    "gaps": EventTimeSessionWindows.with_dynamic_gap(GAPS["dynamic"]),
}


@pytest.mark.parametrize("windows", sorted(ASSIGNERS))
@pytest.mark.parametrize("contents", sorted(CONTENTS))
@settings(max_examples=60)
@given(steps=STEPS, lateness=st.integers(0, 9), purging=st.booleans(), reload_at=st.integers(0, 9))
def test_batches_equal_records(windows, contents, steps, lateness, purging, reload_at):
    """Results, drops and what stays in state are the same on both paths."""
    steps = rising(steps)
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else None
    spec = WindowSpec(
        ASSIGNERS[windows],
        trigger,
        allowed_lateness_ms=lateness,
        contents=CONTENTS[contents],
        function=Show(),
    )
    by_batch, by_record = Driver(spec), Driver(spec, general=True)
    assert path_of(spec) is not None
    first = run(by_batch, steps, reload_at)
    second = run(by_record, steps, -1)
    assert normal(steps, first) == normal(steps, second)
    assert by_batch.dropped == by_record.dropped
    assert state_of(by_batch) == state_of(by_record)


@pytest.mark.parametrize("windows", sorted(ASSIGNERS))
@pytest.mark.parametrize("contents", sorted(CONTENTS))
@settings(max_examples=6)
@given(steps=STEPS.filter(lambda steps: len(steps) > 3), lateness=st.integers(0, 9))
def test_state_on_disk_gives_the_same(windows, contents, steps, lateness):
    """A database with nearly no memory, committed and reopened after every step."""
    pytest.importorskip("rocksdict")
    steps = rising(steps)
    spec = WindowSpec(
        ASSIGNERS[windows],
        allowed_lateness_ms=lateness,
        contents=CONTENTS[contents],
        function=Show(),
    )
    on_disk = Driver(spec, backend="rocksdb")
    emitted = []
    for step in steps:
        emitted += run(on_disk, [step], 0)
    expected = run(Driver(spec, general=True), steps, -1)
    assert normal(steps, emitted) == normal(steps, expected)


COUNTED = st.lists(st.lists(st.tuples(KEYS, st.integers(0, 99)), max_size=20), max_size=5)


@quick
@given(st.integers(1, 6), st.integers(1, 8), COUNTED, st.integers(0, 4), st.booleans())
def test_count_windows(size, slide, batches, reload_at, general):
    if size == slide:
        assigner: Any = CountTumblingWindowAssigner.of(size)
    else:
        assigner = CountSlidingWindowAssigner.of(size, slide)
    driver = Driver(WindowSpec(assigner, function=ShowCount()), general=general)
    for number, batch in enumerate(batches):
        if number == reload_at:
            driver.reload()
        driver.records(*[(key, value, None) for key, value in batch])
    everything = [record for batch in batches for record in batch]
    assert driver.values == count_windows(everything, size, slide)
    assert all(timestamp == 2**63 - 1 for _, timestamp in driver.out)


@quick
@given(st.integers(1, 6), COUNTED, st.booleans(), st.sampled_from(sorted(CONTENTS)))
def test_count_trigger_of_the_global_window(count, batches, purging, contents):
    trigger = CountTrigger.of(count)
    spec = WindowSpec(
        GlobalWindows.create(),
        PurgingTrigger.of(trigger) if purging else trigger,
        contents=CONTENTS[contents],
    )
    by_batch, by_record = Driver(spec), Driver(spec, general=True)
    for driver in (by_batch, by_record):
        for number, batch in enumerate(batches):
            if number == 2 and driver is by_batch:
                driver.reload()
            driver.records(*[(key, value, None) for key, value in batch])
    assert by_batch.values == by_record.values
    assert state_of(by_batch) == state_of(by_record)
    assert len(by_batch.values) >= sum(
        sum(key == wanted for batch in batches for key, _ in batch) // count
        for wanted in ("a", "b", "c", 1)
    )
