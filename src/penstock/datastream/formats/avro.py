"""PyFlink's `datastream.formats.avro`: rows as records of Avro, and files of them."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import AvroBulkWriters
from penstock.connectors.files.block_formats import AvroFormat, AvroInputFormat
from penstock.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.connectors.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.core.refused_names import names_of

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]

__getattr__ = names_of(__name__)
