"""What a declared type is, and the types of single values: numbers, texts, dates."""

from __future__ import annotations

import datetime
import decimal
import functools
import numbers
from array import array
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

from penstock.core.errors import UnsupportedError, shorten
from penstock.core.times import Instant

Converter = Callable[[Any], Any]


class TypeInformation:
    """Base of all types."""

    @property
    def is_immutable(self) -> bool:
        """Whether records of this type never change, nor anything in them."""
        return False

    def converter(self) -> Converter | None:
        """Returns what turns an accepted record into one of this type; None if nothing does."""
        return None

    def convert_all(self, values: list[Any]) -> list[Any]:
        """Returns a batch of accepted records as records of this type.

        Called with everything an operator emits; a type that converts looks at the whole batch at
        C speed first and hands it back untouched when nothing is to be done.
        """
        convert = self.converter()
        return values if convert is None else [convert(value) for value in values]

    def adopted(self, value: Any) -> Any:
        """Returns a record that a program wrote down itself, as Flink's JVM takes it over.

        There a number becomes text where text is declared, and a whole number loses the bits that
        its type has no room for. Anything else stays as it is.
        """
        return value

    def mismatch(self, value: Any) -> str | None:
        """Returns what is wrong with a record, such as 'declared INT, got str', or None."""
        return None

    def need_conversion(self) -> bool:
        """Returns False: records stay Python objects."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Returns the object itself: there is no second representation."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Returns the object itself: there is no second representation."""
        return obj

    def get_java_type_info(self) -> Any:
        raise UnsupportedError(
            f"{self!r}.get_java_type_info() needs Flink's JVM. Penstock has no Java types; the "
            "TypeInformation itself tells all there is."
        )

    def _parts(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts() == self._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return type(self).__name__

    def _wrong(self, value: Any, more: str = "") -> str:
        return f"declared {self!r}, got {type(value).__name__} {shorten(value, 60)}{more}"


class BasicType(Enum):
    """Names of the basic types."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_WHOLE: Final = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
_REAL: Final = (BasicType.FLOAT, BasicType.DOUBLE)
_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32}
_CODES: Final = {8: "b", 16: "h", 32: "i"}
_PYTHON: Final[dict[BasicType, tuple[Any, ...]]] = {
    BasicType.STRING: (str,),
    BasicType.CHAR: (str,),
    BasicType.BOOLEAN: (bool,),
    BasicType.BIG_INT: (numbers.Integral,),
    BasicType.BIG_DEC: (decimal.Decimal,),
    BasicType.INSTANT: (Instant, datetime.datetime),
    **dict.fromkeys(_WHOLE, (numbers.Integral,)),
    **dict.fromkeys(_REAL, (numbers.Real,)),
}


class BasicTypeInfo(TypeInformation):
    """A number, a text, a boolean.

    A FLOAT has 32 bits; a BYTE, SHORT or INT that does not fit is refused.
    """

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type = basic_type

    is_immutable = True

    def mismatch(self, value: Any) -> str | None:
        if value is None:
            return None
        kind = self._basic_type
        if not isinstance(value, _PYTHON[kind]):
            return self._wrong(value)
        if kind is BasicType.CHAR and len(value) != 1:
            return self._wrong(value, ", which is not one character")
        bits = _BITS.get(kind)
        if bits is not None and not -1 << bits - 1 <= value < 1 << bits - 1:
            return self._wrong(value, f", which does not fit into {bits} bits")
        return None

    def converter(self) -> Converter | None:
        if self._basic_type is BasicType.FLOAT:
            return _to_single
        return _to_float if self._basic_type in _REAL else None

    def convert_all(self, values: list[Any]) -> list[Any]:
        kind, is_float = self._basic_type, set(map(type, values)) == {float}
        bits = _BITS.get(kind)
        if bits is not None:
            # The first one that does not fit raises.
            array(_CODES[bits], (value for value in values if value is not None))
        if kind is BasicType.FLOAT and is_float:
            return array("f", values).tolist()
        if kind not in _REAL or is_float:
            return values
        convert = self.converter()
        assert convert is not None
        return [convert(value) for value in values]

    def adopted(self, value: Any) -> Any:
        kind = self._basic_type
        if kind is BasicType.STRING and isinstance(value, bool | int | float | decimal.Decimal):
            return str(value).lower() if isinstance(value, bool) else str(value)
        bits = 64 if kind is BasicType.LONG else _BITS.get(kind)
        if bits is None or not isinstance(value, int) or isinstance(value, bool):
            return value
        half = 1 << bits - 1
        return (value + half) % (2 * half) - half

    def _parts(self) -> tuple[Any, ...]:
        return (self._basic_type.name,)

    def __str__(self) -> str:
        return self._basic_type.value

    def __repr__(self) -> str:
        return self._basic_type.name

    STRING_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    BOOLEAN_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    BYTE_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    SHORT_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    INT_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    LONG_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    FLOAT_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    DOUBLE_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    CHAR_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    BIG_INT_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    BIG_DEC_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    INSTANT_TYPE_INFO: ClassVar[Callable[[], BasicTypeInfo]]
    """Makers with PyFlink's names."""


def _to_float(value: Any) -> Any:
    return value if value is None else float(value)


def _to_single(value: Any) -> Any:
    return value if value is None else array("f", (value,))[0]


class InstantTypeInfo(BasicTypeInfo):
    """A point in time."""


for _kind in BasicType:
    _made = InstantTypeInfo if _kind is BasicType.INSTANT else BasicTypeInfo
    setattr(BasicTypeInfo, f"{_kind.name}_TYPE_INFO", staticmethod(functools.partial(_made, _kind)))


class _PythonTypeInfo(TypeInformation):
    """A type that is one Python class."""

    python_type: ClassVar[type] = object
    name: ClassVar[str] = ""

    def mismatch(self, value: Any) -> str | None:
        if value is None or isinstance(value, self.python_type):
            return None
        return self._wrong(value)

    def __repr__(self) -> str:
        return self.name


class SqlTimeTypeInfo(_PythonTypeInfo):
    """Base of dates and times of day; its makers are PyFlink's."""

    is_immutable = True

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


class DateTypeInfo(SqlTimeTypeInfo):
    """A `datetime.date`."""

    python_type = datetime.date
    name = "SQL_DATE"


class TimeTypeInfo(SqlTimeTypeInfo):
    """A `datetime.time`."""

    python_type = datetime.time
    name = "SQL_TIME"


class TimestampTypeInfo(SqlTimeTypeInfo):
    """A `datetime.datetime`."""

    python_type = datetime.datetime
    name = "SQL_TIMESTAMP"


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; what is meant when no type is declared."""

    def __repr__(self) -> str:
        return "PICKLED_BYTE_ARRAY"

    def __str__(self) -> str:
        return "PickledByteArrayTypeInfo"
