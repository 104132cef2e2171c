"""PyFlink's `datastream.formats.avro`: rows as records of Avro, and files of them."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import AvroBulkWriters as AvroBulkWriters
from penstock.connectors.files.block_formats import (
    AvroFormat as AvroFormat,
    AvroInputFormat as AvroInputFormat,
)
from penstock.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema as AvroRowDeserializationSchema,
    AvroRowSerializationSchema as AvroRowSerializationSchema,
    AvroSchema as AvroSchema,
    GenericRecordAvroTypeInfo as GenericRecordAvroTypeInfo,
)
from penstock.connectors.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema as ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema as ConfluentRegistryAvroSerializationSchema,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
