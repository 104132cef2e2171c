"""What a declared type makes of records, and what it says about wrong ones."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import pickle
from typing import Any

import pytest

from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.row import Row, RowKind
from penstock.core.times import Instant
from penstock.core.types import RowTypeInfo, TypeInformation, Types

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Named({self.name!r})"


@dataclasses.dataclass(slots=True)
class Person:
    name: Any
    age: Any


GOOD = [
    (Types.STRING(), "x"),
    (Types.CHAR(), "x"),
    (Types.BOOLEAN(), True),
    (Types.BYTE(), 1),
    (Types.SHORT(), 1),
    (Types.INT(), 2**31 - 1),
    (Types.SHORT(), -(2**15)),
    (Types.LONG(), 2**40),
    (Types.LONG(), 1),
    (Types.BIG_INT(), 2**100),
    (Types.FLOAT(), 1.5),
    (Types.DOUBLE(), 1),
    (Types.BIG_DEC(), decimal.Decimal(1)),
    (Types.INSTANT(), Instant(1, 2)),
    (Types.SQL_DATE(), datetime.date(2024, 1, 2)),
    (Types.SQL_TIME(), datetime.time(1, 2)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 1, 2, tzinfo=None)),  # noqa: DTZ001
    (Types.PICKLED_BYTE_ARRAY(), {1, 2}),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2]),
    (Types.BASIC_ARRAY(Types.STRING()), ["a"]),
    (Types.OBJECT_ARRAY(Types.STRING()), ("a",)),
    (Types.LIST(Types.INT()), []),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
    (Types.TUPLE([Types.INT()]), (1,)),
    (Types.ROW([Types.INT()]), Row(1)),
    (PERSON, {"name": "a", "age": 1}),
    (PERSON, Row(age=1, name="a")),
    (PERSON, Person("a", 1)),
]

WRONG = [
    (Types.INT(), "5", "declared INT, got str '5'"),
    (Types.INT(), 5.0, "declared INT, got float 5.0"),
    (Types.BYTE(), 128, "declared BYTE, got int 128, which does not fit into 8 bits"),
    (Types.SHORT(), -(2**15) - 1, "which does not fit into 16 bits"),
    (Types.INT(), 2**31, "which does not fit into 32 bits"),
    (Types.LIST(Types.INT()), [2**31], "which does not fit into 32 bits"),
    (PERSON, Row(age="b", name="a"), "field 'age': declared INT, got str 'b'"),
    (PERSON, {"age": "b", "name": "a"}, "field 'age': declared INT, got str 'b'"),
    (PERSON, Person("a", "b"), "field 'age': declared INT, got str 'b'"),
    (PERSON, Named("a"), "which lacks age"),
    (Types.STRING(), 5, "declared STRING, got int 5"),
    (Types.CHAR(), "ab", "declared CHAR, got str 'ab', which is not one character"),
    (Types.BOOLEAN(), 1, "declared BOOLEAN, got int 1"),
    (Types.DOUBLE(), "1", "declared DOUBLE, got str '1'"),
    (Types.SQL_DATE(), "2024-01-01", "declared SQL_DATE, got str '2024-01-01'"),
    (Types.LIST(Types.INT()), "ab", "declared LIST(INT), got str 'ab'"),
    (Types.LIST(Types.INT()), ["a"], "declared INT, got str 'a'"),
    (Types.MAP(Types.STRING(), Types.INT()), {1: 1}, "declared STRING, got int 1"),
    (Types.TUPLE([Types.INT()]), (1, 2), "declared TUPLE([INT]), got tuple (1, 2), which has 2"),
    (PERSON, ("a",), "declared ROW(name STRING, age INT), got tuple ('a',), which has 1 fields"),
    (PERSON, ("a", "b"), "field 'age': declared INT, got str 'b'"),
    (PERSON, 5, "declared ROW(name STRING, age INT), got int 5"),
    (PERSON, {"name": "a"}, "which lacks age"),
    (PERSON, Row(name="a", years=1), "which lacks age"),
]


@pytest.mark.parametrize(("type_info", "value"), GOOD, ids=lambda each: repr(each)[:30])
def test_right_records(type_info: TypeInformation, value: Any) -> None:
    assert type_info.mismatch(value) is None
    assert type_info.mismatch(None) is None
    assert type_info == pickle.loads(pickle.dumps(type_info))
    assert hash(type_info) == hash(pickle.loads(pickle.dumps(type_info)))


@pytest.mark.parametrize(("type_info", "value", "said"), WRONG, ids=lambda each: repr(each)[:30])
def test_wrong_records(type_info: TypeInformation, value: Any, said: str) -> None:
    assert said in str(type_info.mismatch(value))


def converted(type_info: TypeInformation, value: Any) -> Any:
    return type_info.convert_all([value])[0]


@pytest.mark.parametrize(
    "value",
    [
        ("Alice", 11),
        ["Alice", 11],
        Row("Alice", 11),
        Row(name="Alice", age=11),
        Row(age=11, name="Alice"),
        Row(f0="Alice", f1=11),
        {"age": 11, "name": "Alice"},
        Person("Alice", 11),
    ],
)
def test_rows_are_made_with_names(value: Any) -> None:
    row = converted(PERSON, value)
    assert (row.name, row.age, row[0]) == ("Alice", 11, "Alice")


def test_a_float_has_32_bits_and_a_double_64() -> None:
    # 1.1 as a float: 0x3F8CCCCD = 1.10000002384185791015625.
    single = 1.10000002384185791015625
    assert Types.FLOAT().convert_all([1.1, 0.5]) == [single, 0.5]
    assert Types.FLOAT().convert_all([1.1, 2, None]) == [single, 2.0, None]
    assert converted(Types.LIST(Types.FLOAT()), [1.1]) == [single]
    assert converted(Types.FLOAT(), 1e300) == math.inf
    assert converted(Types.DOUBLE(), 1.1) == 1.1


@pytest.mark.parametrize(
    ("type_info", "last"),
    [(Types.BYTE(), 127), (Types.SHORT(), 2**15 - 1), (Types.INT(), 2**31 - 1)],
)
def test_every_number_of_a_batch_must_fit(type_info: TypeInformation, last: int) -> None:
    fitting = [0, None, last, -last - 1, True]
    assert type_info.convert_all(fitting) is fitting
    with pytest.raises(OverflowError):
        type_info.convert_all([0, last + 1])


ADOPTED = [
    # What PyFlink 2.3 makes of the same in from_collection().
    (Types.BYTE(), [1, 200, 300, -129], [1, -56, 44, 127]),
    (Types.SHORT(), [1, 40_000, 70_000], [1, -25_536, 4_464]),
    (Types.INT(), [1, 2**31, 2**32 + 5], [1, -(2**31), 5]),
    (Types.STRING(), [1, 2.5, "a", None], ["1", "2.5", "a", None]),
    (Types.MAP(Types.STRING(), Types.STRING()), [{1: 2}], [{"1": "2"}]),
    (PERSON, [(1, 2), Row(age=2, name=1)], [Row(name="1", age=2)] * 2),
    (PERSON, [{"age": 2, "name": 1}, Person(1, 2)], [Row(name="1", age=2)] * 2),
    # By the same rules.
    (Types.LONG(), [2**63], [-(2**63)]),
    (Types.STRING(), [True], ["true"]),
    (Types.LIST(Types.BYTE()), [[200]], [[-56]]),
    (Types.TUPLE([Types.STRING()]), [(1,)], [("1",)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab"], [b"ab"]),
]


@pytest.mark.parametrize(("type_info", "records", "expected"), ADOPTED, ids=lambda v: repr(v)[:30])
def test_what_a_program_writes_down_is_taken_as_flink_does(
    type_info: TypeInformation, records: list[Any], expected: list[Any]
) -> None:
    adopted = [type_info.adopted(record) for record in records]
    assert [type_info.mismatch(record) for record in adopted] == [None] * len(records)
    assert type_info.convert_all(adopted) == expected


@pytest.mark.parametrize(
    ("type_info", "value"),
    [(Types.INT(), 1.9), (Types.INT(), "3"), (Types.STRING(), b"a"), (Types.BOOLEAN(), 1)],
)
def test_what_flink_does_not_take_is_refused(type_info: TypeInformation, value: Any) -> None:
    assert type_info.mismatch(type_info.adopted(value)) is not None


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        # As `str()` of the same in PyFlink 2.3.
        (Types.STRING(), "String"),
        (Types.INT(), "Integer"),
        (Types.BIG_DEC(), "BigDecimal"),
        (Types.INSTANT(), "Instant"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(Types.STRING()), "ObjectArrayTypeInfo<String>"),
        (Types.MAP(Types.STRING(), Types.INT()), "MapTypeInfo<String, Integer>"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), "TupleTypeInfo(Integer, String)"),
        (Types.ROW([Types.INT()]), "RowTypeInfo(Integer)"),
        (
            Types.ROW([Types.ROW_NAMED(["x"], [Types.LIST(Types.LONG())])]),
            "RowTypeInfo(RowTypeInfo(x: ListTypeInfo<Long>))",
        ),
    ],
)
def test_the_text_of_a_type_is_pyflinks(type_info: TypeInformation, text: str) -> None:
    assert str(type_info) == text


def test_rows_without_names_get_numbered_ones() -> None:
    assert converted(Types.ROW([Types.STRING()]), ("a",)) == Row(f0="a")
    assert Types.ROW([Types.STRING()]).get_field_names() == ["f0"]


def test_row_kind_survives_conversion() -> None:
    row = converted(PERSON, Row.of_kind(RowKind.DELETE, "a", 1))
    assert row.get_row_kind() is RowKind.DELETE


def test_nested_types_convert() -> None:
    outer = Types.ROW_NAMED(
        ["people", "by", "pair"],
        [Types.LIST(PERSON), Types.MAP(Types.STRING(), PERSON), Types.TUPLE([Types.DOUBLE()])],
    )
    row = converted(outer, ([("a", 1)], {"k": ("b", 2)}, [3]))
    assert row.people[0].name == "a"
    assert row.by["k"].age == 2
    assert row.pair == (3.0,)
    assert type(row.pair[0]) is float


def test_floats_are_made_of_whole_numbers() -> None:
    assert [type(v) for v in Types.DOUBLE().convert_all([1, 2.5, None])] == [
        float,
        float,
        type(None),
    ]


@pytest.mark.parametrize(
    ("type_info", "values"),
    [
        (Types.DOUBLE(), [1.0, 2.0]),
        (Types.INT(), [1]),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a")]),
        (PERSON, [Row(name="a", age=1), Row(name="b", age=2)]),
        (Types.PICKLED_BYTE_ARRAY(), [object()]),
    ],
)
def test_batches_that_are_right_are_not_copied(type_info: TypeInformation, values: list) -> None:
    assert type_info.convert_all(values) is values


def test_every_record_has_the_right_number_of_fields() -> None:
    with pytest.raises(ProgramError, match=r"got tuple \('b',\), which has 1 fields"):
        PERSON.convert_all([("a", 1), ("b",)])


def test_lists_of_types_stand_for_rows() -> None:
    assert Types.ROW([[Types.INT()]]) == Types.ROW([Types.ROW([Types.INT()])])  # type: ignore[list-item]


def test_missing_brackets_are_noticed() -> None:
    with pytest.raises(ProgramError, match=r"write Types.INT\(\)"):
        Types.ROW([Types.INT])  # type: ignore[list-item]


def test_names_must_fit() -> None:
    with pytest.raises(ProgramError, match="each field needs one name of its own"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])
    with pytest.raises(ProgramError, match="each field needs one name of its own"):
        Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])


def test_java_types_are_not_there() -> None:
    with pytest.raises(UnsupportedError, match="needs Flink's JVM"):
        Types.INT().get_java_type_info()


def test_fields_of_a_row_type() -> None:
    assert isinstance(PERSON, RowTypeInfo)
    assert PERSON.get_field_index("age") == 1
    assert PERSON.get_field_index("height") == -1
    assert PERSON.get_field_types() == [Types.STRING(), Types.INT()]
    assert Types.ROW([Types.STRING(), Types.INT()]) != PERSON
