"""JSON, CSV and Avro of rows; texts and values are those of Flink's own tests, or made by hand."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
import struct
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.core.errors import ProgramError
from penstock.datastream.formats.avro import AvroRowDeserializationSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
EXACT = decimal.Decimal("1234.0000000000000000000000001")
THIRD = struct.unpack("f", struct.pack("f", 1 / 3))[0]


at = datetime.datetime.fromisoformat


def read_json(type_info: Any, *texts: str | bytes) -> list[Any]:
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [type_info]))
    return read(schema.build(), *texts)


def read(schema: Any, *texts: str | bytes) -> list[Any]:
    """Reads each alone and all at once; both must be the same, after pickling too."""
    messages = [text.encode() if isinstance(text, str) else text for text in texts]
    alone = [schema.deserialize(message) for message in messages]
    assert schema.deserialize_all(messages) == alone
    assert pickle.loads(pickle.dumps(schema)).deserialize_all(messages) == alone
    return alone


def write_json(type_info: Any, value: Any) -> str:
    builder = JsonRowSerializationSchema.builder()
    schema = builder.with_type_info(Types.ROW_NAMED(["a"], [type_info])).build()
    (text,) = pickle.loads(pickle.dumps(schema)).serialize_all([Row(value)])
    assert schema.serialize(Row(value)) == text
    return text.decode()


BOTH_WAYS = [
    (Types.STRING(), '"Ünï"', "Ünï"),
    (Types.BOOLEAN(), "true", True),
    (Types.BYTE(), "-128", -128),
    (Types.SHORT(), "32767", 32767),
    (Types.INT(), "-2147483648", -(2**31)),
    (Types.LONG(), "9223372036854775807", 2**63 - 1),
    (Types.BIG_INT(), "123400000000000000000000000000", 123400000000000000000000000000),
    (Types.BIG_DEC(), "1234.0000000000000000000000001", EXACT),
    (Types.FLOAT(), "0.33333334", THIRD),
    (Types.DOUBLE(), "0.33333333332", 0.33333333332),
    (Types.SQL_DATE(), '"1990-10-14"', datetime.date(1990, 10, 14)),
    (Types.SQL_TIME(), '"12:12:43Z"', datetime.time(12, 12, 43)),
    (Types.SQL_TIMESTAMP(), '"1990-10-14T12:12:43Z"', at("1990-10-14 12:12:43")),
    (BYTES, '"awML"', bytes([107, 3, 11])),
    (Types.OBJECT_ARRAY(Types.STRING()), '["a","b",null]', ["a", "b", None]),
    (Types.BASIC_ARRAY(Types.INT()), "[1,2]", [1, 2]),
    (Types.LIST(Types.DOUBLE()), "[1.5]", [1.5]),
    (Types.MAP(Types.STRING(), Types.LONG()), '{"x":1,"y":null}', {"x": 1, "y": None}),
    (
        Types.ROW_NAMED(["b", "c"], [Types.INT(), Types.ROW_NAMED(["d"], [Types.STRING()])]),
        '{"b":1,"c":{"d":"x"}}',
        Row(b=1, c=Row(d="x")),
    ),
]


@pytest.mark.parametrize(("type_info", "text", "value"), BOTH_WAYS, ids=repr)
def test_json_both_ways(type_info: Any, text: str, value: Any) -> None:
    assert read_json(type_info, f'{{"a":{text}}}', '{"a": null}', "{}") == [
        Row(a=value),
        Row(a=None),
        Row(a=None),
    ]
    assert write_json(type_info, value) == f'{{"a":{text}}}'
    assert write_json(type_info, None) == '{"a":null}'


@pytest.mark.parametrize(
    ("type_info", "text", "value"),
    [
        (Types.STRING(), "12", "12"),
        (Types.STRING(), "true", "true"),
        (Types.STRING(), '{"x": [1, "y"]}', '{"x":[1,"y"]}'),
        (Types.INT(), '" 12 "', 12),
        (Types.INT(), "12.9", 12),
        (Types.LONG(), "1e3", 1000),
        (Types.DOUBLE(), "1", 1.0),
        (Types.DOUBLE(), '"1.5"', 1.5),
        (Types.BOOLEAN(), '"TRUE"', True),
        (Types.BOOLEAN(), "1", False),
        (
            Types.SQL_TIMESTAMP(),
            '"1990-10-14T12:12:43.123"',
            at("1990-10-14 12:12:43.123000"),
        ),
    ],
    ids=repr,
)
def test_json_of_other_kinds_becomes_the_type(type_info: Any, text: str, value: Any) -> None:
    """As Flink's format does; plain messages of the same batch are not touched by it."""
    assert read_json(type_info, f'{{"a": {text}}}', '{"a": null}') == [Row(a=value), Row(a=None)]


@pytest.mark.parametrize(
    ("type_info", "text", "message"),
    [
        (Types.INT(), '{"a": "x"}', "field 'a': 'x' is no whole number"),
        (Types.INT(), '{"a": 3000000000}', "does not fit into 32 bits"),
        (Types.INT(), '{"a": true}', "field 'a': 'true' is no whole number"),
        (Types.DOUBLE(), '{"a": NaN}', "it is not JSON: NaN"),
        (Types.STRING(), "[1]", r"\[1\] is not an object"),
        (Types.STRING(), '{"a": "x"', "it is not JSON"),
        (Types.STRING(), b'{"a": "\xff"}', "it is not JSON"),
        (Types.SQL_TIMESTAMP(), '{"a": "1990-10-14T12:12:43+01:00"}', "is not in UTC"),
        (Types.ROW_NAMED(["b"], [Types.INT()]), '{"a": {"b": "x"}}', "field 'a': field 'b': 'x'"),
        (BYTES, '{"a": "#"}', "is not base64"),
    ],
    ids=repr,
)
def test_json_that_cannot_be_decoded(type_info: Any, text: Any, message: str) -> None:
    message_bytes = text if isinstance(text, bytes) else text.encode()
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [type_info]))
    with pytest.raises(ValueError, match=message):
        builder.build().deserialize_all([b"{}", message_bytes])
    schema = builder.ignore_parse_errors().build()
    wrong = schema.deserialize(message_bytes)
    # What is an object becomes a row with None in it; what is none is left out.
    assert wrong is None or wrong["a"] in (None, Row(b=None))
    assert schema.deserialize_all([b"{}", message_bytes]) == [Row(a=None), wrong]


def test_json_without_a_field() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    builder = JsonRowDeserializationSchema.builder().type_info(type_info)
    assert read(builder.build(), '{"b": "x", "more": 1}') == [Row(a=None, b="x")]
    schema = builder.fail_on_missing_field().build()
    assert read(schema, '{"a": null, "b": "x"}') == [Row(a=None, b="x")]
    with pytest.raises(ValueError, match="it has no field 'a'"):
        schema.deserialize_all([b'{"b": "x"}'])
    with pytest.raises(ProgramError, match="either fail_on_missing_field"):
        builder.ignore_parse_errors().build()


def test_json_null_is_no_row() -> None:
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW([Types.INT()])).build()
    assert schema.deserialize_all([b"null", b'{"f0": 1}']) == [None, Row(f0=1)]


def test_json_names_that_are_no_names_of_python() -> None:
    type_info = Types.ROW_NAMED(["a-b", "class", "s"], [Types.INT()] * 3)
    schema = JsonRowDeserializationSchema.builder().type_info(type_info).build()
    value = Row("a-b", "class", "s")(1, 2, 3)
    text = json.dumps({"a-b": 1, "class": 2, "s": 3}, separators=(",", ":"))
    assert read(schema, text) == [value]
    writer = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
    assert writer.serialize(value) == text.encode()
    with pytest.raises(ProgramError, match="a field that it cannot name"):
        JsonRowDeserializationSchema.builder().type_info(
            Types.ROW_NAMED(['a"'], [Types.INT()])
        ).build()


def test_json_schema() -> None:
    text = json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "at": {"type": "string", "format": "date-time"},
                "count": {"type": "integer"},
                "price": {"type": ["number", "null"]},
                "tags": {
                    "type": "array",
                    "items": {"oneOf": [{"type": "null"}, {"type": "string"}]},
                },
            },
        }
    )
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    names = ["name", "at", "count", "price", "tags"]
    types = [Types.STRING(), Types.SQL_TIMESTAMP(), Types.BIG_INT(), Types.BIG_DEC()]
    tags = Types.OBJECT_ARRAY(Types.STRING())
    assert schema.get_produced_type() == Types.ROW_NAMED(names, [*types, tags])
    with pytest.raises(ProgramError, match="part at <root>/name that gives no type"):
        JsonRowDeserializationSchema.builder().json_schema(
            '{"type": "object", "properties": {"name": {}}}'
        )


def test_json_of_what_is_no_such_row() -> None:
    schema = JsonRowSerializationSchema.builder()
    schema = schema.with_type_info(Types.ROW_NAMED(["a"], [Types.INT()])).build()
    assert schema.serialize_all([(1,), {"a": 2}, Row(a=3)]) == [b'{"a":1}', b'{"a":2}', b'{"a":3}']
    for wrong in ("text", Row("x"), (1, 2), None):
        with pytest.raises(ProgramError, match=r"cannot write a record: .*Declare the type"):
            schema.serialize_all([Row(a=1), wrong])


def test_json_numbers_that_json_has_not() -> None:
    """Jackson writes them as text."""
    assert write_json(Types.DOUBLE(), float("nan")) == '{"a":"NaN"}'
    assert write_json(Types.FLOAT(), float("-inf")) == '{"a":"-Infinity"}'


def csv_of(type_info: Any, **setters: Any) -> tuple[Any, Any]:
    row = Types.ROW([Types.STRING(), type_info, Types.STRING()])
    writer, reader = (
        CsvRowSerializationSchema.Builder(row),
        CsvRowDeserializationSchema.Builder(row),
    )
    for name, value in setters.items():
        getattr(writer, name)(value)
        getattr(reader, name)(value)
    return writer.build(), reader.build()


@pytest.mark.parametrize(
    ("type_info", "text", "value"),
    [
        (Types.STRING(), "null", None),
        (Types.STRING(), '"This is a test."', "This is a test."),
        (Types.STRING(), '"This is a test\n\r."', "This is a test\n\r."),
        (Types.STRING(), "Ünï", "Ünï"),
        (Types.BOOLEAN(), "true", True),
        (Types.BOOLEAN(), "null", None),
        (Types.BYTE(), "124", 124),
        (Types.SHORT(), "10000", 10000),
        (Types.INT(), "1234567", 1234567),
        (Types.LONG(), "12345678910", 12345678910),
        (Types.FLOAT(), "0.33333334", THIRD),
        (Types.DOUBLE(), "0.33333333332", 0.33333333332),
        (
            Types.BIG_DEC(),
            '"1234.0000000000000000000000001"',
            EXACT,
        ),
        (Types.BIG_INT(), '"123400000000000000000000000000"', 123400000000000000000000000000),
        (Types.SQL_DATE(), "2018-10-12", datetime.date(2018, 10, 12)),
        (Types.SQL_TIME(), "12:12:12", datetime.time(12, 12, 12)),
        (
            Types.SQL_TIMESTAMP(),
            '"2018-10-12 12:12:12.0"',
            at("2018-10-12 12:12:12"),
        ),
        (
            Types.ROW([Types.STRING(), Types.INT(), Types.BOOLEAN()]),
            "Hello;42;false",
            Row(f0="Hello", f1=42, f2=False),
        ),
        (Types.OBJECT_ARRAY(Types.STRING()), "a;b;c", ["a", "b", "c"]),
        (Types.OBJECT_ARRAY(Types.BYTE()), "12;4;null", [12, 4, None]),
        (BYTES, "awML", bytes([107, 3, 11])),
    ],
    ids=repr,
)
def test_csv_both_ways(type_info: Any, text: str, value: Any) -> None:
    """The texts are those of CsvRowDeSerializationSchemaTest."""
    writer, reader = csv_of(type_info, set_null_literal="null")
    line = f"BEGIN,{text},END\n".encode()
    assert pickle.loads(pickle.dumps(writer)).serialize(Row("BEGIN", value, "END")) == line
    expected = Row(f0="BEGIN", f1=value, f2="END")
    assert read(reader, line, line.removesuffix(b"\n")) == [expected, expected]


@pytest.mark.parametrize(
    ("type_info", "text", "value", "also_written"),
    [
        (Types.STRING(), "123*'4**", "123'4*", "'123''4**'"),
        (Types.STRING(), "'a;b*'c'", "a;b'c", "'a;b''c'"),
        (Types.INT(), "       12          ", 12, "12"),
        (
            Types.ROW([Types.STRING(), Types.STRING()]),
            "1:hello",
            Row(f0="1", f1="hello"),
            "'1:hello'",
        ),
        (Types.STRING(), "null", "null", "null"),
    ],
    ids=repr,
)
def test_csv_with_other_characters(
    type_info: Any, text: str, value: Any, also_written: str
) -> None:
    writer, reader = csv_of(
        type_info,
        set_escape_character="*",
        set_quote_character="'",
        set_array_element_delimiter=":",
        set_field_delimiter=";",
    )
    assert writer.serialize(Row("BEGIN", value, "END")).decode() == f"BEGIN;{also_written};END\n"
    lines = [f"BEGIN;{each};END\n" for each in (text, also_written)]
    assert read(reader, *lines) == [Row(f0="BEGIN", f1=value, f2="END")] * 2


def test_csv_that_cannot_be_decoded() -> None:
    strict = csv_of(Types.INT())[1]
    for text, message in (
        ("Test,null,Test", "field 'f1': 'null' is no whole number"),
        ("Test", "it has 1 fields instead of 3"),
        ("Test,12,Test,Test", "it has 4 fields instead of 3"),
        ('"Test,12,Test', "unexpected end"),
        ("a,1,b\nc,2,d", "new-line character"),
        ("a,3000000000,b", "does not fit into 32 bits"),
    ):
        with pytest.raises(Exception, match=message):
            strict.deserialize_all([b"a,1,b", text.encode()])
    row = Types.ROW([Types.STRING(), Types.INT(), Types.STRING()])
    builder = CsvRowDeserializationSchema.Builder(row).set_ignore_parse_errors(True)
    assert read(builder.build(), "Test,null,Test", "Test", "Test,12,Test,Test", "#Test,12,x") == [
        Row(f0="Test", f1=None, f2="Test"),
        Row(f0="Test", f1=None, f2=None),
        None,
        Row(f0="#Test", f1=12, f2="x"),
    ]
    assert read(builder.set_allow_comments(True).build(), "#Test,12,Test", "x,1,") == [
        None,
        Row(f0="x", f1=1, f2=""),
    ]


def test_csv_ends_of_lines_and_quotes() -> None:
    row = Types.ROW([Types.STRING(), Types.INT(), Types.STRING()])
    builder = CsvRowSerializationSchema.Builder(row).set_line_delimiter("\r")
    assert builder.build().serialize(Row("Test", 12, "Hello")) == b"Test,12,Hello\r"
    time = Row("Test", 12, "2019-12-26 12:12:12")
    builder.set_quote_character("#")
    assert builder.build().serialize(time) == b"Test,12,#2019-12-26 12:12:12#\r"
    builder.disable_quote_character()
    assert builder.build().serialize(time) == b"Test,12,2019-12-26 12:12:12\r"
    assert builder.set_line_delimiter("").build().serialize(time).endswith(b"12:12:12")
    for wrong in ("||", "", "\n"):
        with pytest.raises(ProgramError, match="takes one character"):
            builder.set_field_delimiter(wrong)


def test_csv_of_types_that_it_has_no_place_for() -> None:
    nested = Types.ROW([Types.ROW([Types.ROW([Types.STRING()])])])
    for kind in (CsvRowSerializationSchema, CsvRowDeserializationSchema):
        with pytest.raises(ProgramError, match="CSV has no place for"):
            kind.Builder(nested).build()
        with pytest.raises(ProgramError, match="the CSV format has no text for"):
            kind.Builder(Types.ROW([Types.MAP(Types.STRING(), Types.INT())])).build()
        with pytest.raises(ProgramError, match="it makes rows"):
            kind.Builder(Types.STRING())


def test_names_of_flink_1() -> None:
    from penstock.common import serialization

    for name in ("JsonRowSerializationSchema", "JsonRowDeserializationSchema"):
        assert getattr(serialization, name) is globals()[name]
    assert serialization.CsvRowSerializationSchema is CsvRowSerializationSchema
    assert serialization.AvroRowDeserializationSchema is AvroRowDeserializationSchema
