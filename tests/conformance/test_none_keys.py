"""None is a key as any other, as it is in PyFlink: it has state, timers and windows."""

from __future__ import annotations

import pytest
from programs.kit import timed
from programs.ways import WAYS

from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.operators.functions import KeyedProcessFunction as Keyed
from penstock.testing.harness import OneOperatorHarness

RECORDS = [(None, 1), ("a", 2), (None, 3), ("a", 4), (None, 5)]
"""The second field is the time."""


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", Types.LONG()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.times.add(value[1])
        self.seen.put("last", value[1])
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield (
            ctx.get_current_key(),
            self.count.value(),
            list(self.times.get()),
            dict(self.seen.items()),
        )


EXPECTED = [("a", 2, [2, 4], {"last": 4}), (None, 3, [1, 3, 5], {"last": 5})]


def collected(stream):
    with stream.execute_and_collect() as results:
        return sorted(results, key=repr)


@pytest.fixture(params=WAYS, ids=str)
def env(request):
    return request.param.environment()


@pytest.mark.parametrize("key_type", [None, Types.STRING()], ids=["untyped", "typed"])
def test_state_and_timers(env, key_type):
    stream = timed(env, RECORDS).key_by(lambda record: record[0], key_type)
    assert collected(stream.process(Remember())) == EXPECTED


@pytest.mark.parametrize(
    "assigner",
    [
        lambda: TumblingEventTimeWindows.of(Time.seconds(10)),
        lambda: EventTimeSessionWindows.with_gap(Time.seconds(10)),
    ],
    ids=["tumbling", "session"],
)
def test_windows_and_reductions(env, assigner):
    keyed = timed(env, RECORDS).key_by(lambda record: record[0])
    reduced = keyed.window(assigner()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert collected(reduced) == [("a", 6), (None, 9)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_key_outlives_a_restore(backend):
    assert issubclass(Remember, Keyed)
    harness = OneOperatorHarness(Remember(), key=lambda record: record[0], backend=backend)
    harness.process(*RECORDS[:3])
    saved = harness.snapshot()
    other = OneOperatorHarness(
        Remember(), key=lambda record: record[0], backend=backend, directory=harness.directory
    )
    other.restore(saved)
    other.process(*RECORDS[3:])
    other.watermark(100)
    assert sorted(other.values, key=repr) == EXPECTED
