"""PyFlink's `common.serialization`: between records and bytes."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder
from penstock.connectors.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.core.refused_names import names_of

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
]

__getattr__ = names_of(__name__)


def SimpleStringEncoder(charset_name: str = "UTF-8") -> Encoder:
    """Makes the encoder of `Encoder.simple_string_encoder`, as programs of Flink 1 do."""
    return Encoder.simple_string_encoder(charset_name)
