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

AvroBulkWriters = unsupported_class(__name__, "AvroBulkWriters")
AvroInputFormat = unsupported_class(__name__, "AvroInputFormat")
AvroRowDeserializationSchema = unsupported_class(__name__, "AvroRowDeserializationSchema")
AvroRowSerializationSchema = unsupported_class(__name__, "AvroRowSerializationSchema")
AvroSchema = unsupported_class(__name__, "AvroSchema")
GenericRecordAvroTypeInfo = unsupported_class(__name__, "GenericRecordAvroTypeInfo")
