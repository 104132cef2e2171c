"""Numbers, generators, the demo's events and the user's own sources, by hand-worked figures."""

from __future__ import annotations

import itertools
import pickle
import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.custom import PythonSource, Timestamped, Watermark
from penstock.connectors.demo_events import DemoEvents, DemoEventSource
from penstock.connectors.generator import (
    CollectionSource,
    DataGeneratorSource,
    NumberSequenceSource,
)
from penstock.connectors.source import Boundedness, Budget, ReadResult, Source
from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable


def read(source: Source, split: int, position: Any, budget: Budget) -> ReadResult:
    found = source.discover(None, 0).splits[split]
    return source.create_reader().read(found, found.start if position is None else position, budget)


# -- collections ----------------------------------------------------------------------------------


class Point:
    """A record that pickle knows by its module."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_a_collection_is_fixed_when_it_is_given() -> None:
    items = [[1], [2]]
    source = CollectionSource(items)
    items[0].append(9)
    first = read(source, 0, None, Budget(9, 9, 0))
    assert first.values == [[1], [2]]
    first.values[0].append(7)
    assert read(source, 0, None, Budget(9, 9, 0)).values == [[1], [2]]


def test_a_collection_of_a_scripts_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Point, "__module__", "__main__")
    monkeypatch.setattr("__main__.Point", Point, raising=False)
    source = CollectionSource([Point(1)])
    (point,) = read(source, 0, None, Budget(9, 9, 0)).values
    point.x = 5
    assert read(source, 0, None, Budget(9, 9, 0)).values[0].x == 1


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(ProgramError, match="numbers 0 to 1, cannot be pickled"):
        CollectionSource([1, (n for n in ())])


def test_an_empty_collection_ends_at_once() -> None:
    discovery = CollectionSource([]).discover(None, 0)
    assert (discovery.splits, discovery.complete) == ((), True)


# -- numbers --------------------------------------------------------------------------------------


def test_numbers_include_both_ends() -> None:
    assert read(NumberSequenceSource(5, 5), 0, None, Budget(9, 9, 0)).values == [5]
    with pytest.raises(ProgramError, match="the end is below the start"):
        NumberSequenceSource(1, 0)


def test_numbers_are_cut_for_the_parallelism() -> None:
    splits = NumberSequenceSource(1, 16).with_parallelism(2).discover(None, 0).splits
    assert [split.data for split in splits] == [(n, n + 2) for n in range(1, 17, 2)]
    assert [split.split_id for split in splits][:2] == ["1..2", "3..4"]


# -- generators -----------------------------------------------------------------------------------


def test_a_rate_is_a_schedule() -> None:
    """Ten a second: number n is due n * 100 ms after the first read."""
    source = DataGeneratorSource(str, rate_per_second=10)
    first = read(source, 0, None, Budget(100, 9, 50_000))
    assert (first.values, first.position, first.has_more) == (["0"], (1, 50_000), False)
    early = read(source, 0, first.position, Budget(100, 9, 50_099))
    assert early.values == []
    second = read(source, 0, first.position, Budget(100, 9, 50_300))
    assert second.values == ["1", "2", "3"]
    # What fell due during a pause is made up for, within the budget.
    late = read(source, 0, second.position, Budget(4, 9, 51_000))
    assert (late.values, late.has_more) == (["4", "5", "6", "7"], True)


def test_a_rate_is_shared_by_the_splits() -> None:
    source = DataGeneratorSource(str, rate_per_second=10, num_splits=2)
    for split in (0, 1):
        position = read(source, split, None, Budget(100, 9, 0)).position
        result = read(source, split, position, Budget(100, 9, 1000))
        assert len(result.values) == 5


def test_a_clock_that_was_set_back_emits_nothing() -> None:
    source = DataGeneratorSource(str, rate_per_second=10)
    assert read(source, 0, (5, 10_000), Budget(100, 9, 9_000)).values == []


def test_splits_take_blocks_in_turn() -> None:
    source = DataGeneratorSource(int, 3000, num_splits=2)
    low = read(source, 0, None, Budget(10**6, 9, 0))
    high = read(source, 1, None, Budget(10**6, 9, 0))
    assert low.values == [*range(1024), *range(2048, 3000)]
    assert high.values == [*range(1024, 2048)]
    assert low.finished
    assert high.finished


def test_an_endless_generator_always_has_more() -> None:
    source = DataGeneratorSource(int)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    result = read(source, 0, (10**12, 0), Budget(3, 9, 0))
    assert result.values == [10**12, 10**12 + 1, 10**12 + 2]
    assert (result.has_more, result.finished) == (True, False)


def test_a_seed_gives_each_block_its_own_random_numbers() -> None:
    def make(index: int, source: random.Random) -> float:
        return source.random()

    source = DataGeneratorSource(make, seed=7)
    expected = random.Random("7:1")
    block = [expected.random() for _ in range(1024)]
    assert read(source, 0, (1024, 0), Budget(5, 9, 0)).values == block[:5]
    assert read(source, 0, (2000, 0), Budget(5, 9, 0)).values == block[976:981]


def test_small_reads_with_a_seed_make_each_record_once() -> None:
    """The records are those of one large read, also after steps back and a function that raised."""
    calls: Counter[int] = Counter()
    broken: set[int] = set()

    def make(index: int, source: random.Random) -> float:
        calls[index] += 1
        number = source.random()
        if index in broken:
            raise ValueError(index)
        return number

    source = DataGeneratorSource(make, seed=7, num_splits=2)
    whole = [read(source, split, None, Budget(2048, 9, 0)).values for split in (0, 1)]
    calls.clear()
    reader = source.create_reader()
    splits = source.discover(None, 0).splits
    small: list[list[float]] = [[], []]
    for first in range(0, 2048, 7):
        for split, found in zip(splits, small, strict=True):
            most = min(7, 2048 - first)
            found += reader.read(split, (first, 0), Budget(most, 9, 0)).values
    assert small == whole
    assert set(calls.values()) == {1}

    broken.add(1000)
    with pytest.raises(ValueError, match="1000"):
        reader.read(splits[0], (998, 0), Budget(5, 9, 0))
    broken.clear()
    for first in (1000, 998, 3, 3, 8):
        found = reader.read(splits[0], (first, 0), Budget(5, 9, 0)).values
        assert found == whole[0][first : first + 5]


@pytest.mark.parametrize("arguments", [{"count": -1}, {"rate_per_second": 0}])
def test_generator_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match="must be"):
        DataGeneratorSource(str, **arguments)


def test_splits_follow_the_parallelism_unless_said() -> None:
    assert len(DataGeneratorSource(str).with_parallelism(3).discover(None, 0).splits) == 3
    fixed = DataGeneratorSource(str, num_splits=2).with_parallelism(3)
    assert len(fixed.discover(None, 0).splits) == 2


# -- the demo's events ----------------------------------------------------------------------------

LINE = re.compile(r"\d+\t[a-z]+\t\d+\t[a-z]+")


def demo_lines(count: int, **settings: Any) -> list[str]:
    return [line for block in DemoEvents(**settings).blocks(count) for line in block]


def test_demo_lines() -> None:
    lines = demo_lines(5000, seed=1, start_ms=10**12, events_per_second=1000)
    assert all(LINE.fullmatch(line) for line in lines)
    delays = []
    for number, line in enumerate(lines):
        time = int(line.split("\t")[0])
        # Event n happens n ms after the start; two minutes are lag, the rest is disorder.
        delays.append(10**12 + number - 120_000 - time)
    assert min(delays) >= 0
    assert max(delays) <= 50_000
    assert max(delays) - min(delays) > 45_000
    assert lines != demo_lines(5000, seed=2, start_ms=10**12, events_per_second=1000)
    assert lines[:2000] == demo_lines(2000, seed=1, start_ms=10**12, events_per_second=1000)


def test_demo_ids_come_round_evenly() -> None:
    for ids in (1, 2, 10, 1000):
        found = Counter(line.split("\t")[2] for line in demo_lines(3000, ids=ids))
        assert len(found) == ids
        assert max(found.values()) - min(found.values()) <= 1


def test_demo_combinations_differ_from_block_to_block() -> None:
    pairs = [tuple(line.split("\t")[1::2]) for line in demo_lines(4096)]
    blocks = [tuple(pairs[at : at + 1024]) for at in range(0, 4096, 1024)]
    assert len(set(blocks)) == 4
    assert len(set(pairs)) > 40


def test_demo_events_follow_the_clock_with_a_rate() -> None:
    source = DemoEventSource(rate_per_second=100, num_splits=2)
    for split in (0, 1):
        result = read(source, split, None, Budget(10**6, 9, 10**12))
        assert len(result.values) == 1
        result = read(source, split, result.position, Budget(10**6, 9, 10**12 + 60_000))
        assert len(result.values) == 3000
        times = [int(line.split("\t")[0]) for line in result.values]
        lags = [10**12 + 20 * (n + 1) + 10 * split - t for n, t in enumerate(times)]
        assert min(lags) >= 120_000
        assert max(lags) <= 170_000


# -- the user's own -------------------------------------------------------------------------------


class Log(PythonSource):
    """A log whose partitions grow; offsets are row numbers."""

    emits_own_watermarks = True

    def __init__(self, **rows: list[Any]) -> None:
        self.rows = rows

    def splits(self) -> Iterable[str]:
        return self.rows

    def latest_offset(self, split: str) -> int:
        return len(self.rows[split])

    def read(self, split: str, start: int, end: int) -> Iterable[Any]:
        return itertools.islice(self.rows[split], start, end)


def test_own_source_without_end() -> None:
    source = Log(a=["x", "y"])
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.discover(None, 0).splits[0].concurrent
    result = read(source, 0, None, Budget(1, 9, 0))
    assert (result.values, result.position, result.has_more) == (["x"], 1, True)
    result = read(source, 0, 1, Budget(9, 9, 0))
    assert (result.values, result.position, result.has_more) == (["y"], 2, False)
    result = read(source, 0, 2, Budget(9, 9, 0))
    assert (result.values, result.position, result.finished) == ([], 2, False)


def test_own_splits_may_appear_later() -> None:
    source = Log(a=[])
    first = source.discover(None, 0)
    source.rows["b"] = []
    second = source.discover(first.state, 0)
    assert [split.split_id for split in second.splits] == ["b"]
    assert source.discover(second.state, 0).splits == ()
    assert not second.complete


def test_own_timestamps_and_watermarks() -> None:
    source = Log(a=[Watermark(1), Timestamped("x", 10), "y", Watermark(10), Watermark(11)])
    result = read(source, 0, None, Budget(9, 9, 0))
    assert result.values == ["x", "y"]
    assert result.timestamps == [10, NO_TIMESTAMP]
    assert result.punctuated == [(0, 1), (2, 10), (2, 11)]
    plain = read(Log(a=["x", Watermark(5)]), 0, None, Budget(9, 9, 0))
    assert (plain.values, plain.timestamps) == (["x"], None)


class Skipping(PythonSource):
    """Reads in pages and says itself where it stopped."""

    bounded = True
    opened = 0

    def __init__(self, stop: Any) -> None:
        self.stop = stop

    def splits(self) -> list[str]:
        return ["only"]

    def start_offset(self, split: str) -> int:
        return 100

    def end_offset(self, split: str) -> int:
        return 200

    def open(self) -> None:
        type(self).opened += 1

    def close(self) -> None:
        type(self).opened -= 1

    def read(self, split: str, start: int, end: int) -> Any:
        yield start
        return self.stop


def test_a_generator_says_how_far_it_got() -> None:
    result = read(Skipping(150), 0, None, Budget(1000, 9, 0))
    assert (result.values, result.position, result.finished) == ([100], 150, False)
    assert result.has_more
    assert read(Skipping(200), 0, None, Budget(1000, 9, 0)).finished
    assert read(Skipping(None), 0, None, Budget(60, 9, 0)).position == 160


@pytest.mark.parametrize(
    ("stop", "message"),
    [(100, "would be read without end"), (99, "at least 100"), ("x", "whole number")],
)
def test_wrong_offsets(stop: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        read(Skipping(stop), 0, None, Budget(1000, 9, 0))


def test_open_and_close_are_paired() -> None:
    Skipping.opened = 0
    source = pickle.loads(pickle.dumps(Skipping(None)))
    split = source.discover(None, 0).splits[0]
    reader = source.create_reader()
    for position in (100, 150):
        reader.read(split, position, Budget(10, 9, 0))
    assert Skipping.opened == 1
    reader.close()
    reader.close()
    assert Skipping.opened == 0


def test_own_source_mistakes_are_named() -> None:
    class Endless(Log):
        bounded = True

    class Silent(Log):
        emits_own_watermarks = False

    with pytest.raises(ProgramError, match=r"end_offset\('a'\) returned None"):
        read(Endless(a=["x"]), 0, None, Budget(9, 9, 0))
    with pytest.raises(ProgramError, match="emits_own_watermarks = True in Silent"):
        read(Silent(a=[Watermark(1)]), 0, None, Budget(9, 9, 0))
    with pytest.raises(ProgramError, match="split names are strings"):
        Log(a=[]).__class__.discover(_Numbered(), None, 0)
    with pytest.raises(ProgramError, match="outside the int64 range"):
        Watermark(2**63)


class _Numbered(Log):
    def splits(self) -> Any:
        return [1]


def test_an_input_that_ends_before_the_position_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Log(a=list(range(4)))
    (split,) = source.discover(None, 0).splits
    reader = source.create_reader()
    for _ in range(2):
        found = reader.read(split, 10, Budget(9, 999, 0))
        assert (found.values, found.position, found.finished) == ([], 10, False)
    assert caplog.messages == [
        "Log.latest_offset('a') is 4, but the job has read up to 10: it reads nothing until "
        "the offset is higher. If the input was replaced, start the job without its snapshot."
    ]
    source.rows["a"] = list(range(12))
    assert reader.read(split, 10, Budget(9, 999, 0)).values == [10, 11]
    assert len(caplog.messages) == 1
