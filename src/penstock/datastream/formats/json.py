"""PyFlink's `datastream.formats.json`: rows as JSON objects."""

from __future__ import annotations

from penstock.connectors.formats.json_output import JsonRowSerializationSchema
from penstock.connectors.formats.json_rows import JsonRowDeserializationSchema
from penstock.core.refused_names import names_of

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]

__getattr__ = names_of(__name__)
