"""Which changes of a type are taken, which refused, and what becomes of the values."""

from __future__ import annotations

import decimal
from typing import Any

import pytest

from penstock.core.errors import StateError
from penstock.core.row import Row
from penstock.state.evolution import Verdict, checked_evolution, evolve


@pytest.mark.parametrize(
    ("kind", "before", "after", "values", "expected"),
    [
        ("value", "INT", "LONG", [1, None], [1, None]),
        ("value", "INT", "DOUBLE", [1, None], [1.0, None]),
        ("value", "FLOAT", "DOUBLE", [1.5], [1.5]),
        ("value", "LONG", "BIG_DEC", [7], [decimal.Decimal(7)]),
        ("value", "CHAR", "STRING", ["a"], ["a"]),
        ("list", "LIST(INT)", "LIST(DOUBLE)", [1, 2], [1.0, 2.0]),
        ("map", "MAP(STRING, SHORT)", "MAP(STRING, DOUBLE)", [1], [1.0]),
        ("value", "LIST(INT)", "LIST(DOUBLE)", [[1, None]], [[1.0, None]]),
        ("value", "MAP(STRING, INT)", "MAP(STRING, DOUBLE)", [{"a": 1}], [{"a": 1.0}]),
        ("value", "TUPLE(INT, STRING)", "TUPLE(DOUBLE, STRING)", [(1, "a")], [(1.0, "a")]),
        ("value", "ROW(a INT)", "ROW(a INT, b STRING)", [Row(a=1)], [Row(a=1, b=None)]),
        ("value", "ROW(a INT, b STRING)", "ROW(a INT)", [Row(a=1, b="x")], [Row(a=1)]),
        ("value", "ROW(a INT, b STRING)", "ROW(b STRING, a LONG)", [Row(a=1, b="x")],
         [Row(b="x", a=1)]),
        ("value", "ROW(a INT)", "ROW(a DOUBLE, b INT)", [(1,), {"a": 1}],
         [(1.0, None), {"a": 1.0, "b": None}]),
        ("value", "ROW(INT)", "ROW(INT, STRING)", [Row(1)], [Row(1, None)]),
        ("value", "ROW(a ROW(b INT))", "ROW(a ROW(b DOUBLE))", [Row(a=Row(b=1))],
         [Row(a=Row(b=1.0))]),
    ],
)  # fmt: skip
def test_migrations(
    kind: str, before: str, after: str, values: list[Any], expected: list[Any]
) -> None:
    evolution = evolve(kind, before, after)
    assert evolution.verdict is Verdict.MIGRATED
    assert evolution.text
    found = evolution.convert(values)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("kind", "before", "after", "text"),
    [
        ("value", "LONG", "INT", "the value cannot be turned from LONG into INT without loss"),
        ("value", "LONG", "DOUBLE", "without loss"),
        ("value", "LONG", "STRING", "without loss"),
        ("value", "STRING", "LIST(STRING)", "without loss"),
        ("list", "LIST(DOUBLE)", "LIST(INT)", "an element"),
        ("map", "MAP(INT, INT)", "MAP(LONG, INT)", "types of keys cannot change"),
        ("value", "MAP(INT, INT)", "MAP(LONG, INT)", "types of keys cannot change"),
        ("value", "TUPLE(INT)", "TUPLE(INT, INT)", "a tuple of 1 fields and would be one of 2"),
        ("value", "ROW(a INT)", "ROW(b INT)", "'a' is gone and 'b' of the same type is new"),
        ("value", "ROW(a LONG)", "ROW(a INT)", "field 'a' of the value"),
    ],
)  # fmt: skip
def test_refusals(kind: str, before: str, after: str, text: str) -> None:
    evolution = evolve(kind, before, after)
    assert evolution.verdict is Verdict.INCOMPATIBLE
    assert text in evolution.text
    with pytest.raises(StateError) as caught:
        checked_evolution(kind, before, after, None, name="total", uid="count")
    for part in ("'total'", "'count'", before, after, text, "set_migration"):
        assert part in str(caught.value)


@pytest.mark.parametrize(("before", "after"), [("LONG", "LONG"), ("", "LONG"), ("LONG", "")])
def test_undeclared_types_are_taken_as_they_are(before: str, after: str) -> None:
    evolution = evolve("value", before, after)
    assert evolution.verdict is Verdict.AS_IS
    assert evolution.convert([1]) == [1]


def test_a_function_of_the_user_replaces_the_rules() -> None:
    evolution = evolve("value", "LONG", "STRING", lambda value: f"{value:03}")
    assert evolution.verdict is Verdict.MIGRATED
    assert evolution.convert([7, None]) == ["007", None]
