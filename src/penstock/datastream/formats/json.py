"""PyFlink's `datastream.formats.json`: rows as JSON objects."""

from __future__ import annotations

from penstock.connectors.formats.json_output import (
    JsonRowSerializationSchema as JsonRowSerializationSchema,
)
from penstock.connectors.formats.json_rows import (
    JsonRowDeserializationSchema as JsonRowDeserializationSchema,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
