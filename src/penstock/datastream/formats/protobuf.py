"""Rows as messages of Protocol Buffers; PyFlink has them in tables only."""

from __future__ import annotations

from penstock.connectors.formats.protobuf_rows import (
    ProtobufRowDeserializationSchema as ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema as ProtobufRowSerializationSchema,
    ProtobufSchema as ProtobufSchema,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
