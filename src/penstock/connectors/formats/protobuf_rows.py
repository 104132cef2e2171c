"""Rows as messages of Protocol Buffers, by a descriptor: no code is generated."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.formats.fields import Convert, RowSerializationSchema, inside, zigzag
from penstock.connectors.serialization import DeserializationSchema
from penstock.core.errors import InputError, ProgramError, module_of_extra
from penstock.core.row import Row
from penstock.core.types import Types

if TYPE_CHECKING:
    from penstock.core.basic_types import TypeInformation
    from penstock.core.composite_types import RowTypeInfo

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_SCALARS: Final[dict[str, Callable[[], TypeInformation]]] = {
    **dict.fromkeys(("INT32", "SINT32", "SFIXED32"), Types.INT),
    **dict.fromkeys(("INT64", "SINT64", "SFIXED64", "UINT32", "FIXED32"), Types.LONG),
    **dict.fromkeys(("UINT64", "FIXED64"), Types.BIG_INT),
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "BOOL": Types.BOOLEAN,
    "STRING": Types.STRING,
    "ENUM": Types.STRING,
    "BYTES": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def _library(name: str) -> Any:
    of = "Protocol Buffers need", "protobuf", "protobuf"
    return module_of_extra(f"google.protobuf.{name}", *of)


class ProtobufSchema:
    """A message type; made by `parse_file` or `parse`.

    Args:
        descriptors: A `FileDescriptorSet`, as `protoc --include_imports --descriptor_set_out=FILE`
            writes it.
        message_name: The full name of the message, with its package.

    Attributes:
        message: The class of its messages.
    """

    def __init__(self, descriptors: bytes, message_name: str) -> None:
        self._given = descriptors, message_name
        pool = _library("descriptor_pool").DescriptorPool()
        _library("timestamp_pb2")
        try:
            files = _library("descriptor_pb2").FileDescriptorSet.FromString(descriptors).file
            for file in files:
                pool.Add(file)
        except (_library("message").DecodeError, TypeError) as error:
            raise ProgramError(
                f"this is no complete set of descriptors: {error!r:.200}. Make one with protoc "
                "--include_imports --descriptor_set_out=FILE."
            ) from None
        try:
            found = pool.FindMessageTypeByName(message_name)
        except KeyError:
            known = [f"{file.package}.{each.name}" for file in files for each in file.message_type]
            raise ProgramError(
                f"the descriptors have no message {message_name!r}; they have "
                f"{', '.join(name.lstrip('.') for name in known)}."
            ) from None
        self.message: Any = _library("message_factory").GetMessageClass(found)
        self.type_info = _type_of(found)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufSchema, self._given

    @staticmethod
    def parse_file(file_path: str, message_name: str) -> ProtobufSchema:
        """Returns the message type that a file of descriptors describes."""
        return ProtobufSchema(Path(file_path).read_bytes(), message_name)


def _kind(field: Any) -> str:
    """Returns the name of the type of a field, without `TYPE_`."""
    kinds = _library("descriptor_pb2").FieldDescriptorProto.Type
    return str(kinds.Name(field.type)).removeprefix("TYPE_")


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if repeated is None else bool(repeated)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _type_of(message: Any, *around: str) -> RowTypeInfo:
    if message.full_name in around:
        raise ProgramError(
            f"the message {message.full_name} contains itself, which no type of rows can. Read "
            "bytes with ByteArraySchema() and decode them in a map()."
        )
    inner = (*around, message.full_name)
    kinds = [_field_type(field, inner) for field in message.fields]
    return Types.ROW_NAMED([field.name for field in message.fields], kinds)


def _field_type(field: Any, around: tuple[str, ...]) -> TypeInformation:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return Types.MAP(_one_type(parts["key"], around), _one_type(parts["value"], around))
    one = _one_type(field, around)
    return Types.LIST(one) if _is_repeated(field) else one


def _one_type(field: Any, around: tuple[str, ...]) -> TypeInformation:
    message = field.message_type
    if message is None:
        return _SCALARS[_kind(field)]()
    return Types.SQL_TIMESTAMP() if message.full_name == _TIMESTAMP else _type_of(message, *around)


def _reading(message: Any) -> Callable[[Any], list[Any]]:
    """Returns what makes the values of a row of a message."""
    getters = [_getter(field) for field in message.fields]
    return lambda value: [get(value) for get in getters]


def _getter(field: Any) -> Callable[[Any], Any]:
    name = field.name
    if _is_map(field):
        values = inside("map", _read_one(field.message_type.fields_by_name["value"])) or dict
        return lambda value: values(getattr(value, name))
    convert = _read_one(field)
    if _is_repeated(field):
        elements = inside("array", convert) or list
        return lambda value: elements(getattr(value, name))
    plain: Callable[[Any], Any] = operator.attrgetter(name)
    get: Callable[[Any], Any] = plain
    if convert is not None:
        get = _chained(plain, convert)
    if field.has_presence:
        return lambda value: get(value) if value.HasField(name) else None
    return get


def _chained(first: Callable[[Any], Any], then: Convert) -> Callable[[Any], Any]:
    return lambda value: then(first(value))


def _read_one(field: Any) -> Convert | None:
    if field.enum_type is not None:
        names = {each.number: each.name for each in field.enum_type.values}
        return lambda value: names.get(value, str(value))
    if field.message_type is None:
        return None
    if field.message_type.full_name == _TIMESTAMP:
        return lambda value: value.ToDatetime()
    names_of = tuple(each.name for each in field.message_type.fields)
    values_of = _reading(field.message_type)
    return lambda value: Row.of_names(names_of, values_of(value))


class ProtobufRowDeserializationSchema(DeserializationSchema):
    """Makes rows of messages: enums are their names, and what is not set and can be so is None.

    Args:
        schema: The message type.
        confluent: Messages have the head of a schema registry of Confluent's, which is left out.
    """

    may_leave_out = False

    def __init__(self, schema: ProtobufSchema, *, confluent: bool = False) -> None:
        self._schema = schema
        self._confluent = confluent
        descriptor = schema.message.DESCRIPTOR
        self._names = tuple(field.name for field in descriptor.fields)
        self._values_of = _reading(descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), confluent=self._confluent), (self._schema,)

    def get_produced_type(self) -> TypeInformation:
        return self._schema.type_info

    def deserialize(self, message: bytes) -> Any:
        return self.deserialize_all([message])[0]

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        if self._confluent:
            messages = list(map(_without_head, messages))
        parse, names, values_of = self._schema.message.FromString, self._names, self._values_of
        return [Row.of_names(names, values_of(parse(message))) for message in messages]


def _without_head(message: bytes) -> bytes:
    """Leaves out a zero byte, four of an id, and a list of numbers: which message of the file."""
    if len(message) < 6 or message[0] != 0:
        raise InputError(
            f"a message begins with {message[:6]!r}, but one with a schema of a registry begins "
            "with a zero byte, four bytes of an id, and the place of the message in its file."
        )
    count, at = zigzag(message, 5)
    for _ in range(count):
        _, at = zigzag(message, at)
    return message[at:]


class ProtobufRowSerializationSchema(RowSerializationSchema):
    """Makes messages of rows, whose fields go by their position; None is not set.

    Args:
        schema: The message type.
    """

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._type_info = schema.type_info
        self._fields = [(field.name, _writing(field)) for field in schema.message.DESCRIPTOR.fields]

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufRowSerializationSchema, (self._schema,)

    def encoded(self, columns: list[list[Any]]) -> list[bytes]:
        message, fields = self._schema.message, self._fields
        return [
            message(**_set(fields, values)).SerializeToString()
            for values in zip(*columns, strict=True)
        ]


_Writers = list[tuple[str, Convert | None]]


def _set(fields: _Writers, values: Any) -> dict[str, Any]:
    return {
        name: value if convert is None else convert(value)
        for (name, convert), value in zip(fields, values, strict=True)
        if value is not None
    }


def _writing(field: Any) -> Convert | None:
    """Returns what makes of a field what the constructor of a message takes."""
    if _is_map(field):
        return inside("map", _write_one(field.message_type.fields_by_name["value"]))
    convert = _write_one(field)
    return inside("array", convert) if _is_repeated(field) else convert


def _write_one(field: Any) -> Convert | None:
    if field.message_type is None:
        return None
    if field.message_type.full_name == _TIMESTAMP:
        return _with_zone
    fields: _Writers = [(each.name, _writing(each)) for each in field.message_type.fields]
    convert = _type_of(field.message_type).converter()
    assert convert is not None
    return lambda row: _set(fields, convert(row))


def _with_zone(value: datetime.datetime) -> datetime.datetime:
    """Returns a time of UTC as the library takes it."""
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
