"""PyFlink's `datastream.formats.avro`: rows as records of Avro."""

from __future__ import annotations

from penstock.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.core.refused_names import names_of

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
]

__getattr__ = names_of(__name__)
