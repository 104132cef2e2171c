"""Rows of a DataFrame as Parquet files, one batch or all, and the source that reads them.

Small batches come to the driver as Arrow and are written there: Spark's own writer starts several
processes for the permissions of each file, which takes longer than everything else about such a
batch. Large ones, and the first, whose size is not known, are written by Spark's tasks.

Files are named relative to the source's directory: a job that goes on elsewhere writes the rows
again, and positions in them still stand.
"""

from __future__ import annotations

import datetime as dt
import importlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.inputs import look_up
from penstock.connectors.files.parquet_format import ParquetFormat
from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.core.row import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.files.formats import BulkFormat
    from penstock.core.records import ColumnName

SMALL_ROWS: Final = 20_000
"""A batch is expected to be small if the one before had at most so many rows."""
SMALL_BYTES: Final = 32 << 20
"""And so many bytes: they pass the driver."""
_SAME_IN_ARROW: Final = frozenset(
    {
        *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
        *("string", "char", "varchar", "binary", "date", "timestamp", "timestamp_ntz"),
        *("array", "map", "struct"),
    }
)
"""Types whose values are the same whether Spark writes Parquet or Arrow does."""


@dataclass(frozen=True, slots=True)
class BatchFiles(Source):
    """Reads the rows of a DataFrame."""

    directory: str  # Where their files are.
    records: BulkFormat
    is_bounded: bool  # Whether the DataFrame ends.
    # Finds splits; lives in the driver and does not travel.
    discovers: Callable[[Any], Discovery] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchFiles, (self.directory, self.records, self.is_bounded)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def discover(self, state: Any, now_ms: int) -> Discovery:
        assert self.discovers is not None
        return self.discovers(state)

    def create_reader(self) -> SourceReader:
        return _BatchReader(self.directory, self.records.create_reader())

    def with_columns(self, columns: tuple[ColumnName, ...]) -> Source:
        return replace(self, records=self.records.with_columns(columns))

    @property
    def has_micro_batches(self) -> bool:
        # Spark's partitions have no order; a bounded DataFrame is one batch.
        return True

    def default_name(self) -> str:
        return "Spark DataFrame"


class _BatchReader(SourceReader):
    def __init__(self, directory: str, reader: SourceReader) -> None:
        self._directory = directory
        self._reader = reader

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        path = f"{self._directory}/{split.data['file']}"
        file = look_up(path)
        if file is None:
            raise JobExecutionError(
                f"the rows of a DataFrame are not at {path}: io.tmp.dirs must be a directory that "
                "Spark's driver and all executors share."
            )
        data = {"path": path, "size": file.size_bytes, "version": file.version}
        found = replace(split, data={**data, "groups": split.data["groups"]})
        return self._reader.read(found, position, budget)

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A batch as it lies there."""

    splits: tuple[Split, ...]  # What subtasks read.
    rows: tuple[int, ...]  # By split.
    group_rows: int  # Rows that were put into one split; 0 when Spark wrote the files.
    size_bytes: int  # Of all rows, as Parquet encodes them.


def row_format(df: DataFrame) -> BulkFormat:
    """Returns what makes a DataFrame's rows of such files.

    Raises:
        ProgramError: Two columns have one name.
    """
    columns = list(df.columns)
    if len(set(columns)) != len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ProgramError(
            f"the DataFrame has two columns named {twice!r}; rename one with withColumnRenamed."
        )
    described = [(field.name, _value_kind(field.dataType)) for field in df.schema.fields]
    kinds = tuple((at, name, kind) for at, (name, kind) in enumerate(described) if kind)
    return ParquetFormat(
        columns=columns, records="row", finish=SparkValues(kinds) if kinds else None
    )


_ValueKind = tuple[str, tuple[str, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SparkValues:
    """Makes PySpark's values of pyarrow's: structs become rows, maps become dicts.

    A timestamp is an instant. PySpark gives it in the local time of the process, which only fits
    there; here it is in UTC and says so.
    """

    kinds: tuple[tuple[int, str, _ValueKind], ...]  # Of the columns that differ.

    def of_lists(self, columns: list[list[Any]]) -> None:
        for at, _, kind in self.kinds:
            columns[at] = list(map(_maker(kind), columns[at]))

    def of_table(self, table: Any) -> Any:
        arrow: Any = importlib.import_module("pyarrow")
        for _, name, kind in self.kinds:
            at = table.schema.get_field_index(name)
            if at >= 0 and kind[0] == "timestamp":
                zoned = table.column(at).cast(arrow.timestamp("us", "UTC"))
                table = table.set_column(at, name, zoned)
        return table


def _value_kind(kind: Any) -> _ValueKind | None:
    """Describes a type of Spark whose values differ from pyarrow's; None if they do not."""
    name = kind.typeName()
    if name == "timestamp":
        return name, (), ()
    if name == "map":
        return name, (), (_value_kind(kind.keyType), _value_kind(kind.valueType))
    if name == "struct":
        parts = tuple(_value_kind(field.dataType) for field in kind.fields)
        return name, tuple(field.name for field in kind.fields), parts
    if name == "array" and (part := _value_kind(kind.elementType)) is not None:
        return name, (), (part,)
    return None


def _maker(kind: _ValueKind | None) -> Callable[[Any], Any]:
    """Returns what makes such a value of pyarrow's; nulls stay."""
    if kind is None:
        return lambda value: value
    name, fields, parts = kind
    makers = [_maker(part) for part in parts]
    if name == "timestamp":
        return lambda value: value if value is None else value.replace(tzinfo=dt.UTC)
    if name == "array":
        (item,) = makers
        return lambda value: value if value is None else list(map(item, value))
    if name == "map":
        key, item = makers
        return lambda value: (
            value if value is None else {key(name): item(each) for name, each in value}
        )

    def row(value: dict[str, Any] | None) -> Row | None:
        if value is None:
            return None
        return Row.of_names(
            fields, [make(value[name]) for name, make in zip(fields, makers, strict=True)]
        )

    return row


def comes_as_arrow(df: DataFrame) -> bool:
    """Whether rows read from files that Arrow writes equal those of files that Spark writes."""
    kinds = _kinds(df.schema)
    return kinds <= _SAME_IN_ARROW


def _kinds(kind: Any) -> set[str]:
    parts = [field.dataType for field in getattr(kind, "fields", ())]
    parts += [
        getattr(kind, name)
        for name in ("elementType", "keyType", "valueType")
        if hasattr(kind, name)
    ]
    return {kind.typeName()}.union(*map(_kinds, parts))


def write_batch(
    df: DataFrame, directory: str, name: str, *, group_rows: int = 0, parts: int = 0
) -> WrittenBatch:
    """Writes a batch.

    Args:
        df: Its rows.
        directory: That of the source.
        name: A directory of the batch in there; replaced if it exists.
        group_rows: Rows of each split, for a batch that was cut so before.
        parts: Number of splits, for a small batch that is written the first time.
    """
    target = Path(directory, name)
    shutil.rmtree(target, ignore_errors=True)
    table = _collected(df) if group_rows or parts else None
    if table is None:
        group_rows = 0
        # Spark names the files at random, but numbers them first.
        df.write.parquet(str(target))
        files = sorted(path for path in target.iterdir() if path.name.startswith("part-"))
    else:
        group_rows = group_rows or max(1, -(-table.num_rows // parts))
        target.mkdir(parents=True)
        files = [target / "rows"]
        _parquet().write_table(table, files[0], row_group_size=group_rows)
    splits: list[Split] = []
    rows: list[int] = []
    size = 0
    for number, path in enumerate(files):
        file = f"{name}/part-{number}.parquet"
        metadata = _parquet().read_metadata(path)
        path.rename(Path(directory, file))
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            size += metadata.row_group(group).total_byte_size
            if count:
                splits.append(Split(f"{file}#{group}", {"file": file, "groups": (group,)}))
                rows.append(count)
    return WrittenBatch(tuple(splits), tuple(rows), group_rows, size)


def _parquet() -> Any:
    return importlib.import_module("pyarrow.parquet")


def _collected(df: DataFrame) -> Any:
    """Returns the rows as an Arrow table; None if there are too many, or times out of range."""
    arrow: Any = importlib.import_module("pyarrow")
    try:
        table = df.toArrow()
    except Exception as error:
        if "maxResultSize" not in str(error):
            raise
        return None
    plain = arrow.schema(
        [field.with_type(_as_parquet(field.type, arrow)) for field in table.schema]
    )
    try:
        return table if plain == table.schema else table.cast(plain)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        return None


def _as_parquet(kind: Any, arrow: Any) -> Any:
    """Returns the type that is read from what Spark writes: timestamps in UTC without a zone."""
    if arrow.types.is_timestamp(kind) and kind.tz is not None:
        return arrow.timestamp("us")
    if arrow.types.is_list(kind):
        return arrow.list_(kind.value_field.with_type(_as_parquet(kind.value_type, arrow)))
    if arrow.types.is_map(kind):
        return arrow.map_(_as_parquet(kind.key_type, arrow), _as_parquet(kind.item_type, arrow))
    if arrow.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return arrow.struct([field.with_type(_as_parquet(field.type, arrow)) for field in fields])
    return kind
