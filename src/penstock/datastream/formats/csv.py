"""PyFlink's `datastream.formats.csv`: rows as lines of CSV, and files of them."""

from __future__ import annotations

from penstock.connectors.files.csv_schema import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from penstock.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.core.refused_names import names_of

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

__getattr__ = names_of(__name__)
