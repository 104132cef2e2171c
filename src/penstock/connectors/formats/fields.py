"""Between the fields of a row and text: numbers, dates, bytes, as Flink's formats write them."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import re
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

from penstock.connectors.serialization import SerializationSchema
from penstock.core.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.core.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
)
from penstock.core.errors import ProgramError
from penstock.core.row import Row

Convert = Callable[[Any], Any]

_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


def row_type(type_info: Any, who: str) -> RowTypeInfo:
    """Returns the type of rows that a schema was given.

    Raises:
        ProgramError: It is another type, or none.
    """
    if not isinstance(type_info, RowTypeInfo):
        raise ProgramError(
            f"{who} got the type {type_info!r:.80}, but it makes rows. Give it for example "
            "Types.ROW_NAMED(['id', 'name'], [Types.INT(), Types.STRING()])."
        )
    return type_info


def kind_of(type_info: TypeInformation) -> BasicType | None:
    """Returns which basic type it is; None for others."""
    return type_info._basic_type if isinstance(type_info, BasicTypeInfo) else None


def is_bytes(type_info: TypeInformation) -> bool:
    """Whether values are `bytes`."""
    return isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._is_bytes


def element_of(type_info: TypeInformation) -> TypeInformation | None:
    """Returns the type of the elements of an array or list; None for other types."""
    arrays = BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo, ListTypeInfo
    if is_bytes(type_info) or not isinstance(type_info, arrays):
        return None
    return type_info.element_type


def bits_of(type_info: TypeInformation) -> int | None:
    """Returns how many bits a whole number may have; None for other types."""
    return _BITS.get(kind_of(type_info))  # type: ignore[arg-type]


# -- from text -------------------------------------------------------------------------------------


def whole_number(text: str, bits: int | None) -> int:
    """Returns a whole number as Java's parsers read it.

    Raises:
        ValueError: It is none, or does not fit.
    """
    text = text.strip()
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no whole number")
    number = int(text)
    if bits is not None and not -1 << bits - 1 <= number < 1 << bits - 1:
        raise ValueError(f"{text} does not fit into {bits} bits")
    return number


def real_number(text: str) -> float:
    """Returns a real number.

    Raises:
        ValueError: It is none.
    """
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return float(text)


def single(number: float) -> float:
    """Returns the nearest number of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def shortest_single(number: float) -> float:
    """Returns the number with the fewest digits that is the same in 32 bits, as Java prints it."""
    for digits in range(1, 9):
        short = float(f"{number:.{digits}g}")
        if single(short) == number:
            return short
    return number


def exact_number(text: str) -> decimal.Decimal:
    """Returns a decimal number.

    Raises:
        ValueError: It is none.
    """
    try:
        number = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        number = decimal.Decimal("NaN")
    if "_" in text or not number.is_finite():
        raise ValueError(f"{text!r} is no decimal number")
    return number


def decoded_base64(text: str) -> bytes:
    """Returns the bytes of base64.

    Raises:
        ValueError: It is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:60]!r} is not base64: {error}") from None


def from_text(type_info: TypeInformation) -> Convert | None:
    """Returns what reads a single value from text; None if the type is none of single values."""
    kind, bits = kind_of(type_info), bits_of(type_info)
    if bits is not None:
        return lambda text: whole_number(text, bits)
    if is_bytes(type_info):
        return decoded_base64
    if isinstance(type_info, DateTypeInfo):
        return datetime.date.fromisoformat
    if isinstance(type_info, TimeTypeInfo):
        return lambda text: _in_utc(datetime.time.fromisoformat(text))
    if isinstance(type_info, TimestampTypeInfo):
        return lambda text: _in_utc(datetime.datetime.fromisoformat(text.strip()))
    return _FROM_TEXT.get(kind) if kind is not None else None


def _in_utc(value: Any) -> Any:
    """Returns a time without its zone, which may be UTC only, as in Flink."""
    if value.tzinfo is None:
        return value
    if value.utcoffset():
        raise ValueError(f"{value.isoformat()} is not in UTC")
    return value.replace(tzinfo=None)


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def _character(text: str) -> str:
    if len(text) != 1:
        raise ValueError(f"{text[:60]!r} is not one character")
    return text


_FROM_TEXT: Final[dict[BasicType, Convert]] = {
    BasicType.STRING: str,
    BasicType.CHAR: _character,
    BasicType.BOOLEAN: _boolean,
    BasicType.DOUBLE: real_number,
    BasicType.FLOAT: lambda text: single(real_number(text)),
    BasicType.BIG_INT: lambda text: whole_number(text, None),
    BasicType.BIG_DEC: exact_number,
}


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Reads a whole number as Avro and Protocol Buffers write it; returns also where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at


# -- rows that are written -------------------------------------------------------------------------


def _columns_of(elements: list[Any], type_info: RowTypeInfo, who: str) -> list[list[Any]]:
    """Returns the fields of rows by columns; whatever has the fields of the type is a row.

    Raises:
        ProgramError: One is no such row.
    """
    names, count = tuple(type_info.get_field_names()), len(type_info.get_field_names())
    try:
        rows = elements
        if not all(type(each) is Row and each._fields in (None, names) for each in rows):
            rows = type_info.convert_all(elements)
        values = [row._values for row in rows]
        if set(map(len, values)) <= {count}:
            return list(map(list, zip(*values, strict=True)))
    except Exception as error:
        raise _mismatched(elements, type_info, who, error) from error
    raise _mismatched(elements, type_info, who)


class RowSerializationSchema(SerializationSchema):
    """Base of schemas that make bytes of rows of one type, column by column."""

    _type_info: RowTypeInfo

    def serialize(self, element: Any) -> bytes:
        encoded: bytes = self.serialize_all([element])[0]
        return encoded

    def serialize_all(self, elements: list[Any]) -> list[Any]:
        who = type(self).__name__
        columns = _columns_of(elements, self._type_info, who)
        try:
            return self.encoded(columns)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            raise _mismatched(elements, self._type_info, who, error) from error

    @abstractmethod
    def encoded(self, columns: list[list[Any]]) -> list[bytes]:
        """Returns the bytes of each row."""


def _mismatched(
    elements: Iterable[Any], type_info: TypeInformation, who: str, error: Exception | None = None
) -> ProgramError:
    """Returns the error for records of which one is not of a type."""
    wrong = (type_info.mismatch(each) if each is not None else "it is None" for each in elements)
    text = next((each for each in wrong if each), str(error))
    return ProgramError(
        f"{who} cannot write a record: {text}. Declare the type that the stream has before the "
        "sink, as in map(..., output_type=Types.ROW([...])), and give the schema the same."
    )


def inside(kind: str, convert: Convert | None) -> Convert | None:
    """Returns what converts each element of an array, or each value of a map."""
    if convert is None:
        return None
    if kind == "array":
        return lambda values: [convert(each) for each in values]
    return lambda values: {key: convert(each) for key, each in values.items()}
