"""Rows as JSON objects, by the names of their fields.

A batch is decoded by one compiled loop: msgspec checks plain fields while it parses. A message that
it does not take is read again as Flink's format does, which makes a number of "12" or text of 12.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Self

import msgspec

from penstock.connectors.formats.fields import (
    Convert,
    bits_of,
    element_of,
    from_text,
    is_bytes,
    kind_of,
    row_type,
    single,
)
from penstock.connectors.serialization import DeserializationSchema
from penstock.core.basic_types import (
    BasicType,
    PickledBytesTypeInfo,
    TypeInformation,
)
from penstock.core.composite_types import MapTypeInfo, RowTypeInfo
from penstock.core.errors import ProgramError
from penstock.core.row import Row, rows_of
from penstock.core.types import Types

encode: Final = msgspec.json.Encoder(decimal_format="number").encode
"""Makes JSON of plain values, decimals included."""


# -- reading ---------------------------------------------------------------------------------------


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes rows of JSON objects; made by `JsonRowDeserializationSchema.builder()`."""

    def __init__(
        self, type_info: RowTypeInfo, *, fails_on_missing: bool, ignores_errors: bool
    ) -> None:
        self._type_info = type_info
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors
        self._of_node = _Reading(fails_on_missing, ignores_errors).of(type_info)
        self._decode_rows = _fast(type_info, fails_on_missing)
        self._exact = _has_decimals(type_info)

    def __reduce__(self) -> tuple[Any, ...]:
        restored = partial(
            type(self),
            fails_on_missing=self._fails_on_missing,
            ignores_errors=self._ignores_errors,
        )
        return restored, (self._type_info,)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begins a schema.

        Example:
            >>> names_and_ages = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
            >>> schema = JsonRowDeserializationSchema.builder().type_info(names_and_ages).build()
            >>> schema.deserialize(b'{"name": "Ann", "age": 31}')
            Row(name='Ann', age=31)
        """
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds a `JsonRowDeserializationSchema`; the type of the rows is needed."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fails_on_missing = False
            self._ignores_errors = False

        def type_info(self, type_info: TypeInformation) -> Self:
            """Sets the rows; their names are those of the JSON object."""
            self._type_info = row_type(type_info, "JsonRowDeserializationSchema")
            return self

        def json_schema(self, json_schema: str) -> Self:
            """Sets the rows by a JSON schema."""
            return self.type_info(type_of_schema(json_schema))

        def fail_on_missing_field(self) -> Self:
            """Lets a missing field be an error; without it, it is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> Self:
            """Makes None of fields that do not fit, and leaves out what is no JSON object."""
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Returns the schema."""
            if self._fails_on_missing and self._ignores_errors:
                raise ProgramError(
                    "JsonRowDeserializationSchema has either fail_on_missing_field() or "
                    "ignore_parse_errors(), as in Flink."
                )
            return JsonRowDeserializationSchema(
                row_type(self._type_info, "JsonRowDeserializationSchema"),
                fails_on_missing=self._fails_on_missing,
                ignores_errors=self._ignores_errors,
            )

    @property
    def ignores_errors(self) -> bool:
        return self._ignores_errors

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def deserialize(self, message: bytes) -> Row | None:
        try:
            node = json.loads(
                message,
                parse_constant=_no_number,
                parse_float=decimal.Decimal if self._exact else None,
            )
        except ValueError as error:
            if self._ignores_errors:
                return None
            raise ValueError(f"it is not JSON: {error}") from None
        row: Row | None = self._of_node(node)
        return row

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        try:
            return self._decode_rows(messages)
        except (msgspec.MsgspecError, ValueError, TypeError, UnicodeDecodeError):
            deserialize = self.deserialize
            rows: list[Any] = []
            for message in messages:
                try:
                    rows += self._decode_rows([message])
                except (msgspec.MsgspecError, ValueError, TypeError):
                    rows.append(deserialize(message))
            return rows


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _has_decimals(type_info: TypeInformation) -> bool:
    parts = [each for each in type_info._parts() if isinstance(each, TypeInformation)]
    return kind_of(type_info) is BasicType.BIG_DEC or any(map(_has_decimals, parts))


_PLAIN: Final[dict[BasicType, Any]] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.DOUBLE: float,
    BasicType.FLOAT: float,
    BasicType.BIG_INT: int,
    BasicType.BIG_DEC: decimal.Decimal,
}


def _fast(type_info: RowTypeInfo, fails_on_missing: bool) -> Callable[[list[bytes]], list[Row]]:
    """Compiles the decoder of a batch; it raises where a message is not plainly of the type."""
    names = tuple(type_info.get_field_names())
    fields: list[Any] = []
    uses: list[str] = []
    scope: dict[str, Any] = {}
    for at, field in enumerate(type_info.get_field_types()):
        plain = _plain(field)
        scope[f"c{at}"] = single if kind_of(field) is BasicType.FLOAT else None
        if plain is Any:
            scope[f"c{at}"] = _Reading(fails_on_missing, ignores_errors=False).of(field)
        value = f"s.f{at}"
        uses.append(
            f"c{at}({value}) if {value} is not None else None" if scope[f"c{at}"] else value
        )
        default = () if fails_on_missing else (None,)
        fields.append((f"f{at}", Any if plain is Any else plain | None, *default))
    shape = message_shape(fields, names)
    exact = decimal.Decimal if _has_decimals(type_info) else None
    scope["decode"] = msgspec.json.Decoder(shape, float_hook=exact).decode
    code = f"lambda messages: [[{', '.join(uses)}] for s in map(decode, messages)]"
    values: Callable[[list[bytes]], list[list[Any]]] = eval(code, scope)
    return lambda messages: rows_of(names, values(messages))


def message_shape(fields: list[Any], names: Sequence[str]) -> Any:
    """Returns the struct of a JSON object.

    Raises:
        ProgramError: msgspec has no place for a name.
    """
    rename = {f"f{at}": name for at, name in enumerate(names)}
    try:
        return msgspec.defstruct("Message", fields, rename=rename, gc=False)
    except ValueError as error:
        raise ProgramError(f"the JSON format has a field that it cannot name: {error}.") from None


def _plain(field: TypeInformation) -> Any:
    """Returns the type that msgspec checks; Any where Python does."""
    kind, bits = kind_of(field), bits_of(field)
    if bits is not None:
        return Annotated[int, msgspec.Meta(ge=-1 << bits - 1, le=(1 << bits - 1) - 1)]
    return Any if kind is None else _PLAIN.get(kind, Any)


class _Reading:
    """Makes values of what `json.loads` returns, by the rules of Flink's format."""

    def __init__(self, fails_on_missing: bool, ignores_errors: bool) -> None:
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors

    def of(self, type_info: TypeInformation) -> Convert:
        """Returns what makes a value of a node."""
        convert = self._of(type_info)

        def nullable(node: Any) -> Any:
            if node is None:
                return None
            try:
                return convert(node)
            except (ValueError, TypeError, AttributeError):
                if self._ignores_errors:
                    return None
                raise

        return nullable

    def _of(self, type_info: TypeInformation) -> Convert:
        if isinstance(type_info, RowTypeInfo):
            return self._row(type_info)
        if isinstance(type_info, MapTypeInfo):
            of_key, of_value = self.of(type_info.key_type), self.of(type_info.value_type)
            return lambda node: {
                of_key(key): of_value(value) for key, value in _checked(node, dict).items()
            }
        element = element_of(type_info)
        if element is not None:
            of_element = self.of(element)
            return lambda node: [of_element(each) for each in _checked(node, list)]
        return _single(type_info)

    def _row(self, type_info: RowTypeInfo) -> Convert:
        names = tuple(type_info.get_field_names())
        pairs = list(zip(names, map(self.of, type_info.get_field_types()), strict=True))
        fails = self._fails_on_missing

        def convert(node: Any) -> Row:
            node = _checked(node, dict)
            values = []
            for name, of_field in pairs:
                if fails and name not in node:
                    raise ValueError(f"it has no field '{name}'")
                try:
                    values.append(of_field(node.get(name)))
                except (ValueError, TypeError, AttributeError) as error:
                    raise ValueError(f"field '{name}': {error}") from None
            return Row.of_names(names, values)

        return convert


def _single(type_info: TypeInformation) -> Convert:
    """Returns what makes a single value of a node."""
    kind, parse = kind_of(type_info), from_text(type_info)
    if isinstance(type_info, PickledBytesTypeInfo):
        return _anything
    if parse is None:
        raise ProgramError(
            f"the JSON format does not read {type_info!r}; declare basic types, dates, arrays, "
            "maps and rows."
        )
    if kind in (BasicType.INT, BasicType.LONG):
        # A real number loses its fraction, as in Jackson.
        return lambda node: parse(
            str(int(node)) if isinstance(node, float | decimal.Decimal) else _text(node)
        )
    if kind is BasicType.STRING:
        return lambda node: _written(node) if isinstance(node, dict | list) else _text(node)
    return lambda node: parse(_checked(node, str) if is_bytes(type_info) else _text(node))


def _anything(node: Any) -> Any:
    if isinstance(node, decimal.Decimal):
        return float(node)
    if isinstance(node, dict):
        return {key: _anything(value) for key, value in node.items()}
    return [_anything(each) for each in node] if isinstance(node, list) else node


def _checked(node: Any, kind: type[Any]) -> Any:
    if not isinstance(node, kind):
        wanted = {"dict": "an object", "list": "an array", "str": "text"}[kind.__name__]
        raise ValueError(f"{_written(node):.60} is not {wanted}")
    return node


def _text(node: Any) -> str:
    """Returns the text of a node, as Jackson's `asText`."""
    if isinstance(node, bool):
        return "true" if node else "false"
    return "" if isinstance(node, dict | list) else str(node)


def _written(node: Any) -> str:
    return encode(node).decode()


# -- JSON schemas ----------------------------------------------------------------------------------

_OF_SCHEMA: Final[dict[str, Callable[[], TypeInformation]]] = {
    "string": Types.STRING,
    "number": Types.BIG_DEC,
    "integer": Types.BIG_INT,
    "boolean": Types.BOOLEAN,
}
_OF_FORMAT: Final[dict[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}


def type_of_schema(json_schema: str) -> TypeInformation:
    """Returns the type that a JSON schema describes, as Flink's converter chooses it.

    Raises:
        ProgramError: It is no schema, or has what the converter does not know.
    """
    if not isinstance(json_schema, str):
        raise ProgramError(
            f"json_schema() takes the text of a JSON schema, not {json_schema!r:.80}"
        )
    try:
        return _of_node("<root>", json.loads(json_schema))
    except ValueError as error:
        raise ProgramError(f"json_schema() got text that is not JSON: {error}.") from None


def _of_node(where: str, node: Any) -> TypeInformation:
    if not isinstance(node, dict):
        raise ProgramError(f"the JSON schema has {node!r:.60} at {where}, where a schema belongs.")
    kinds = node.get("type")
    if kinds is None and "oneOf" in node:
        kinds = [each for each in node["oneOf"] if each.get("type") != "null"]
        if len(kinds) == 1:
            return _of_node(where, kinds[0])
    if isinstance(kinds, list):
        kinds = [each for each in kinds if each != "null"]
        kinds = kinds[0] if len(kinds) == 1 else kinds
    if kinds == "object" and isinstance(node.get("properties"), dict):
        fields = node["properties"].items()
        types = [_of_node(f"{where}/{name}", each) for name, each in fields]
        return RowTypeInfo(types, list(node["properties"]))
    if kinds == "array" and isinstance(node.get("items"), dict):
        return Types.OBJECT_ARRAY(_of_node(f"{where}[]", node["items"]))
    if kinds == "string" and node.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if kinds == "string" and node.get("format") in _OF_FORMAT:
        return _OF_FORMAT[node["format"]]()
    if isinstance(kinds, str) and kinds in _OF_SCHEMA:
        return _OF_SCHEMA[kinds]()
    raise ProgramError(
        f"the JSON schema has a part at {where} that gives no type of a field: {node!r:.80}. Use "
        "type_info(Types.ROW_NAMED([...], [...])) instead."
    )
