"""PyFlink's `common.serialization`: between records and bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.connectors.file_sink.encoders import BulkWriterFactory, Encoder
from penstock.connectors.files.formats import checked_charset
from penstock.core.refused_names import names_of

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
]

__getattr__ = names_of(__name__)


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


def SimpleStringEncoder(charset_name: str = "UTF-8") -> Encoder:
    """Makes the encoder of `Encoder.simple_string_encoder`, as programs of Flink 1 do."""
    return Encoder.simple_string_encoder(charset_name)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: Any) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message
