"""Rows as messages of Protocol Buffers; PyFlink has them in tables only."""

from __future__ import annotations

from penstock.connectors.formats.protobuf_rows import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)

__all__ = [
    "ProtobufRowDeserializationSchema",
    "ProtobufRowSerializationSchema",
    "ProtobufSchema",
]
