"""Avro behind a schema registry, and Protocol Buffers; the registry is a double of its REST."""

from __future__ import annotations

import datetime
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from http_double import Double, Request, closed_port
from penstock.common import Row, Types
from penstock.connectors.kafka import records
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.datastream.formats.avro import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.datastream.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

N = {"name": "n", "type": "int"}
OLD = json.dumps({"type": "record", "name": "R", "fields": [N]})
NEW = json.dumps(
    {"type": "record", "name": "R", "fields": [N, {"name": "t", "type": "string", "default": "-"}]}
)


class Registry:
    """As much of Confluent's registry as clients use: ids for schemas, by subject."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {7: {"schema": OLD}}

    def __call__(self, request: Request) -> tuple[int, Any]:
        parts = request.path.strip("/").split("/")
        if request.method == "GET" and parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            missing = {"error_code": 40403, "message": "Schema not found"}
            return (200, found) if found else (404, missing)
        if request.method == "GET" and parts[0] == "subjects":
            return 200, self.schemas[int(parts[3])]
        schema = json.loads(request.body)["schema"]
        if "wrong" in parts[1]:
            return 409, {"error_code": 409, "message": "incompatible with an earlier schema"}
        known = {each["schema"]: number for number, each in self.schemas.items()}
        number = known.get(schema, max(known.values()) + 1)
        self.schemas[number] = {"schema": schema}
        return 200, {"id": number}


@pytest.fixture
def registry() -> Iterator[Double]:
    with Double(Registry()) as double:
        yield double


def reader(registry: Double, **configs: str) -> ConfluentRegistryAvroDeserializationSchema:
    made = ConfluentRegistryAvroDeserializationSchema.for_generic(
        NEW, f"http://{registry.address}", configs
    )
    assert made.get_produced_type() == Types.ROW_NAMED(["n", "t"], [Types.INT(), Types.STRING()])
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def writer(registry: Double, subject: str = "t-value") -> Any:
    made = ConfluentRegistryAvroSerializationSchema.for_generic(
        subject, NEW, f"http://{registry.address}"
    )
    return pickle.loads(pickle.dumps(made))


def test_the_wire_format_by_hand(registry: Double) -> None:
    """A zero byte, the id, and the record: 3 is 06 in Avro, a text its length and bytes."""
    old = bytes([0, 0, 0, 0, 7, 6])
    assert reader(registry).deserialize_all([old, old]) == [Row(n=3, t="-")] * 2
    assert len(registry.requests) == 1
    encoded = writer(registry).serialize_all([Row(3, "ab"), Row(4, "")])
    assert encoded == [bytes([0, 0, 0, 0, 8, 6, 4, *b"ab"]), bytes([0, 0, 0, 0, 8, 8, 0])]
    [_, posted] = registry.requests
    assert (posted.method, posted.path) == ("POST", "/subjects/t-value/versions")
    assert posted.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert reader(registry).deserialize_all([*encoded, old])[0] == Row(n=3, t="ab")


def test_schemas_that_refer_to_others(registry: Double) -> None:
    of = {"type": "record", "name": "R", "fields": [N, {"name": "t", "type": "Kind"}]}
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    known = registry.default.schemas  # type: ignore[union-attr]
    known[1] = {"schema": json.dumps(kind)}
    reference = {"name": "Kind", "subject": "kind", "version": 1}
    known[2] = {"schema": json.dumps(of), "references": [reference]}
    shown = json.dumps({**of, "fields": [N, {"name": "t", "type": kind}]})
    made = ConfluentRegistryAvroDeserializationSchema.for_generic(shown, registry.address)
    assert made.deserialize(bytes([0, 0, 0, 0, 2, 6, 2])) == Row(n=3, t="B")


def test_what_cannot_be_decoded(registry: Double) -> None:
    known = registry.default.schemas  # type: ignore[union-attr]
    known[9] = {"schema": "syntax = ...", "schemaType": "PROTOBUF"}
    for message, text in (
        (b"\x06\0\0", "begins with b'.x06.*written by AvroRowSerializationSchema"),
        (bytes([0, 0, 0, 1, 0, 6]), r"answered GET /schemas/ids/256 with 404: .*not found"),
        (bytes([0, 0, 0, 0, 9, 6]), r"schema 9 of the registry .* is PROTOBUF, not Avro"),
    ):
        with pytest.raises(InputError, match=text):
            reader(registry).deserialize(message)
    with pytest.raises(InputError, match=r"/subjects/wrong/versions with 409: .*incompatible"):
        writer(registry, "wrong").serialize(Row(3, "ab"))


def test_a_registry_that_is_away_is_not_a_message_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka's source fails with an error that a restart may heal, and sends no record aside."""
    made = ConfluentRegistryAvroDeserializationSchema.for_generic(NEW, f"127.0.0.1:{closed_port()}")
    monkeypatch.setattr("time.sleep", lambda _: None)

    class Message:
        def value(self) -> bytes:
            return bytes([0, 0, 0, 0, 7, 6])

        topic = partition = offset = key = headers = lambda self: None
        timestamp = lambda self: (0, 0)  # noqa: E731

    schema = records.ValueOnly(made)
    found = records.undecodable(schema, [Message()], ValueError())
    assert "does not answer GET /schemas/ids/7" in str(found)
    assert not isinstance(found, InputError)


def test_who_asks(registry: Double) -> None:
    message = bytes([0, 0, 0, 0, 7, 6])
    reader(registry, **{"basic.auth.user.info": "ada:s3c"}).deserialize(message)
    reader(registry, **{"bearer.auth.token": "t0k"}).deserialize(message)
    logins = [each.headers["Authorization"] for each in registry.requests]
    assert logins == ["Basic YWRhOnMzYw==", "Bearer t0k"]
    with pytest.raises(ProgramError, match=r"'ssl\.keystore' of a schema registry is not known"):
        reader(registry, **{"ssl.keystore": "x"})


# -- Protocol Buffers -----------------------------------------------------------------------------


def descriptors() -> bytes:
    """As protoc makes them of a file with the messages Order and Item."""
    kinds = descriptor_pb2.FieldDescriptorProto
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("NEW", "PAID")):
        kind.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".shop.Item")
    order.oneof_decl.add(name="_note")
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    order.field.add(
        name="note", number=2, type=kinds.TYPE_STRING, label=1, proto3_optional=True, oneof_index=0
    )
    order.field.add(name="kind", number=3, type=kinds.TYPE_ENUM, label=1, type_name=".shop.Kind")
    message, of = kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    order.field.add(name="at", number=4, type=message, label=1, type_name=of)
    order.field.add(name="items", number=5, type=message, label=3, type_name=".shop.Item")
    order.field.add(name="first", number=6, type=message, label=1, type_name=".shop.Item")
    order.field.add(
        name="counts", number=7, type=message, label=3, type_name=".shop.Order.CountsEntry"
    )
    order.field.add(name="codes", number=8, type=kinds.TYPE_INT32, label=3)
    return files.SerializeToString()


ORDER = ProtobufSchema(descriptors(), "shop.Order")
NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")
FULL = Row(
    id=5,
    note="hi",
    kind="PAID",
    at=NOON,
    items=[Row(sku="a"), Row(sku="b")],
    first=Row(sku="c"),
    counts={"k": Row(sku="d")},
    codes=[1, 2],
)
EMPTY = Row(id=0, note=None, kind="NEW", at=None, items=[], first=None, counts={}, codes=[])


def test_messages_by_hand() -> None:
    """Tags are (number << 3 | wire type): 08 is field 1 as a number, 12 field 2 with a length."""
    made = pickle.loads(pickle.dumps(ProtobufRowDeserializationSchema(ORDER)))
    assert made.deserialize(b"") == EMPTY
    assert made.deserialize(b"\x08\x05\x12\x02hi\x18\x01") == Row(
        id=5, note="hi", kind="PAID", at=None, items=[], first=None, counts={}, codes=[]
    )
    assert made.deserialize(b"\x18\x09").kind == "9"
    kind = made.get_produced_type()
    assert kind.get_field_types()[4] == Types.LIST(Types.ROW_NAMED(["sku"], [Types.STRING()]))
    with pytest.raises(Exception, match="parsing"):
        made.deserialize(b"\x12\x05h")


def test_there_and_back() -> None:
    made = pickle.loads(pickle.dumps(ProtobufRowSerializationSchema(ORDER)))
    encoded = made.serialize_all([FULL, EMPTY])
    assert encoded[1] == b""
    decoder = ProtobufRowDeserializationSchema(ORDER)
    assert decoder.deserialize_all(encoded) == [FULL, EMPTY]
    seconds = int(NOON.replace(tzinfo=datetime.UTC).timestamp())
    assert ORDER.message.FromString(encoded[0]).at.seconds == seconds
    with pytest.raises((ProgramError, JobExecutionError), match="ProtobufRowSerializationSchema"):
        made.serialize(Row("x", *[None] * 7))


def test_the_head_of_a_registry() -> None:
    """Behind the id is the place of the message in its file: 0, or how many numbers, and they."""
    made = ProtobufRowDeserializationSchema(ORDER, confluent=True)
    assert made.deserialize(b"\0\0\0\0\x07\0\x08\x05").id == 5
    assert made.deserialize(b"\0\0\0\0\x07\x04\x02\x02\x08\x05").id == 5
    with pytest.raises(InputError, match="begins with a zero byte"):
        made.deserialize(b"\x08\x05")


def test_descriptors_that_are_none() -> None:
    with pytest.raises(ProgramError, match=r"no message 'Order'; they have .*shop\.Order"):
        ProtobufSchema(descriptors(), "Order")
    with pytest.raises(ProgramError, match="no complete set of descriptors"):
        ProtobufSchema(b"\x08\x05\xff", "Order")
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
    items = files.file[1].message_type[0].field
    items.add(name="inner", number=2, type=11, label=1, type_name=".shop.Item")
    with pytest.raises(ProgramError, match=r"shop\.Item contains itself"):
        ProtobufSchema(files.SerializeToString(), "shop.Item")
