"""Between records and the bytes of a message: the bases, text, and bytes as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from penstock.connectors.files.formats import checked_charset
from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.errors import ProgramError
from penstock.core.types import TypeInformation, Types


class SerializationSchema(ABC):
    """Makes bytes of a record."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Returns the bytes of a record."""

    def serialize_all(self, elements: list[Any]) -> list[Any]:
        """Returns the bytes of each record; override it where many at once cost less."""
        serialize = self.serialize
        return [serialize(element) for element in elements]


class DeserializationSchema(ABC):
    """Makes a record of bytes.

    Attributes:
        may_leave_out: Whether `deserialize` may return None.
    """

    may_leave_out: ClassVar[bool] = True

    @property
    def ignores_errors(self) -> bool:
        """Whether None means a message that cannot be decoded, which is then counted."""
        return False

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Returns the record, or None to leave the message out."""

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """Returns the record of each message; override it where many at once cost less."""
        deserialize = self.deserialize
        # The function may go on changing an object that it has returned.
        return [
            record if type(record := deserialize(message)) in IMMUTABLE else snapshot(record)
            for message in messages
        ]

    def get_produced_type(self) -> TypeInformation | None:
        """Returns the type of the records; None if it is not declared."""
        return None


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a character set."""

    may_leave_out = False

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = checked_charset(charset)

    def serialize(self, element: Any) -> bytes:
        return str(element).encode(self.charset)

    def serialize_all(self, elements: list[Any]) -> list[Any]:
        charset = self.charset
        return [str(element).encode(charset) for element in elements]

    def deserialize(self, message: bytes) -> str:
        return message.decode(self.charset)

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        charset = self.charset
        return [message.decode(charset) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    may_leave_out = False

    def serialize(self, element: Any) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        return messages


class RowFieldExtractorSchema(SerializationSchema):
    """The bytes in one field of a row, as the key or the value of a message.

    Args:
        field_index: Position of the field, from 0.
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ProgramError(f"RowFieldExtractorSchema({field_index}): positions begin at 0.")
        self.field_index = field_index

    def serialize(self, element: Any) -> bytes:
        field = element[self.field_index]
        if not isinstance(field, bytes | bytearray):
            raise ProgramError(
                f"field {self.field_index} of a row is {type(field).__name__}, but "
                "RowFieldExtractorSchema takes bytes. Encode it in a map() before the sink."
            )
        return bytes(field)
