"""Values of declared types become data and come back equal and of the same type."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import StateError
from penstock.core.row import Row, RowKind
from penstock.core.times import Instant
from penstock.core.types import TypeInformation, Types
from penstock.state.plain_serializer import decode_body, encode_body
from penstock.state.schema import is_data, parse_schema, schema_text
from penstock.state.serializers import MismatchError, serializer_of, table_serializer

DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)  # noqa: DTZ001 - as Flink's, without zone
BERLIN = datetime.timezone(datetime.timedelta(hours=1))
PERSON = Types.ROW_NAMED(["name", "days"], [Types.STRING(), Types.LIST(Types.SQL_DATE())])

VALUES: dict[str, tuple[TypeInformation, list[Any]]] = {
    "long": (Types.LONG(), [1, None, -(2**63), 2**70, True]),
    "double": (Types.DOUBLE(), [1.5, None, float("inf"), -0.0]),
    "string": (Types.STRING(), ["a", "", None, "lone \udcff"]),
    "boolean": (Types.BOOLEAN(), [True, False, None]),
    "big decimal": (Types.BIG_DEC(), [decimal.Decimal("1.50"), None]),
    "instant": (Types.INSTANT(), [Instant(1, 2), MOMENT, MOMENT.replace(tzinfo=BERLIN)]),
    "date": (Types.SQL_DATE(), [DAY, None]),
    "time": (Types.SQL_TIME(), [datetime.time(23, 59, 59, 7)]),
    "timestamp": (Types.SQL_TIMESTAMP(), [MOMENT, None]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\x00\xff", None]),
    "list": (Types.LIST(Types.LONG()), [[1, 2], [], None, [None]]),
    "list of dates": (Types.LIST(Types.SQL_DATE()), [[DAY], [], None, [DAY, None]]),
    "map": (Types.MAP(Types.LONG(), Types.LIST(Types.STRING())), [{1: ["a"]}, {}, None]),
    "tuple": (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), None, (2, None)]),
    "tuples only": (Types.TUPLE([Types.LONG()]), [(1,), (2,)]),
    "no fields": (Types.TUPLE([]), [(), ()]),
    "other than tuples": (Types.TUPLE([Types.LONG()]), [[1], Row(1), (2,)]),
    "rows": (PERSON, [Row(name="a", days=[DAY]), Row(name=None, days=None)]),
    "other than rows": (
        PERSON,
        [
            Row(name="a", days=[DAY]),
            None,
            ("a", [DAY]),
            ["a", []],
            Row("a", [DAY]),
            {"name": "a", "days": [DAY]},
            Row.of_kind(RowKind.DELETE, name="a", days=[]),
        ],
    ),
    "rows without names": (Types.ROW([Types.LONG()]), [Row(1), Row(f0=1)]),
    "deep": (Types.LIST(Types.TUPLE([Types.LONG(), PERSON])), [[(1, Row(name="b", days=[DAY]))]]),
}


def same_types(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, list | tuple | Row):
        for one, other in zip(found, expected, strict=True):
            same_types(one, other)


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name: str) -> None:
    declared, values = VALUES[name]
    serializer = serializer_of(schema_text(declared))
    data = encode_body(serializer.to_wire(values), "values")
    assert b"\x80\x05\x95" not in data
    found = serializer.from_wire(decode_body(data))
    assert found == values
    same_types(found, values)
    assert [row._fields for row in found if type(row) is Row] == [
        row._fields for row in values if type(row) is Row
    ]


def test_what_msgpack_writes_itself_is_handed_on_untouched() -> None:
    """No copy and no loop: this is what keeps declared state as cheap as pickled state."""
    for declared, values in (
        (Types.LONG(), [1, 2]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (2, "b")]),
        (Types.LIST(Types.STRING()), [["a"], []]),
    ):
        assert serializer_of(schema_text(declared)).to_wire(values) is values


def test_numbers_become_what_is_declared() -> None:
    (found,) = serializer_of("DOUBLE").to_wire([3])
    assert (found, type(found)) == (3.0, float)


@pytest.mark.parametrize(
    ("declared", "value", "text"),
    [
        (Types.LONG(), "a", "declared LONG, got str 'a'"),
        (Types.LONG(), 1.5, "declared LONG, got float 1.5"),
        (Types.LIST(Types.LONG()), [1, "a"], "declared LONG, got str 'a'"),
        (Types.LIST(Types.LONG()), 5, "got int 5"),
        (Types.TUPLE([Types.LONG()]), (1, 2), "which has 2 fields"),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, 2), "declared STRING, got int 2"),
        (PERSON, Row(name="a"), "lacks days"),
        (PERSON, {"name": "a"}, "lacks days"),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}, "declared LONG, got str 'b'"),
        (Types.SQL_DATE(), "2024-01-01", "declared SQL_DATE, got str"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "a", "got str 'a'"),
    ],
)
def test_values_of_another_type_are_refused(
    declared: TypeInformation, value: Any, text: str
) -> None:
    with pytest.raises(MismatchError) as caught:
        serializer_of(schema_text(declared)).to_wire([value])
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "LONG",
        "LIST(MAP(STRING, DOUBLE))",
        "TUPLE(LONG, STRING)",
        "TUPLE()",
        "ROW(LONG, TUPLE(STRING))",
        "ROW(name STRING, `odd name` LIST(LONG), LIST LONG, `x``y` INT, `PICKLED` LONG)",
        "PRIMITIVE_ARRAY(BYTE)",
        "SQL_TIMESTAMP",
        "PICKLED",
    ],
)
def test_texts_of_types_are_read_back(text: str) -> None:
    assert schema_text(parse_schema(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "LANG", "LIST(", "LIST()", "LIST(LONG))", "MAP(LONG)", "ROW(a LONG b)", "LONG LONG", "((",
     "ROW(a LONG, LONG)", "LIST(" * 80 + "LONG" + ")" * 80],
)  # fmt: skip
def test_unknown_types_are_refused(text: str) -> None:
    with pytest.raises(StateError, match="does not know"):
        parse_schema(text)


def test_a_pickled_part_makes_the_whole_pickled() -> None:
    inner = Types.PICKLED_BYTE_ARRAY()
    assert not is_data(schema_text(Types.LIST(inner)))
    assert not is_data("")
    assert is_data(schema_text(Types.ROW_NAMED(["PICKLED"], [Types.LONG()])))
    assert table_serializer("value", schema_text(inner)) is None


@given(st.lists(st.none() | st.integers() | st.booleans()))
def test_any_integers(values: list[Any]) -> None:
    serializer = serializer_of("BIG_INT")
    assert serializer.from_wire(decode_body(encode_body(serializer.to_wire(values), "x"))) == values


@given(st.binary(max_size=60))
def test_damaged_bytes_are_an_error_of_ours(data: bytes) -> None:
    with contextlib.suppress(StateError):
        decode_body(data)
