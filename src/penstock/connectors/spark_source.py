"""DataFrames as sources. The runtime, which owns the Spark session, decides how to read them.

A `SparkSource` only names a DataFrame. A bounded one can be materialised once as Parquet, which is
then read like any other files: in ranges, from positions, replayable. A streaming one is the
runtime's to deal with.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.files.formats import BulkFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Boundedness
from penstock.core.errors import ProgramError, UnsupportedError

if TYPE_CHECKING:
    from penstock.core.columns import ColumnName


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource:
    """A DataFrame of the user's.

    Attributes:
        df: The DataFrame, batch or streaming; never pickled.
    """

    df: Any

    def __post_init__(self) -> None:
        if not (hasattr(self.df, "isStreaming") and hasattr(self.df, "schema")):
            raise ProgramError(f"from_spark needs a DataFrame, not {type(self.df).__name__}.")

    @property
    def boundedness(self) -> Boundedness:
        """Whether it ends; as of any source."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.is_streaming else Boundedness.BOUNDED

    @property
    def is_streaming(self) -> bool:
        """Whether it never ends."""
        return bool(self.df.isStreaming)

    def with_columns(self, columns: tuple[ColumnName, ...]) -> SparkSource:
        """Returns this source: the files that take its place have all columns."""
        return self


def materialise(df: Any, scratch_dir: str, name: str = "") -> FileSource:
    """Writes a bounded DataFrame to Parquet, once, and returns a source of its rows.

    Args:
        df: The DataFrame; its rows become `Row`s with the names of its columns.
        scratch_dir: A directory that every worker and Spark itself reach under this path.
        name: Tells several DataFrames of one job apart, such as the uid of the source.
    """
    if df.isStreaming:
        raise UnsupportedError(
            "a streaming DataFrame cannot be written to files first. Give from_spark a DataFrame "
            "made by spark.read, or watch the files with FileSource...monitor_continuously(...)."
        )
    columns = list(df.columns)
    if len(set(columns)) != len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ProgramError(
            f"the DataFrame has two columns named {twice!r}; rename one with withColumnRenamed."
        )
    digest = hashlib.sha256(f"{name}/{df.schema.json()}".encode()).hexdigest()[:16]
    path = f"{scratch_dir.rstrip('/')}/source-{digest}"
    # What an attempt before this one left incomplete is replaced.
    df.write.mode("overwrite").parquet(path)
    records = BulkFormat.parquet_format(columns=columns, records="row")
    return FileSource.for_bulk_file_format(records, path).build()
