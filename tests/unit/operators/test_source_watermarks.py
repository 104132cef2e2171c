"""One watermark out of the splits of a source subtask."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from penstock.core.records import Batch
from penstock.core.times import MIN_WATERMARK
from penstock.operators.source_watermarks import SourceWatermarks
from penstock.operators.watermark_strategy import WatermarkGenerator, WatermarkStrategy

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


def read(*timestamps: int) -> Batch:
    return Batch([f"r{timestamp}" for timestamp in timestamps], list(timestamps))


def parts(source: SourceWatermarks, split: str, batch: Batch, own: Sequence = ()) -> list:
    return [
        (part.values, part.timestamps, watermark)
        for part, watermark in source.assign(split, batch, list(own))
    ]


def watermarks(strategy: WatermarkStrategy | None = MONOTONOUS, **options) -> SourceWatermarks:
    return SourceWatermarks(strategy, name="source", **options)


def test_the_slowest_split_decides():
    source = watermarks()
    source.add_split("a")
    source.add_split("b")
    assert parts(source, "a", read(10, 20)) == [(["r10", "r20"], [10, 20], 19)]
    assert source.current() == MIN_WATERMARK
    parts(source, "b", read(5))
    assert source.current() == 4
    parts(source, "b", read(50))
    assert source.current() == 19


def test_a_split_that_was_not_announced_counts_from_its_first_read():
    source = watermarks()
    parts(source, "a", read(20))
    assert source.current() == 19
    parts(source, "b", read(5))
    parts(source, "a", read(30))
    assert source.current() == 19  # b is at 4


def test_a_finished_split_no_longer_holds_the_others_back():
    source = watermarks()
    parts(source, "a", read(20))
    parts(source, "b", read(5))
    source.finish_split("b")
    parts(source, "a", read(30))
    assert source.current() == 29
    source.finish_split("a")
    source.finish_split("never heard of")
    assert source.current() == 29


class EveryRecord(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output):
        pass


def test_records_are_cut_where_the_watermark_rises():
    source = watermarks(WatermarkStrategy.for_generator(EveryRecord))
    seen = []
    for part, watermark in source.assign("a", read(1, 5, 3, 7, 6), []):
        seen.append((part.values, part.timestamps, watermark, source.current()))
    assert seen == [
        (["r1"], [1], 1, 1),
        (["r5"], [5], 5, 5),
        (["r3", "r7"], [3, 7], 7, 7),
        (["r6"], [6], None, 7),
    ]


def test_a_source_with_watermarks_of_its_own():
    batch, own = Batch(["a", "b", "c"], [1, 2, 3]), [(1, 10), (3, 30)]
    for strategy in (None, WatermarkStrategy.no_watermarks()):
        source = watermarks(strategy, source_emits=True)
        assert parts(source, "s", batch, own) == [
            (["a"], [1], 10),
            (["b", "c"], [2, 3], 30),
        ]
        assert source.current() == 30
    # A generator of the program's replaces them.
    source = watermarks(source_emits=True)
    assert [watermark for *_, watermark in parts(source, "s", batch, own)] == [2]


def test_a_watermark_without_records():
    source = watermarks(None, source_emits=True)
    assert parts(source, "s", Batch([]), [(0, 7)]) == [([], None, 7)]
    assert source.current() == 7


def test_without_a_strategy_records_keep_what_they_have():
    source = watermarks(None)
    assert parts(source, "s", Batch(["a"])) == [(["a"], None, None)]
    assert source.current() == MIN_WATERMARK


def test_an_idle_split_is_not_waited_for():
    source = watermarks(MONOTONOUS.with_idleness(1000))
    parts(source, "a", read(20))
    parts(source, "b", read(5))
    source.on_epoch(0)
    parts(source, "a", read(30))
    source.on_epoch(100)
    parts(source, "a", read(40))
    source.on_epoch(1101)
    assert source.current() == 39
    assert source.status_change() is None  # a is still active
    source.on_epoch(1200)
    source.on_epoch(2201)
    assert source.status_change() is True
    assert source.status_change() is None
    parts(source, "b", read(50))
    assert source.status_change() is False
    assert source.current() == 49


def test_a_subtask_without_splits_turns_idle_too():
    source = watermarks(MONOTONOUS.with_idleness(1000))
    source.on_epoch(0)
    assert source.next_check() == 1001
    source.on_epoch(1001)
    assert source.status_change() is True
    source.add_split("a")
    assert source.status_change() is False


def test_without_idleness_a_subtask_without_splits_is_waited_for():
    source = watermarks()
    source.on_epoch(0)
    source.on_epoch(10**9)
    assert source.status_change() is None
    assert source.next_check() is None


def test_a_snapshot_holds_everything():
    source = watermarks(MONOTONOUS.with_idleness(1000))
    parts(source, "a", read(20))
    parts(source, "b", read(5))
    state = pickle.loads(pickle.dumps(source.snapshot()))
    again = watermarks(MONOTONOUS.with_idleness(1000))
    again.restore(state)
    assert again.current() == 19
    parts(again, "a", read(50))
    assert again.current() == 19  # b is at 4
    parts(again, "b", read(31))
    assert again.current() == 30
    again.restore(None)
    assert again.current() == MIN_WATERMARK


def test_splits_that_move_take_their_watermarks_along():
    left, right = watermarks(), watermarks()
    parts(left, "a", read(20))
    parts(right, "b", read(51))
    parts(right, "c", read(41))
    states = [left.snapshot(), right.snapshot()]
    one = watermarks()
    one.restore_rescaled(states, ["b"])
    assert one.current() == 50  # b is all it reads; min over the old ones was 19
    two = watermarks()
    two.restore_rescaled(states, ["a", "c"])
    assert two.current() == 19
    parts(two, "a", read(100))
    assert two.current() == 40
    three = watermarks()
    three.restore_rescaled(states, [])
    assert three.current() == 19
