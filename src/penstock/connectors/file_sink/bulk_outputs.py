"""Output files that are made of blocks: Parquet, ORC and Avro; and where all formats are chosen."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.file_sink.encoders import (
    CsvEncoder,
    Encoder,
    JsonEncoder,
    OutputFormat,
    PendingBytes,
    PendingFile,
    Schema,
    checked_schema,
    to_table,
)
from penstock.connectors.formats.avro_rows import AvroSchema, avro_library
from penstock.connectors.formats.fields import element_of
from penstock.core.basic_types import TimestampTypeInfo
from penstock.core.composite_types import MapTypeInfo, RowTypeInfo
from penstock.core.errors import JobExecutionError, ProgramError, shorten
from penstock.core.types import Types
from penstock.files.contract import Content

if TYPE_CHECKING:
    from penstock.files.contract import Storage

_PIECE_BYTES: Final = 1024 * 1024


class BulkWriterFactory:
    """Formats for `FileSink.for_bulk_format`."""

    @staticmethod
    def parquet(schema: Schema = None, compression: str = "snappy") -> OutputFormat:
        """Writes Parquet.

        Args:
            schema: A `pyarrow.Schema` or names of columns; None = inferred. Files of a bucket that
                are joined must agree, so give a schema where columns may hold only None.
            compression: As for `pyarrow.parquet`.
        """
        return ParquetOutput(checked_schema(schema), compression)

    @staticmethod
    def csv(
        columns: Sequence[str] | None = None, *, header: bool = True, delimiter: str = ","
    ) -> OutputFormat:
        """Writes CSV; the header is the names of the columns, once per part file."""
        first = b""
        if header and columns is not None:
            first = CsvEncoder(None, delimiter)([list(columns)])
        return Encoder(CsvEncoder(checked_schema(columns), delimiter), first)

    @staticmethod
    def json() -> OutputFormat:
        """Writes one JSON document on each line."""
        return Encoder(JsonEncoder())

    @staticmethod
    def orc(schema: Schema = None, compression: str = "zlib") -> OutputFormat:
        """Writes ORC.

        Args:
            schema: As for `parquet`.
            compression: `uncompressed`, `zlib`, `snappy`, `lz4` or `zstd`.
        """
        return _OrcOutput(checked_schema(schema), compression)

    @staticmethod
    def avro(schema: AvroSchema, compression: str = "deflate") -> OutputFormat:
        """Writes Avro container files.

        Args:
            schema: Of the records, which are dicts, rows, or tuples with its fields.
            compression: `null`, `deflate`, `bzip2` or `xz`.
        """
        return _avro_output(schema, compression)


class AvroBulkWriters:
    """Formats for `FileSink.for_bulk_format`, by PyFlink's name."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> OutputFormat:
        """Writes records as Avro container files: `BulkWriterFactory.avro(schema)`."""
        return BulkWriterFactory.avro(schema)


class OrcBulkWriters:
    """Formats for `FileSink.for_bulk_format`, by PyFlink's name."""

    @staticmethod
    def for_row_type(
        row_type: Any, writer_properties: Any = None, hadoop_config: Any = None
    ) -> OutputFormat:
        """Writes rows as ORC: `BulkWriterFactory.orc(schema)`.

        Args:
            row_type: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a `pyarrow.Schema`.
            writer_properties: A `Configuration`; of its keys `orc.compress` counts.
            hadoop_config: Must be None or empty: there is no Hadoop.
        """
        check_no_hadoop("OrcBulkWriters", hadoop_config)
        given = {} if writer_properties is None else writer_properties.to_dict()
        compression = given.pop("orc.compress", "zlib").lower().replace("none", "uncompressed")
        if given:
            raise ProgramError(
                f"OrcBulkWriters got {', '.join(given)}; only orc.compress has an effect."
            )
        return BulkWriterFactory.orc(_arrow_schema(row_type), compression)


class ParquetBulkWriters:
    """Formats for `FileSink.for_bulk_format`, by PyFlink's name."""

    @staticmethod
    def for_row_type(
        row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False
    ) -> OutputFormat:
        """Writes rows as Parquet: `BulkWriterFactory.parquet(schema)`.

        Args:
            row_type: `DataTypes.ROW(...)`, `Types.ROW_NAMED(...)` or a `pyarrow.Schema`.
            hadoop_config: Must be None or empty: there is no Hadoop.
            utc_timestamp: Has no effect: timestamps are written as they are, without a zone.
        """
        check_no_hadoop("ParquetBulkWriters", hadoop_config)
        return BulkWriterFactory.parquet(_arrow_schema(row_type))


def check_no_hadoop(who: str, hadoop_config: Any) -> None:
    """Refuses settings that would have no effect."""
    if hadoop_config is not None and hadoop_config.to_dict():
        raise ProgramError(
            f"{who} got settings of Hadoop, which is not used here. Storage is configured as for "
            "checkpoints; see the page Configuration."
        )


def _arrow_schema(row_type: Any) -> Schema:
    if isinstance(row_type, RowTypeInfo):
        arrow: Any = importlib.import_module("pyarrow")
        return arrow.schema(_arrow_type(row_type))
    return row_type


_ARROW_TYPES: Final = {
    "String": "string",
    "Boolean": "bool_",
    "Byte": "int8",
    "Short": "int16",
    "Integer": "int32",
    "Long": "int64",
    "Float": "float32",
    "Double": "float64",
    "DateTypeInfo": "date32",
    "PrimitiveArrayTypeInfo<Byte>": "binary",
}


def _arrow_type(kind: Any) -> Any:
    """Returns the type of Arrow's for one of ours."""
    arrow: Any = importlib.import_module("pyarrow")
    if isinstance(kind, RowTypeInfo):
        names = kind.get_field_names()
        fields = map(_arrow_type, kind.get_field_types())
        return arrow.struct(list(zip(names, fields, strict=True)))
    if isinstance(kind, MapTypeInfo):
        return arrow.map_(_arrow_type(kind.key_type), _arrow_type(kind.value_type))
    element = element_of(kind)
    if element is not None:
        return arrow.list_(_arrow_type(element))
    if isinstance(kind, TimestampTypeInfo):
        return arrow.timestamp("us")
    if kind == Types.BIG_DEC():
        return arrow.decimal128(38, 18)
    made = getattr(arrow, _ARROW_TYPES.get(str(kind), ""), None)
    if made is None:
        raise ProgramError(f"the format knows no column for {kind}; give a pyarrow.Schema.")
    return made()


class _TableOutput(OutputFormat):
    """Formats of Arrow tables: each epoch is a part of its own in the file.

    Args:
        schema: A `pyarrow.Schema`, names of columns, or None.
        compression: As the format takes it.
    """

    def __init__(self, schema: Schema, compression: str) -> None:
        self._schema = schema
        self._compression = compression

    def open(self, spool: PendingBytes) -> PendingFile:
        return _TablePending(self._schema, self)

    @abstractmethod
    def read(self, data: Any) -> Any:
        """Returns the table in a buffer."""

    @abstractmethod
    def read_schema(self, file: Any) -> Any:
        """Returns the schema of an open file."""

    @abstractmethod
    def writer(self, target: Any, schema: Any) -> Any:
        """Returns what writes tables of a schema."""

    @contextlib.contextmanager
    def join(self, storage: Storage, keys: list[str], size_bytes: int) -> Iterator[Content]:
        arrow: Any = importlib.import_module("pyarrow")
        schemas = []
        for key in keys:
            with storage.open(key) as file:
                schemas.append(self.read_schema(file))
        try:
            schema = arrow.unify_schemas(schemas, promote_options="permissive")
        except arrow.ArrowException as error:
            raise JobExecutionError(
                f"the records of {storage.url_of(keys[0])} and {len(keys) - 1} more files have "
                f"columns that do not fit together: {error}. Give the format a pyarrow.Schema."
            ) from error
        with tempfile.TemporaryFile() as target:
            with self.writer(target, schema) as writer:
                for key in keys:
                    table = self.read(arrow.BufferReader(storage.read(key)))
                    for field in schema:
                        if field.name not in table.column_names:
                            table = table.append_column(field, arrow.nulls(len(table), field.type))
                    self.append(writer, table.select(schema.names).cast(schema))

            def pieces() -> Iterator[bytes]:
                target.seek(0)
                return iter(lambda: target.read(_PIECE_BYTES), b"")

            yield Content(target.seek(0, os.SEEK_END), "", pieces)

    def append(self, writer: Any, table: Any) -> None:
        """Adds a table to what is written."""
        writer.write_table(table)


class ParquetOutput(_TableOutput):
    """Parquet, one row group per epoch."""

    def read(self, data: Any) -> Any:
        return importlib.import_module("pyarrow.parquet").read_table(data)

    def read_schema(self, file: Any) -> Any:
        return importlib.import_module("pyarrow.parquet").read_schema(file)

    def writer(self, target: Any, schema: Any) -> Any:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        return parquet.ParquetWriter(target, schema, compression=self._compression)


class _OrcOutput(_TableOutput):
    """ORC, one stripe per epoch."""

    def read(self, data: Any) -> Any:
        return importlib.import_module("pyarrow.orc").ORCFile(data).read()

    def read_schema(self, file: Any) -> Any:
        return importlib.import_module("pyarrow.orc").ORCFile(file).schema

    def writer(self, target: Any, schema: Any) -> Any:
        orc: Any = importlib.import_module("pyarrow.orc")
        return orc.ORCWriter(target, compression=self._compression)

    def append(self, writer: Any, table: Any) -> None:
        empty = [field.name for field in table.schema if str(field.type) == "null"]
        if empty:
            raise JobExecutionError(
                f"the column {empty[0]!r} has no value in any record of a checkpoint, so its type "
                "is not known. Give the ORC format a pyarrow.Schema."
            )
        writer.write(table)


class _TablePending(PendingFile):
    def __init__(self, schema: Schema, output: _TableOutput) -> None:
        self._schema = schema
        self._output = output
        self._tables: list[Any] = []

    def write(self, values: list[Any]) -> None:
        if values:
            self._tables.append(to_table(values, self._schema))

    def size(self) -> int:
        return sum(table.nbytes for table in self._tables)

    def content(self) -> Content:
        arrow: Any = importlib.import_module("pyarrow")
        table = arrow.concat_tables(self._tables, promote_options="permissive")
        self._tables = []
        output = arrow.BufferOutputStream()
        with self._output.writer(output, table.schema) as writer:
            self._output.append(writer, table)
        data = output.getvalue().to_pybytes()
        return Content(len(data), "", lambda: iter((data,)))


_CODECS: Final = ("null", "deflate", "bzip2", "xz")


def _avro_output(schema: AvroSchema, compression: str) -> OutputFormat:
    if not isinstance(schema, AvroSchema):
        raise ProgramError(
            f"Avro files need an AvroSchema, as AvroSchema.parse_string(...), not {schema!r:.80}."
        )
    if compression not in _CODECS:
        raise ProgramError(
            f"Avro files cannot be compressed by {compression!r}; choose {', '.join(_CODECS)}."
        )
    encode = _AvroEncoder(schema, compression)
    return Encoder(encode, encode.header)


class _AvroEncoder:
    """Makes blocks of Avro; with the same header and mark, those of many epochs are one file."""

    def __init__(self, schema: AvroSchema, compression: str) -> None:
        self._schema = schema
        self._compression = compression
        fields = schema.parsed.get("fields", ()) if isinstance(schema.parsed, dict) else ()
        self._names = [field["name"] for field in fields]
        self._mark = hashlib.md5(str(schema).encode(), usedforsecurity=False).digest()
        self.header = self._written([])

    def _written(self, records: list[Any]) -> bytes:
        output = io.BytesIO()
        library, schema = avro_library(), self._schema.parsed
        library.writer(output, schema, records, self._compression, sync_marker=self._mark)
        return output.getvalue()

    def __call__(self, values: list[Any]) -> bytes:
        records = list(map(self._plain, values)) if self._names else values
        try:
            return self._written(records)[len(self.header) :]
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            self._refuse(records)
            raise JobExecutionError(f"records cannot be written as Avro: {error!r}") from error

    def _plain(self, value: Any) -> Any:
        if hasattr(value, "get_row_kind"):
            if value._fields is not None:
                return value.as_dict(True)
            value = tuple(value)
        if isinstance(value, tuple) and len(value) == len(self._names):
            return dict(zip(self._names, value, strict=True))
        return value

    def _refuse(self, records: list[Any]) -> None:
        for record in records:
            try:
                self._written([record])
            except Exception as error:
                raise JobExecutionError(
                    f"the record {shorten(record)} does not fit the Avro schema: {error!r:.300}"
                ) from error
