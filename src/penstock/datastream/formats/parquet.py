"""PyFlink's `datastream.formats.parquet`: files of Parquet."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import ParquetBulkWriters as ParquetBulkWriters
from penstock.connectors.files.parquet_format import (
    ParquetColumnarRowInputFormat as ParquetColumnarRowInputFormat,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
