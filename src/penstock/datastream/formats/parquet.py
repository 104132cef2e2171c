"""PyFlink's `datastream.formats.parquet`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]

AvroParquetReaders = unsupported_class(__name__, "AvroParquetReaders")
AvroParquetWriters = unsupported_class(__name__, "AvroParquetWriters")
ParquetBulkWriters = unsupported_class(__name__, "ParquetBulkWriters")
ParquetColumnarRowInputFormat = unsupported_class(__name__, "ParquetColumnarRowInputFormat")
