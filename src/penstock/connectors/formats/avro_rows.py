"""Rows as Avro's binary encoding, without a header; read and written by fastavro."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.formats.fields import Convert, RowSerializationSchema, inside
from penstock.connectors.serialization import DeserializationSchema
from penstock.core.basic_types import PickledBytesTypeInfo
from penstock.core.composite_types import RowTypeInfo
from penstock.core.errors import ProgramError, module_of_extra
from penstock.core.row import Row, rows_of
from penstock.core.types import Types

if TYPE_CHECKING:
    from penstock.core.basic_types import TypeInformation


def avro_library() -> Any:
    """Returns fastavro.

    Raises:
        EnvironmentError_: It is not installed.
    """
    return module_of_extra("fastavro", "Avro needs", "fastavro", "avro")


class AvroSchema:
    """A schema of Avro; made by `parse_string` or `parse_file`.

    Attributes:
        parsed: The schema as fastavro takes it.
    """

    def __init__(self, text: str) -> None:
        library = avro_library()
        self._text = text
        try:
            self.parsed = library.parse_schema(json.loads(text))
        except (ValueError, library.schema.SchemaParseException) as error:
            raise ProgramError(f"this is no schema of Avro: {error!r:.200}.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self._text,)

    def __str__(self) -> str:
        return json.dumps(json.loads(self._text), separators=(",", ":"))

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Returns the schema that a text describes.

        Example:
            >>> print(AvroSchema.parse_string('{"type": "string"}'))
            {"type":"string"}
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Returns the schema that a file describes.

        Example:
            >>> _ = (folder / "text.avsc").write_text('{"type": "string"}')
            >>> print(AvroSchema.parse_file(str(folder / "text.avsc")))
            {"type":"string"}
        """
        return AvroSchema(Path(file_path).read_text())


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Records of an Avro schema: dicts, as fastavro gives and takes them.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def _parts(self) -> tuple[Any, ...]:
        return (str(self.schema),)


def _given(record_class: str | None, text: str | None, who: str) -> AvroSchema:
    if record_class is not None:
        raise ProgramError(
            f"{who} got the Java class {record_class!r}; there are no Java classes here. Pass its "
            "schema: avro_schema_string=..."
        )
    if text is None:
        raise ProgramError(f"{who} needs avro_schema_string, the schema of the record as JSON.")
    schema = AvroSchema(text)
    if not isinstance(schema.parsed, dict) or schema.parsed["type"] != "record":
        raise ProgramError(
            f"{who} makes rows, so its schema must be of the type record: {text:.80}"
        )
    return schema


class AvroRowDeserializationSchema(DeserializationSchema):
    """Makes rows of Avro records.

    Args:
        record_class: Must be None: there are no Java classes.
        avro_schema_string: The schema that the records were written with.

    Example:
        >>> text = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}'
        >>> AvroRowDeserializationSchema(avro_schema_string=text).deserialize(bytes([6]))
        Row(n=3)
    """

    may_leave_out = False

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        self._schema = _given(record_class, avro_schema_string, "AvroRowDeserializationSchema")
        self._text = avro_schema_string
        kinds = _Kinds()
        record = self._schema.parsed
        self._type_info = kinds.type_of(record)
        self._names = tuple(field["name"] for field in record["fields"])
        self._fields = [(each["name"], kinds.reading(each["type"])) for each in record["fields"]]
        self._is_plain = not any(read for _, read in self._fields)
        self._read = avro_library().schemaless_reader

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, self._text)

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        return self.deserialize_all([message])[0]

    def decoded(self, messages: list[bytes]) -> list[dict[str, Any]]:
        """Returns what fastavro makes of messages."""
        read, schema = self._read, self._schema.parsed
        return [read(io.BytesIO(message), schema, None) for message in messages]

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        fields, records = self._fields, self.decoded(messages)
        if self._is_plain:
            # fastavro puts the fields into its dicts in their order.
            return rows_of(self._names, (list(record.values()) for record in records))
        return rows_of(
            self._names,
            (
                [record[name] if of is None else of(record[name]) for name, of in fields]
                for record in records
            ),
        )


class AvroRowSerializationSchema(RowSerializationSchema):
    r"""Makes Avro records of rows, whose fields go by their position.

    Args:
        record_class: Must be None: there are no Java classes.
        avro_schema_string: The schema.

    Example:
        >>> text = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}'
        >>> AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(3))
        b'\x06'
    """

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        self._schema = _given(record_class, avro_schema_string, "AvroRowSerializationSchema")
        self._text = avro_schema_string
        kinds = _Kinds()
        record = self._schema.parsed
        type_info = kinds.type_of(record)
        assert isinstance(type_info, RowTypeInfo)
        self._type_info = type_info
        self._names = [field["name"] for field in record["fields"]]
        self._fields = [kinds.writing(field["type"]) for field in record["fields"]]
        self._write = avro_library().schemaless_writer

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowSerializationSchema, (None, self._text)

    def encoded(self, columns: list[list[Any]]) -> list[bytes]:
        write, schema, names = self._write, self._schema.parsed, self._names
        plain = [
            column if of is None else list(map(of, column))
            for of, column in zip(self._fields, columns, strict=True)
        ]
        encoded = []
        for values in zip(*plain, strict=True):
            output = io.BytesIO()
            write(output, schema, dict(zip(names, values, strict=True)))
            encoded.append(output.getvalue())
        return encoded


_LOGICAL: Final[dict[str, Callable[[], TypeInformation]]] = {
    "decimal": Types.BIG_DEC,
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
}
_SIMPLE: Final[dict[str, Callable[[], TypeInformation]]] = {
    "string": Types.STRING,
    "enum": Types.STRING,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "boolean": Types.BOOLEAN,
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


class _Kinds:
    """Types and conversions of the parts of a schema; named parts may be met by name later."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def _resolved(self, part: Any) -> Any:
        """Returns a part as a dict, or a list for a union of more than one type and null."""
        if isinstance(part, list):
            others = [each for each in part if each != "null"]
            return self._resolved(others[0]) if len(others) == 1 else part
        if isinstance(part, str):
            return self._named.get(part, {"type": part})
        if "name" in part:
            if part["name"] in self._named and self._named[part["name"]] is not part:
                return self._named[part["name"]]
            self._named[part["name"]] = part
        return self._resolved(part["type"]) if isinstance(part["type"], dict | list) else part

    def type_of(self, part: Any, *around: str) -> TypeInformation:
        """Returns the type of the values of a part, as Flink's converter chooses it."""
        part = self._resolved(part)
        if isinstance(part, list):
            return Types.PICKLED_BYTE_ARRAY()
        kind = part["type"]
        if kind == "record":
            if part["name"] in around:
                raise ProgramError(
                    f"the Avro record {part['name']} contains itself, which no type of rows can. "
                    "Read bytes with ByteArraySchema() and call fastavro in a map()."
                )
            inner = (*around, part["name"])
            fields = [self.type_of(field["type"], *inner) for field in part["fields"]]
            return Types.ROW_NAMED([field["name"] for field in part["fields"]], fields)
        if kind == "array":
            return Types.OBJECT_ARRAY(self.type_of(part["items"], *around))
        if kind == "map":
            return Types.MAP(Types.STRING(), self.type_of(part["values"], *around))
        made = _LOGICAL.get(part.get("logicalType")) or _SIMPLE.get(kind)
        return Types.PICKLED_BYTE_ARRAY() if made is None else made()

    def reading(self, part: Any) -> Convert | None:
        """Returns what makes a field of what fastavro read; None where it stays as it is."""
        part = self._resolved(part)
        if isinstance(part, list):
            return None
        convert = self._reading_nested(part)
        if convert is None and "logicalType" in part:
            convert = _read_logical(part["logicalType"])
        return None if convert is None else _nullable(convert)

    def _reading_nested(self, part: Any) -> Convert | None:
        if part["type"] == "record":
            names = tuple(field["name"] for field in part["fields"])
            fields = [(each["name"], self.reading(each["type"])) for each in part["fields"]]
            return lambda value: Row.of_names(
                names, [value[name] if of is None else of(value[name]) for name, of in fields]
            )
        if part["type"] in ("array", "map"):
            inner = self.reading(part["items" if part["type"] == "array" else "values"])
            return inside(part["type"], inner)
        return None

    def writing(self, part: Any) -> Convert | None:
        """Returns what makes of a field what fastavro writes; None where it stays as it is."""
        part = self._resolved(part)
        if isinstance(part, list):
            return None
        convert = self._writing_nested(part)
        if convert is None and "timestamp" in part.get("logicalType", ""):
            is_local = part["logicalType"].startswith("local")
            convert = _without_zone if is_local else _with_zone
        return None if convert is None else _nullable(convert)

    def _writing_nested(self, part: Any) -> Convert | None:
        if part["type"] == "record":
            fields = [(each["name"], self.writing(each["type"])) for each in part["fields"]]
            convert = self.type_of(part).converter()
            assert convert is not None
            return lambda row: {
                name: value if of is None else of(value)
                for (name, of), value in zip(fields, convert(row), strict=True)
            }
        if part["type"] in ("array", "map"):
            inner = self.writing(part["items" if part["type"] == "array" else "values"])
            return inside(part["type"], inner)
        return None


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _read_logical(name: str) -> Convert | None:
    if name == "uuid":
        return str
    return _without_zone if "timestamp" in name else None


def _without_zone(value: datetime.datetime) -> datetime.datetime:
    if value.tzinfo is None:
        return value
    return value.astimezone(datetime.UTC).replace(tzinfo=None)


def _with_zone(value: datetime.datetime) -> datetime.datetime:
    """Returns a time of UTC as fastavro takes it, for which one without a zone is local."""
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
