"""PyFlink's `datastream.formats.parquet`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]

AvroParquetReaders = unsupported_class("datastream.formats.parquet.AvroParquetReaders")
AvroParquetWriters = unsupported_class("datastream.formats.parquet.AvroParquetWriters")
ParquetBulkWriters = unsupported_class("datastream.formats.parquet.ParquetBulkWriters")
ParquetColumnarRowInputFormat = unsupported_class(
    "datastream.formats.parquet.ParquetColumnarRowInputFormat"
)
