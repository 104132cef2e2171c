"""Rows as Avro; bytes are worked out by hand from Avro's specification."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.core.errors import ProgramError
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)

at = datetime.datetime.fromisoformat


def read(schema: Any, *messages: bytes) -> list[Any]:
    """Reads each alone and all at once; both must be the same, after pickling too."""
    alone = [schema.deserialize(message) for message in messages]
    assert schema.deserialize_all(list(messages)) == alone
    assert pickle.loads(pickle.dumps(schema)).deserialize_all(list(messages)) == alone
    return alone


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [{"name": "sku", "type": "string"}],
                    },
                },
            },
            {"name": "first", "type": ["null", "Item"]},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
        ],
    }
)
ORDER = Row(
    id=7,
    note=None,
    kind="B",
    at=at("2020-01-02 03:04:05.678000"),
    day=datetime.date(2020, 1, 2),
    price=decimal.Decimal("12.30"),
    items=[Row(sku="x"), Row(sku="y")],
    first=Row(sku="x"),
    counts={"n": 1},
)


def test_avro_both_ways() -> None:
    writer = AvroRowSerializationSchema(avro_schema_string=SCHEMA)
    reader = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    (message,) = pickle.loads(pickle.dumps(writer)).serialize_all([ORDER])
    assert read(reader, message, message) == [ORDER, ORDER]
    item = Types.ROW_NAMED(["sku"], [Types.STRING()])
    assert reader.get_produced_type() == Types.ROW_NAMED(
        ["id", "note", "kind", "at", "day", "price", "items", "first", "counts"],
        [
            *(Types.LONG(), Types.STRING(), Types.STRING(), Types.SQL_TIMESTAMP()),
            *(Types.SQL_DATE(), Types.BIG_DEC(), Types.OBJECT_ARRAY(item), item),
            Types.MAP(Types.STRING(), Types.INT()),
        ],
    )


def test_avro_bytes_are_those_of_the_specification() -> None:
    """Zigzag numbers, texts behind their length: id 1 is 02, 'hi' is 04 68 69."""
    text = (
        '{"type": "record", "name": "TestRecord", "fields": ['
        '{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}'
    )
    writer = AvroRowSerializationSchema(avro_schema_string=text)
    assert writer.serialize_all([(1, "hi"), Row(-1, "")]) == [b"\x02\x04hi", b"\x01\x00"]
    reader = AvroRowDeserializationSchema(avro_schema_string=text)
    assert read(reader, b"\x02\x04hi") == [Row(id=1, name="hi")]
    with pytest.raises(EOFError):
        reader.deserialize_all([b"\x02"])
    with pytest.raises(ProgramError, match=r"field 'id': declared INT, got str 'x'"):
        writer.serialize_all([(1, "hi"), ("x", "hi")])
    assert str(AvroSchema.parse_string(' "int" ')) == '"int"'


@pytest.mark.parametrize("kind", [AvroRowSerializationSchema, AvroRowDeserializationSchema])
def test_avro_schemas_that_are_none(kind: Any) -> None:
    for given, message in (
        ({"record_class": "org.Order"}, "there are no Java classes here"),
        ({}, "needs avro_schema_string"),
        ({"avro_schema_string": '"int"'}, "must be of the type record"),
        ({"avro_schema_string": '{"type": "recrd"}'}, "no schema of Avro"),
        ({"avro_schema_string": "{"}, "no schema of Avro"),
    ):
        with pytest.raises(ProgramError, match=message):
            kind(**given)
