"""PyFlink's `common.serialization`: between records and bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.common.unsupported import unsupported_class
from penstock.connectors.file_sink.encoders import BulkWriterFactory, Encoder
from penstock.connectors.files.formats import checked_charset

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Makes bytes of a record."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Returns the bytes of a record."""


class DeserializationSchema(ABC):
    """Makes a record of bytes."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Returns the record, or None to leave the message out."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a character set."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = checked_charset(charset)

    def serialize(self, element: Any) -> bytes:
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: Any) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message


RowDataBulkWriterFactory = unsupported_class(__name__, "RowDataBulkWriterFactory")
RowFieldExtractorSchema = unsupported_class(__name__, "RowFieldExtractorSchema")
