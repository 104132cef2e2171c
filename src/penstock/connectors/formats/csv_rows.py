"""Rows as lines of CSV, written as Flink's format writes them; each message holds one row."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from penstock.connectors.formats.fields import (
    Convert,
    RowSerializationSchema,
    bits_of,
    element_of,
    from_text,
    is_bytes,
    kind_of,
    row_type,
    shortest_single,
    single,
)
from penstock.connectors.serialization import DeserializationSchema
from penstock.core.basic_types import (
    BasicType,
    DateTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.core.composite_types import RowTypeInfo
from penstock.core.errors import ProgramError
from penstock.core.row import Row, rows_of


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How rows are lines; each option is explained by its setter."""

    delimiter: str = ","
    element_delimiter: str = ";"
    quote: str = '"'
    escape: str | None = None
    null_literal: str | None = None
    line_delimiter: str = "\n"
    has_comments: bool = False
    ignores_errors: bool = False


class _Builder:
    """What both builders set.

    Args:
        type_info: The rows.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = row_type(type_info, type(self).__qualname__.partition(".")[0])
        self._options = CsvOptions()

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Sets the text between the elements of an array, a semicolon by default."""
        if not isinstance(delimiter, str) or not delimiter:
            raise ProgramError(f"set_array_element_delimiter({delimiter!r:.40}) takes some text.")
        return self._set(element_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Sets the character around fields, a double quote by default."""
        return self._character("quote", c, "set_quote_character")

    def set_escape_character(self, c: str) -> Self:
        """Sets the character that takes away the meaning of the next; by default there is none."""
        return self._character("escape", c, "set_escape_character")

    def _character(self, name: str, given: str, verb: str) -> Self:
        if not isinstance(given, str) or len(given) != 1 or given in "\r\n":
            raise ProgramError(f"{verb}({given!r:.40}) takes one character.")
        return self._set(**{name: given})

    def _set(self, **changes: Any) -> Self:
        self._options = replace(self._options, **changes)
        return self


# -- reading ---------------------------------------------------------------------------------------


class CsvRowDeserializationSchema(DeserializationSchema):
    """Makes rows of lines of CSV; made by `CsvRowDeserializationSchema.Builder(type_info)`."""

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions) -> None:
        self._type_info = type_info
        self._options = options
        self._special = f"{options.quote}{options.escape or ''}\r\n"
        self._dialect: dict[str, Any] = {
            "delimiter": options.delimiter,
            "quotechar": options.quote,
            "escapechar": options.escape,
            "strict": True,
        }
        self._names = tuple(type_info.get_field_names())
        self.fields: list[Convert] = list(map(self._nullable, type_info.get_field_types()))
        self._columns = list(map(self._column, type_info.get_field_types(), self.fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowDeserializationSchema, (self._type_info, self._options)

    class Builder(_Builder):
        """Builds a `CsvRowDeserializationSchema`.

        Args:
            type_info: The rows; fields go by their position.

        Example:
            >>> builder = CsvRowDeserializationSchema.Builder(Types.ROW([Types.STRING()]))
            >>> builder.build().deserialize(b"Ann")
            Row(f0='Ann')
        """

        def set_field_delimiter(self, delimiter: str) -> Self:
            """Sets the character between fields, a comma by default."""
            return self._character("delimiter", delimiter, "set_field_delimiter")

        def set_null_literal(self, null_literal: str) -> Self:
            """Sets the text that means None; without it, an empty field is empty text."""
            return self._set(null_literal=str(null_literal))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Says whether messages that begin with # are left out."""
            return self._set(has_comments=bool(allow_comments))

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Makes None of fields that do not fit, and leaves out what is no row."""
            return self._set(ignores_errors=bool(ignore_parse_errors))

        def build(self) -> CsvRowDeserializationSchema:
            """Returns the schema."""
            return CsvRowDeserializationSchema(self._type_info, self._options)

    @property
    def ignores_errors(self) -> bool:
        return self._options.ignores_errors

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def deserialize(self, message: bytes) -> Row | None:
        try:
            return self._row(message.decode())
        except (ValueError, csv.Error):
            if self._options.ignores_errors:
                return None
            raise

    def _row(self, text: str) -> Row | None:
        text = text.removesuffix("\n").removesuffix("\r")
        if not text or (self._options.has_comments and text.startswith("#")):
            return None
        fields = next(csv.reader([text], **self._dialect))
        wanted = len(self._names)
        if len(fields) == wanted + 1 and not fields[-1]:
            fields.pop()
        if len(fields) > wanted or (len(fields) < wanted and not self._options.ignores_errors):
            raise ValueError(f"it has {len(fields)} fields instead of {wanted}")
        values: list[Any] = [None] * wanted
        for at, (convert, field) in enumerate(zip(self.fields, fields, strict=False)):
            try:
                values[at] = convert(field)
            except ValueError as error:
                if not self._options.ignores_errors:
                    raise ValueError(f"field '{self._names[at]}': {error}") from None
        return Row.of_names(self._names, values)

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        try:
            # Messages of Flink's end with a newline.
            text = b"\0".join(messages).decode().replace("\n\0", "\0").removesuffix("\n")
            if self._options.has_comments or any(each in text for each in self._special):
                raise ValueError("some fields may have quotes")
            delimiter = self._options.delimiter
            fields = [each.split(delimiter) for each in text.split("\0")]
            columns = list(zip(*fields, strict=True))
            if len(columns) != len(self._columns) or len(fields) != len(messages):
                raise ValueError("rows have another number of fields")
            values = zip(
                *(read(each) for read, each in zip(self._columns, columns, strict=True)),
                strict=True,
            )
            if len(columns) == 1 and "" in columns[0]:
                raise ValueError("an empty message is no row")
            return rows_of(self._names, map(list, values))
        except (ValueError, OverflowError):
            return list(map(self.deserialize, messages))

    def _column(
        self, type_info: TypeInformation, nullable: Convert
    ) -> Callable[[tuple[str, ...]], Any]:
        """Returns what reads a column of a batch."""
        null, bits, kind = self._options.null_literal, bits_of(type_info), kind_of(type_info)

        def read(texts: tuple[str, ...]) -> Any:
            if null is not None and null in texts:
                return list(map(nullable, texts))
            if kind is BasicType.STRING:
                return texts
            if bits is not None and "_" not in "".join(texts):
                numbers = list(map(int, texts))
                if -1 << bits - 1 <= min(numbers) and max(numbers) < 1 << bits - 1:
                    return numbers
            if kind is BasicType.DOUBLE and "_" not in "".join(texts):
                return list(map(float, texts))
            return list(map(nullable, texts))

        return read

    def _nullable(self, type_info: TypeInformation) -> Convert:
        convert, null = self._reading(type_info), self._options.null_literal
        if null is None:
            return convert
        return lambda text: None if text == null else convert(text)

    def _reading(self, type_info: TypeInformation) -> Convert:
        delimiter = self._options.element_delimiter
        element = element_of(type_info)
        if element is not None:
            of_element = self._nullable(_single(element))
            return lambda text: list(map(of_element, text.split(delimiter))) if text else []
        if isinstance(type_info, RowTypeInfo):
            names = tuple(type_info.get_field_names())
            of_fields = [self._nullable(_single(each)) for each in type_info.get_field_types()]

            def row(text: str) -> Row:
                texts = text.split(delimiter)
                if len(texts) != len(names):
                    raise ValueError(f"{text[:60]!r} has {len(texts)} parts, not {len(names)}")
                pairs = zip(of_fields, texts, strict=True)
                return Row.of_names(names, [convert(each) for convert, each in pairs])

            return row
        convert = from_text(type_info)
        if convert is None:
            raise _no_csv(type_info)
        return convert


def _single(type_info: TypeInformation) -> TypeInformation:
    """Returns a type of what may be inside of a field.

    Raises:
        ProgramError: CSV has no place for it.
    """
    if isinstance(type_info, RowTypeInfo) or element_of(type_info) is not None:
        raise ProgramError(
            f"CSV has no place for {type_info!r} inside of an array or a row that is a field."
        )
    return type_info


def _no_csv(type_info: TypeInformation) -> ProgramError:
    return ProgramError(
        f"the CSV format has no text for {type_info!r}; declare basic types, dates, and arrays or "
        "rows of these."
    )


# -- writing ---------------------------------------------------------------------------------------


class CsvRowSerializationSchema(RowSerializationSchema):
    """Makes lines of CSV of rows; made by `CsvRowSerializationSchema.Builder(type_info)`."""

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions) -> None:
        self._type_info = type_info
        self._options = options
        self._null = options.null_literal or ""
        # As Jackson does: texts that may need quotes have them, and so have long ones.
        highest = max(options.delimiter, options.quote, *options.line_delimiter)
        escape = re.escape(options.escape or "")
        self._is_quoted = re.compile(
            f"[\\0-{re.escape(highest)}{escape}]|.{{{_LONG},}}", re.DOTALL
        ).search
        self.columns = list(map(self._column, type_info.get_field_types()))

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowSerializationSchema, (self._type_info, self._options)

    class Builder(_Builder):
        r"""Builds a `CsvRowSerializationSchema`.

        Args:
            type_info: The rows; fields go by their position.

        Example:
            >>> builder = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING()]))
            >>> builder.build().serialize(Row("Ann"))
            b'Ann\n'
        """

        def set_field_delimiter(self, c: str) -> Self:
            """Sets the character between fields, a comma by default."""
            return self._character("delimiter", c, "set_field_delimiter")

        def set_null_literal(self, s: str) -> Self:
            """Sets the text for None, by default none at all."""
            return self._set(null_literal=str(s))

        def set_line_delimiter(self, delimiter: str) -> Self:
            """Sets what follows a row: a newline by default."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ProgramError(
                    f"set_line_delimiter({delimiter!r:.40}) takes a newline, a carriage return, "
                    "both, or ''."
                )
            return self._set(line_delimiter=delimiter)

        def disable_quote_character(self) -> Self:
            """Writes no quotes, whatever is in a field."""
            return self._set(quote="")

        def build(self) -> CsvRowSerializationSchema:
            """Returns the schema."""
            return CsvRowSerializationSchema(self._type_info, self._options)

    def encoded(self, columns: list[list[Any]]) -> list[bytes]:
        texts = [write(each) for write, each in zip(self.columns, columns, strict=False)]
        join, end = self._options.delimiter.join, self._options.line_delimiter
        return [f"{join(fields)}{end}".encode() for fields in zip(*texts, strict=True)]

    def _column(self, type_info: TypeInformation) -> Callable[[list[Any]], list[str]]:
        """Returns what makes text of a column."""
        write, quoted, null = self._writing(type_info), self._quoted, self._null
        is_number = bits_of(type_info) is not None or kind_of(type_info) in _BARE
        plain, is_quoted = (int if is_number else str), self._is_quoted

        def text(value: Any) -> str:
            if value is None:
                return null
            wrong = type_info.mismatch(value)
            if wrong:
                raise ValueError(wrong)
            return write(value) if is_number else quoted(write(value))

        def column(values: list[Any]) -> list[str]:
            if set(map(type, values)) == {plain} and bits_of(type_info) is not None:
                return list(map(str, values))
            if set(map(type, values)) == {str} and kind_of(type_info) is BasicType.STRING:
                return [quoted(value) if is_quoted(value) else value for value in values]
            return list(map(text, values))

        return column

    def _quoted(self, text: str) -> str:
        quote, escape = self._options.quote, self._options.escape
        if not quote or not self._is_quoted(text):
            return text
        if escape is not None:
            text = text.replace(escape, escape * 2)
        return f"{quote}{text.replace(quote, quote * 2)}{quote}"

    def _writing(self, type_info: TypeInformation) -> Callable[[Any], str]:
        join, null = self._options.element_delimiter.join, self._null
        element = element_of(type_info)
        if element is not None:
            of_element = _written(_single(element))
            return lambda value: join(null if each is None else of_element(each) for each in value)
        if isinstance(type_info, RowTypeInfo):
            of_fields = [_written(_single(each)) for each in type_info.get_field_types()]
            return lambda value: join(
                null if each is None else write(each)
                for write, each in zip(of_fields, value, strict=True)
            )
        return _written(type_info)


_LONG: Final = 25
_BARE: Final = (BasicType.BOOLEAN, BasicType.FLOAT, BasicType.DOUBLE)


def _written(type_info: TypeInformation) -> Callable[[Any], str]:
    """Returns what makes text of a single value."""
    kind = kind_of(type_info)
    write = _WRITTEN.get(type(type_info) if kind is None else kind)
    if write is None:
        if not is_bytes(type_info):
            raise _no_csv(type_info)
        return lambda value: base64.b64encode(value).decode()
    return write


def _timestamp(value: Any) -> str:
    """Returns a time as Java's `Timestamp` writes it, with one digit of a fraction at least."""
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value.strftime('%Y-%m-%d %H:%M:%S')}.{fraction}"


_WRITTEN: Final[dict[Any, Callable[[Any], str]]] = {
    TimestampTypeInfo: _timestamp,
    DateTypeInfo: lambda value: value.strftime("%Y-%m-%d"),
    TimeTypeInfo: lambda value: value.strftime("%H:%M:%S"),
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: lambda value: repr(shortest_single(single(value))),
    BasicType.DOUBLE: lambda value: repr(float(value)),
    **dict.fromkeys((BasicType.STRING, BasicType.CHAR, BasicType.BIG_DEC, BasicType.BIG_INT), str),
    **dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG), str),
}
