"""PyFlink's `datastream.formats.avro`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

AvroBulkWriters = unsupported_class("datastream.formats.avro.AvroBulkWriters")
AvroInputFormat = unsupported_class("datastream.formats.avro.AvroInputFormat")
AvroRowDeserializationSchema = unsupported_class(
    "datastream.formats.avro.AvroRowDeserializationSchema"
)
AvroRowSerializationSchema = unsupported_class("datastream.formats.avro.AvroRowSerializationSchema")
AvroSchema = unsupported_class("datastream.formats.avro.AvroSchema")
GenericRecordAvroTypeInfo = unsupported_class("datastream.formats.avro.GenericRecordAvroTypeInfo")
