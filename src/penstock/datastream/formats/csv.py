"""PyFlink's `datastream.formats.csv`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

CsvBulkWriters = unsupported_class(__name__, "CsvBulkWriters")
CsvReaderFormat = unsupported_class(__name__, "CsvReaderFormat")
CsvRowDeserializationSchema = unsupported_class(__name__, "CsvRowDeserializationSchema")
CsvRowSerializationSchema = unsupported_class(__name__, "CsvRowSerializationSchema")
CsvSchema = unsupported_class(__name__, "CsvSchema")
CsvSchemaBuilder = unsupported_class(__name__, "CsvSchemaBuilder")
