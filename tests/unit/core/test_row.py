"""Rows against dicts and tuples, which are the independent model."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError
from penstock.core.keygroups import canonical_bytes
from penstock.core.row import Row, RowKind

names = st.text("abcdef", min_size=1, max_size=3)
values = st.one_of(st.integers(), st.text(max_size=3), st.booleans())
fields = st.dictionaries(names, values, max_size=4)


@given(fields, fields)
def test_named_rows_are_equal_when_their_dicts_are(first: dict, second: dict) -> None:
    one, other = Row(**first), Row(**second)
    if not first or not second:
        return
    assert (one == other) == (first == second)
    if first == second:
        assert hash(one) == hash(other)
        assert canonical_bytes(one) == canonical_bytes(other)


@given(st.lists(values), st.lists(values))
def test_rows_by_position_are_equal_when_their_lists_are(first: list, second: list) -> None:
    assert (Row(*first) == Row(*second)) == (first == second)
    assert list(Row(*first)) == first
    assert len(Row(*first)) == len(first)


@given(fields, st.sampled_from(RowKind))
def test_pickle_and_copy_keep_everything(given_fields: dict, kind: RowKind) -> None:
    for row in (Row.of_kind(kind, **given_fields), Row.of_kind(kind, *given_fields.values())):
        for twin in (pickle.loads(pickle.dumps(row, 5)), copy.deepcopy(row), copy.copy(row)):
            assert twin == row
            assert repr(twin) == repr(row)
            assert twin.get_row_kind() is kind


def test_order_of_names_does_not_matter_for_equality() -> None:
    assert Row(a=1, b="x") == Row(b="x", a=1)
    assert hash(Row(a=1, b="x")) == hash(Row(b="x", a=1))
    assert Row(a=1, b=2) != Row(1, 2)
    assert Row(1, 2) != (1, 2)


def test_kind_is_part_of_equality() -> None:
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    with pytest.raises(ProgramError, match="a row kind is a RowKind"):
        Row(1).set_row_kind("+I")  # type: ignore[arg-type]


def test_fields_by_name_position_and_attribute() -> None:
    row = Row(name="Alice", age=11)
    assert (row.name, row["name"], row[0], row[-1], row[0:2]) == (
        "Alice",
        "Alice",
        "Alice",
        11,
        ["Alice", 11],
    )
    row["age"] = 12
    row[0] = "Bob"
    assert row.as_dict() == {"name": "Bob", "age": 12}
    assert "name" in row
    assert "Bob" not in row
    assert "Bob" in Row("Bob")


def test_unknown_field_names_those_that_exist() -> None:
    row = Row(name="Alice")
    with pytest.raises(AttributeError, match="'nam': the row has the fields name"):
        _ = row.nam
    with pytest.raises(KeyError, match="'nam': the row has the fields name"):
        _ = row["nam"]
    with pytest.raises(KeyError, match="the row has no names"):
        _ = Row(1)["a"]
    with pytest.raises(AttributeError):
        row.age = 3  # type: ignore[attr-defined]


def test_as_dict_goes_into_rows_lists_and_dicts() -> None:
    row = Row(key=1, value=Row(a=[Row(b=2)], c={"d": Row(e=3)}))
    assert row.as_dict(True) == {"key": 1, "value": {"a": [{"b": 2}], "c": {"d": {"e": 3}}}}
    assert row.as_dict()["value"] == row.value
    with pytest.raises(ProgramError, match="has no field names"):
        Row(1).as_dict()


def test_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Alice", 11) == Row(name="Alice", age=11)
    with pytest.raises(ProgramError, match="names 2 fields, but got 3"):
        person(1, 2, 3)


def test_names_must_fit() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    with pytest.raises(ProgramError, match=r"1 names .* 2 fields"):
        row.set_field_names(["a"])
    with pytest.raises(ProgramError, match="by position and 1 by name"):
        Row(1, a=2)


def test_repr() -> None:
    assert repr(Row(a=1, b="x")) == "Row(a=1, b='x')"
    assert repr(Row(1, "x")) == "<Row(1, 'x')>"


def test_names_are_pickled_once_for_many_rows() -> None:
    shared = ("a_rather_long_name", "another_rather_long_name")
    one = len(pickle.dumps([Row.of_names(shared, (1, 2))], 5))
    hundred = len(pickle.dumps([Row.of_names(shared, (1, 2)) for _ in range(100)], 5))
    assert (hundred - one) / 99 < 25
