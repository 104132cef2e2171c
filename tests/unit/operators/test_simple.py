"""Map, flat map and filter."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.functions import FilterFunction, FlatMapFunction, MapFunction
from penstock.state.descriptors import ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness

BATCHES = st.lists(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 100)), max_size=6), max_size=5
)


def run(spec, batches, *, with_timestamps, key=None):
    harness = OneOperatorHarness(spec, key=key)
    for batch in batches:
        values = [value for value, _ in batch]
        harness.process(*values, timestamps=[t for _, t in batch] if with_timestamps else None)
    return harness.records


@given(BATCHES, st.booleans())
def test_map(batches, with_timestamps):
    expected = [(v * 2, t if with_timestamps else None) for batch in batches for v, t in batch]
    assert run(MapSpec(lambda v: v * 2), batches, with_timestamps=with_timestamps) == expected


@given(BATCHES, st.booleans())
def test_filter(batches, with_timestamps):
    expected = [(v, t if with_timestamps else None) for batch in batches for v, t in batch if v > 0]
    assert run(FilterSpec(lambda v: v > 0), batches, with_timestamps=with_timestamps) == expected


@given(BATCHES, st.booleans())
def test_flat_map_repeats_the_timestamp(batches, with_timestamps):
    expected = [
        (v, t if with_timestamps else None) for batch in batches for v, t in batch for _ in range(v)
    ]
    spec = FlatMapSpec(lambda v: None if v <= 0 else [v] * v)
    assert run(spec, batches, with_timestamps=with_timestamps) == expected


def words(line):
    yield from line.split()


def test_flat_map_takes_generators_iterables_and_none():
    harness = OneOperatorHarness(FlatMapSpec(words))
    harness.process("a b", "", "c", timestamps=[1, 2, 3])
    assert harness.records == [("a", 1), ("b", 1), ("c", 3)]


def test_none_is_a_value_like_any_other_for_map():
    harness = OneOperatorHarness(MapSpec(lambda value: None))
    harness.process(1, 2)
    assert harness.values == [None, None]


class Count(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


class First(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class Again(FlatMapFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def flat_map(self, value):
        last = self.last.value()
        self.last.update(value)
        if last is not None:
            # The state is read while the generator runs: the key must still be right.
            yield last, self.last.value()


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=5), st.booleans())
def test_keyed_functions_use_the_state_of_their_key(batches, with_timestamps):
    records = [letter for batch in batches for letter in batch]
    batches = [[(letter, 7) for letter in batch] for batch in batches]

    def values(spec):
        return [v for v, _ in run(spec, batches, with_timestamps=with_timestamps, key=str)]

    assert values(MapSpec(Count(), keyed=True)) == [
        (letter, records[: index + 1].count(letter)) for index, letter in enumerate(records)
    ]
    assert values(FilterSpec(First(), keyed=True)) == [
        letter for index, letter in enumerate(records) if letter not in records[:index]
    ]
    assert values(FlatMapSpec(Again(), keyed=True)) == [
        (letter, letter) for index, letter in enumerate(records) if letter in records[:index]
    ]


def test_plain_callables_need_no_keyed_state():
    assert not MapSpec(str, keyed=True).is_keyed
    assert MapSpec(Count(), keyed=True).is_keyed
    assert not MapSpec(Count()).is_keyed


def test_keyed_state_without_a_key_is_explained():
    with pytest.raises(UserFunctionError, match=r"input is not keyed. Call key_by first"):
        OneOperatorHarness(MapSpec(Count()))


def test_records_without_keys_are_refused():
    harness = OneOperatorHarness(MapSpec(Count(), keyed=True))
    with pytest.raises(ProgramError, match="received records without keys"):
        harness.process("a")


def test_specs_check_their_function_when_they_are_made():
    for spec in (MapSpec, FilterSpec, FlatMapSpec):
        with pytest.raises(ProgramError, match="int 3 was given"):
            spec(3)


class Once(MapFunction):
    opened = closed = 0

    def open(self, runtime_context):
        type(self).opened += 1

    def close(self):
        type(self).closed += 1
        raise RuntimeError("close may fail")

    def map(self, value):
        return value


def test_functions_are_opened_and_closed_once(caplog):
    harness = OneOperatorHarness(MapSpec(Once()))
    harness.restore(harness.snapshot())
    harness.close()
    harness.close()
    assert (Once.opened, Once.closed) == (1, 1)
    assert "close() of operator 'operator' failed" in caplog.text
    assert "close may fail" in caplog.text
