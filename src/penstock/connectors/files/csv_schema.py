"""CSV files by PyFlink's `CsvSchema`: columns with types, read and written as Flink does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from penstock.connectors.file_sink.encoders import Encoder, OutputFormat
from penstock.connectors.files.csv_format import CsvFormat, CsvParser
from penstock.connectors.formats.csv_rows import (
    CsvOptions,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.core.errors import InputError, ProgramError, UnsupportedError
from penstock.core.types import DataTypes, TypeInformation, Types

if TYPE_CHECKING:
    from penstock.connectors.files.formats import RecordParser
    from penstock.core.composite_types import RowTypeInfo

_NO_QUOTE: Final = "\0"
"""Text has no such character, so nothing is quoted."""


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """The columns of CSV files, and how rows are lines of them.

    Example:
        >>> from penstock.datastream.formats.csv import CsvSchema
        >>> len(CsvSchema.builder().add_number_column("id").add_string_column("name").build())
        2
    """

    columns: tuple[tuple[str, TypeInformation], ...] = ()
    separators: tuple[str | None, ...] = ()
    """Between the elements of each array; None for other columns, and for the schema's own."""
    options: CsvOptions = field(default_factory=CsvOptions)
    uses_header: bool = False
    is_strict: bool = False
    skips_first_row: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Starts a schema without columns."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Returns how many columns there are."""
        return len(self.columns)

    __len__ = size

    @property
    def type_info(self) -> RowTypeInfo:
        """Of the rows."""
        return Types.ROW_NAMED(*(list(each) for each in zip(*self.columns, strict=True)))

    def options_of(self, column: int) -> CsvOptions:
        """Returns how one column is written."""
        separator = self.separators[column]
        if separator is None:
            return self.options
        return replace(self.options, element_delimiter=separator)


class CsvSchemaBuilder:
    """Builds a `CsvSchema`; made by `CsvSchema.builder()`.

    Types of columns are those of `DataTypes` or `Types`.
    """

    def __init__(self) -> None:
        self._schema = CsvSchema()

    def build(self) -> CsvSchema:
        """Returns the schema."""
        if not self._schema.columns:
            raise ProgramError("the CsvSchema has no columns; call add_string_column(...).")
        return self._schema

    def add_string_column(self, name: str) -> Self:
        """Adds a column of text."""
        return self._add(name, DataTypes.STRING())

    def add_boolean_column(self, name: str) -> Self:
        """Adds a column of `true` and anything else, which is false."""
        return self._add(name, DataTypes.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> Self:
        """Adds a column of numbers, `DataTypes.BIGINT()` by default."""
        return self._add(name, DataTypes.BIGINT() if number_type is None else number_type)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> Self:
        """Adds a column of lists, of text by default."""
        element = DataTypes.STRING() if element_type is None else element_type
        return self._add(name, DataTypes.ARRAY(element), separator)

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """Adds the columns of another schema."""
        for (name, kind), separator in zip(schema.columns, schema.separators, strict=True):
            self._add(name, kind, separator)
        return self

    def clear_columns(self) -> Self:
        """Removes all columns."""
        return self._set(columns=(), separators=())

    def set_column_separator(self, char: str) -> Self:
        """Sets the character between columns, a comma by default."""
        return self._character("delimiter", char, "set_column_separator")

    def set_array_element_separator(self, separator: str) -> Self:
        """Sets the text between the elements of all arrays."""
        self._set(separators=(None,) * self.size())
        return self._option(element_delimiter=separator)

    def set_quote_char(self, char: str) -> Self:
        """Sets the character around fields, a double quote by default."""
        return self._character("quote", char, "set_quote_char")

    def disable_quote_char(self) -> Self:
        """Has no quotes: they are text like any other."""
        return self._option(quote="")

    def set_escape_char(self, char: str) -> Self:
        """Sets the character that takes away the meaning of the next; by default there is none."""
        return self._character("escape", char, "set_escape_char")

    def disable_escape_char(self) -> Self:
        """Has no escape character, as by default."""
        return self._option(escape=None)

    def set_line_separator(self, separator: str) -> Self:
        """Sets what is written behind a row, a newline by default."""
        return self._option(line_delimiter=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Sets the text that means None."""
        return self._option(null_literal=null_value)

    def set_use_header(self, use: bool = True) -> Self:
        """Says whether files begin with the names of the columns."""
        return self._set(uses_header=use)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Says whether a header with other names fails the job; it is else left out unseen."""
        return self._set(is_strict=strict)

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Says whether the first row, behind the header if there is one, is left out."""
        return self._set(skips_first_row=skip)

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Takes no comments; lines that begin with # are rows."""
        return self._refuse("set_allow_comments") if allow else self

    def set_any_property_name(self, name: str) -> NoReturn:
        """Is not supported; rows have the columns of the schema."""
        self._refuse("set_any_property_name")

    def disable_array_element_separator(self) -> NoReturn:
        """Is not supported; add a column of text."""
        self._refuse("disable_array_element_separator")

    def remove_array_element_separator(self, index: int) -> NoReturn:
        """Is not supported; add a column of text."""
        self._refuse("remove_array_element_separator")

    def size(self) -> int:
        """Returns how many columns there are so far."""
        return len(self._schema)

    __len__ = size

    def _refuse(self, method: str) -> NoReturn:
        raise UnsupportedError(
            f"CsvSchemaBuilder.{method}() is not supported: read the lines with "
            "StreamFormat.text_line_format() and take them apart in a flat_map()."
        )

    def _add(self, name: str, kind: TypeInformation, separator: str | None = None) -> Self:
        if not isinstance(kind, TypeInformation):
            raise ProgramError(
                f"the type of the column {name!r} is {kind!r:.80}; use for example DataTypes.INT()."
            )
        schema = self._schema
        return self._set(
            columns=(*schema.columns, (name, kind)), separators=(*schema.separators, separator)
        )

    def _character(self, option: str, given: str, method: str) -> Self:
        if not isinstance(given, str) or len(given) != 1:
            raise ProgramError(f"{method}({given!r:.40}) takes one character.")
        return self._option(**{option: given})

    def _option(self, **changes: Any) -> Self:
        return self._set(options=replace(self._schema.options, **changes))

    def _set(self, **changes: Any) -> Self:
        self._schema = replace(self._schema, **changes)
        return self


class CsvReaderFormat(CsvFormat):
    """Rows of CSV files, for `FileSource.for_record_stream_format`.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        options = schema.options
        super().__init__(
            header=schema.uses_header or schema.skips_first_row,
            columns=[name for name, _ in schema.columns],
            records="row",
            delimiter=options.delimiter,
            quotechar=options.quote or _NO_QUOTE,
            escapechar=options.escape,
        )
        if schema.uses_header and schema.skips_first_row:
            raise UnsupportedError(
                "set_use_header() and set_skip_first_data_row() are not supported together."
            )
        self.schema = schema

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Makes the format.

        Example:
            >>> from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
            >>> schema = CsvSchema.builder().add_string_column("name").set_use_header().build()
            >>> _ = CsvReaderFormat.for_schema(schema)
        """
        return CsvReaderFormat(schema)

    def create_parser(self) -> RecordParser:
        return _SchemaParser(self, "utf-8")


class _SchemaParser(CsvParser):
    """Takes columns by their position, as Flink does."""

    def __init__(self, spec: CsvReaderFormat, charset: str) -> None:
        self._schema = spec.schema
        super().__init__(spec, charset)

    def _use(self, names: list[str], path: str) -> None:
        wanted = [name for name, _ in self._schema.columns]
        if self._schema.is_strict and self._schema.uses_header and names != wanted:
            raise InputError(
                f"{path} has the header {', '.join(names)}, but the schema has the columns "
                f"{', '.join(wanted)}. Change the schema, or leave out set_strict_headers()."
            )
        self._set_converters(wanted)

    def _set_converters(self, names: Any) -> None:
        self._converters = [
            (at, _reading(self._schema, at, kind))
            for at, (_, kind) in enumerate(self._schema.columns)
        ]


def _reading(schema: CsvSchema, column: int, kind: TypeInformation) -> Callable[[str], Any]:
    """Returns what reads one column."""
    return CsvRowDeserializationSchema(Types.ROW([kind]), schema.options_of(column)).fields[0]


class CsvBulkWriters:
    """Formats for `FileSink.for_bulk_format`, by PyFlink's name."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> OutputFormat:
        """Writes rows as CSV.

        Example:
            >>> from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
            >>> _ = CsvBulkWriters.for_schema(CsvSchema.builder().add_number_column("id").build())
        """
        names = [name for name, _ in schema.columns]
        text = Types.ROW([Types.STRING() for _ in names])
        header = CsvRowSerializationSchema(text, schema.options).serialize(tuple(names))
        return Encoder(_SchemaEncoder(schema), header if schema.uses_header else b"")


class _SchemaEncoder:
    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self._rows = CsvRowSerializationSchema(schema.type_info, schema.options)
        for at, (_, kind) in enumerate(schema.columns):
            one = CsvRowSerializationSchema(Types.ROW([kind]), schema.options_of(at))
            self._rows.columns[at] = one.columns[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return _SchemaEncoder, (self._schema,)

    def __call__(self, values: list[Any]) -> bytes:
        return b"".join(self._rows.serialize_all(values))
