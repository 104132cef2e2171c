"""Types of single values: numbers, texts, dates."""

from __future__ import annotations

import datetime
import decimal
import numbers
from enum import Enum
from typing import Any, ClassVar, Final

from penstock.core.duration import Instant
from penstock.core.type_information import Converter, TypeInformation


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

    Widths are not enforced: a Python `int` does not overflow, whether it is a BYTE or a LONG.
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
        return None

    def converter(self) -> Converter | None:
        return _to_float if self._basic_type in _REAL else None

    def convert_all(self, values: list[Any]) -> list[Any]:
        if self._basic_type not in _REAL or set(map(type, values)) == {float}:
            return values
        return [_to_float(value) for value in values]

    def _parts(self) -> tuple[Any, ...]:
        return (self._basic_type.name,)

    def __repr__(self) -> str:
        return self._basic_type.name

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return InstantTypeInfo(BasicType.INSTANT)


def _to_float(value: Any) -> Any:
    return value if value is None else float(value)


class InstantTypeInfo(BasicTypeInfo):
    """A point in time."""


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
