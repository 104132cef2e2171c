"""PyFlink's `datastream.formats.csv`: rows as lines of CSV, and files of them."""

from __future__ import annotations

from penstock.connectors.files.csv_schema import (
    CsvBulkWriters as CsvBulkWriters,
    CsvReaderFormat as CsvReaderFormat,
    CsvSchema as CsvSchema,
    CsvSchemaBuilder as CsvSchemaBuilder,
)
from penstock.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema as CsvRowDeserializationSchema,
    CsvRowSerializationSchema as CsvRowSerializationSchema,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
