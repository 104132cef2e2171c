"""PyFlink's `datastream.formats.csv`: rows as lines of CSV."""

from __future__ import annotations

from penstock.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.core.refused_names import names_of

__all__ = [
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
]

__getattr__ = names_of(__name__)
