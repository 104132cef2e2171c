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

CsvBulkWriters = unsupported_class("datastream.formats.csv.CsvBulkWriters")
CsvReaderFormat = unsupported_class("datastream.formats.csv.CsvReaderFormat")
CsvRowDeserializationSchema = unsupported_class(
    "datastream.formats.csv.CsvRowDeserializationSchema"
)
CsvRowSerializationSchema = unsupported_class("datastream.formats.csv.CsvRowSerializationSchema")
CsvSchema = unsupported_class("datastream.formats.csv.CsvSchema")
CsvSchemaBuilder = unsupported_class("datastream.formats.csv.CsvSchemaBuilder")
