"""PyFlink's `common.serialization`: between records and bytes."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory as BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder as Encoder
from penstock.connectors.serialization import (
    ByteArraySchema as ByteArraySchema,
    DeserializationSchema as DeserializationSchema,
    RowFieldExtractorSchema as RowFieldExtractorSchema,
    SerializationSchema as SerializationSchema,
    SimpleStringSchema as SimpleStringSchema,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)


def SimpleStringEncoder(charset_name: str = "UTF-8") -> Encoder:
    """Makes the encoder of `Encoder.simple_string_encoder`, as programs of Flink 1 do."""
    return Encoder.simple_string_encoder(charset_name)
