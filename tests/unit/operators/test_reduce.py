"""Rolling reduce and aggregations."""

from __future__ import annotations

import collections
import dataclasses

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.row import Row
from penstock.operators.functions import ReduceFunction
from penstock.operators.reduce import ReduceSpec, RollingAggregation
from penstock.testing.harness import OneOperatorHarness

Point = collections.namedtuple("Point", "key value note")


@dataclasses.dataclass
class Item:
    key: str
    value: int
    note: str


def first(record):
    return record["key"] if isinstance(record, dict) else record[0]


def rolling(spec, *batches, key=first):
    harness = OneOperatorHarness(spec, key=key)
    for batch in batches:
        harness.process(*batch)
    return harness.values


def test_each_record_gives_the_value_so_far():
    harness = OneOperatorHarness(ReduceSpec(lambda a, b: (a[0], a[1] + b[1])), key=first)
    harness.process(("a", 1), ("b", 5), ("a", 2), timestamps=[10, 20, 30])
    state = harness.snapshot()
    harness.process(("a", 100))
    harness.restore(state)
    harness.process(("a", 3), timestamps=[40])
    assert harness.records == [
        (("a", 1), 10),
        (("b", 5), 20),
        (("a", 3), 30),
        (("a", 103), None),
        (("a", 6), 40),
    ]


class Merge(ReduceFunction):
    def reduce(self, value1, value2):
        value1["seen"].append(value2["seen"][0])
        return value1


def test_a_function_may_change_its_first_argument_in_place():
    batch = [{"key": "a", "seen": [n]} for n in (1, 2, 3)]
    expected = [[1], [1, 2], [1, 2, 3]]
    assert [value["seen"] for value in rolling(ReduceSpec(Merge()), batch)] == expected
    # And it changes nobody else's records.
    assert [value["seen"] for value in batch] == [[1], [2], [3]]


def test_state_spans_batches_of_mutable_records():
    batches = [[{"key": "a", "seen": [n]}] for n in (1, 2, 3)]
    values = rolling(ReduceSpec(Merge()), *batches)
    assert [value["seen"] for value in values] == [[1], [1, 2], [1, 2, 3]]


TUPLES = [("a", 3, "x"), ("a", 1, "y"), ("b", 5, "z"), ("a", 1, "w"), ("a", 4, "v"), ("a", 4, "u")]
EXPECTED = {
    # sum, min and max change the field and keep the rest of the first record.
    "sum": [
        ("a", 3, "x"),
        ("a", 4, "x"),
        ("b", 5, "z"),
        ("a", 5, "x"),
        ("a", 9, "x"),
        ("a", 13, "x"),
    ],
    "min": [
        ("a", 3, "x"),
        ("a", 1, "x"),
        ("b", 5, "z"),
        ("a", 1, "x"),
        ("a", 1, "x"),
        ("a", 1, "x"),
    ],
    "max": [
        ("a", 3, "x"),
        ("a", 3, "x"),
        ("b", 5, "z"),
        ("a", 3, "x"),
        ("a", 4, "x"),
        ("a", 4, "x"),
    ],
    # min_by and max_by give whole records, the first one on ties.
    "min_by": [
        ("a", 3, "x"),
        ("a", 1, "y"),
        ("b", 5, "z"),
        ("a", 1, "y"),
        ("a", 1, "y"),
        ("a", 1, "y"),
    ],
    "max_by": [
        ("a", 3, "x"),
        ("a", 3, "x"),
        ("b", 5, "z"),
        ("a", 3, "x"),
        ("a", 4, "v"),
        ("a", 4, "v"),
    ],
}


def as_row(record):
    return Row(key=record[0], value=record[1], note=record[2])


SHAPES = {
    "tuple": (lambda record: record, tuple, [1, -2]),
    "list": (list, tuple, [1]),
    "named tuple": (lambda record: Point(*record), tuple, [1, "value"]),
    "row": (lambda record: Row(*record), tuple, [1]),
    "named row": (as_row, tuple, [1, "value"]),
    "dict": (
        lambda record: dict(zip(("key", "value", "note"), record, strict=True)),
        lambda record: tuple(record.values()),
        ["value"],
    ),
    "dataclass": (lambda record: Item(*record), dataclasses.astuple, [1, "value"]),
}


@pytest.mark.parametrize("kind", EXPECTED)
@pytest.mark.parametrize("shape", SHAPES)
def test_aggregations_of_a_field(kind, shape):
    make, read, positions = SHAPES[shape]
    records = [make(record) for record in TUPLES]
    for position in positions:
        values = rolling(
            ReduceSpec(RollingAggregation(kind, position)),
            records[:2],
            records[2:],
            key=lambda record: read(record)[0],
        )
        assert [type(value) for value in values] == [type(record) for record in records]
        assert [read(value) for value in values] == EXPECTED[kind]
    assert [read(record) for record in records] == TUPLES


@given(st.lists(st.integers(-20, 20), min_size=1))
def test_plain_values(numbers):
    def run(kind):
        return rolling(ReduceSpec(RollingAggregation(kind)), numbers, key=lambda value: "all")

    prefixes = [numbers[: index + 1] for index in range(len(numbers))]
    assert run("sum") == [sum(prefix) for prefix in prefixes]
    assert run("min") == run("min_by") == [min(prefix) for prefix in prefixes]
    assert run("max") == run("max_by") == [max(prefix) for prefix in prefixes]


def test_records_of_two_types_in_one_stream():
    values = rolling(
        ReduceSpec(RollingAggregation("sum", 1)), [("a", 1), ["b", 2], ("a", 3), ["b", 4]]
    )
    assert values == [("a", 1), ["b", 2], ("a", 4), ["b", 6]]


@pytest.mark.parametrize(
    ("position", "record", "text"),
    [
        (
            3,
            ("a", 1),
            r"sum\(3\) finds no such field in a record of type tuple; its fields are 0, 1",
        ),
        ("x", ("a", 1), r"sum\('x'\) finds no such field"),
        ("x", Point("a", 1, ""), "its fields are 'key', 'value', 'note'"),
        ("x", Row(key="a", value=1), "record of type Row; its fields are 'key', 'value'"),
        (5, Row("a", 1), "record of type Row"),
        ("x", ["a", 1], "record of type list"),
        ("x", Item("a", 1, ""), "its fields are 'key', 'value', 'note'"),
        ("x", {"key": 1}, "its fields are 'key'"),
        (1, 7, "A plain value has the field 0 only"),
        (1, "text", "A plain value has the field 0 only"),
    ],
)
def test_a_field_that_is_not_there(position, record, text):
    with pytest.raises(UserFunctionError, match=text):
        rolling(
            ReduceSpec(RollingAggregation("sum", position)),
            [record, record],
            key=lambda record: "k",
        )


def test_kinds_and_positions_are_checked_early():
    with pytest.raises(ProgramError, match="choose one of sum, min, max, min_by, max_by"):
        ReduceSpec(RollingAggregation("avg", 0))
    with pytest.raises(ProgramError, match=r"takes the position .* but got float 1.5"):
        ReduceSpec(RollingAggregation("sum", 1.5))
    with pytest.raises(ProgramError, match="ReduceFunction"):
        ReduceSpec(5)


def test_the_failing_pair_is_named():
    with pytest.raises(UserFunctionError) as caught:
        rolling(ReduceSpec(lambda a, b: a[1] / b[1]), [("a", 1), ("a", 0)])
    assert caught.value.record == "('a', 0)"
    assert caught.value.cause_type == "ZeroDivisionError"


@pytest.mark.parametrize("record", [("a", 1), ["a", 1]], ids=["immutable", "mutable"])
def test_a_forgotten_return_is_told(record):
    def forgetful(so_far, value):
        (so_far, value)

    with pytest.raises(UserFunctionError, match=r"forgetful returned None .* return missing\?"):
        rolling(ReduceSpec(forgetful), [record, record])


def test_a_failure_that_is_no_mixture_is_shown_as_it_is():
    class Odd:
        def __add__(self, other):
            raise TypeError("odd values are never added")

    with pytest.raises(UserFunctionError, match="odd values are never added") as caught:
        rolling(ReduceSpec(RollingAggregation("sum", 1)), [("a", Odd()), ("a", Odd())])
    cause = caught.value.__cause__
    assert isinstance(cause, TypeError)
    assert cause.__cause__ is None
