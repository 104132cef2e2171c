"""PyFlink's `datastream.formats.parquet`: files of Parquet."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import ParquetBulkWriters
from penstock.connectors.files.parquet_format import ParquetColumnarRowInputFormat
from penstock.core.refused_names import names_of

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

__getattr__ = names_of(__name__)
