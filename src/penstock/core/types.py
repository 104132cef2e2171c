"""Types that a program declares, and what follows from them.

Records are ordinary Python objects everywhere; a declared type is a promise about them. It is used
three times: `converter` makes the object that PyFlink would have made (a tuple becomes a `Row` with
names), `mismatch` says in a sentence why a record cannot be of the type, and state and tables take
their schema from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.core.basic_types import (
    BasicType,
    BasicTypeInfo,
    Converter,
    DateTypeInfo,
    InstantTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.core.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    checked_type,
)
from penstock.core.errors import ProgramError

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "Converter",
    "DataTypes",
    "DateTypeInfo",
    "Field",
    "InstantTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "checked_type",
]


class _Maker:
    """Makes a type that has no parts; its name is what `checked_type` shows."""

    def __init__(self, made: Callable[[], TypeInformation]) -> None:
        self._made = made

    def __set_name__(self, owner: type, name: str) -> None:
        self.__qualname__ = f"{owner.__name__}.{name}"

    def __call__(self) -> TypeInformation:
        return self._made()


class Types:
    """Makers of types."""

    STRING = _Maker(BasicTypeInfo.STRING_TYPE_INFO)
    BYTE = _Maker(BasicTypeInfo.BYTE_TYPE_INFO)
    BOOLEAN = _Maker(BasicTypeInfo.BOOLEAN_TYPE_INFO)
    SHORT = _Maker(BasicTypeInfo.SHORT_TYPE_INFO)
    INT = _Maker(BasicTypeInfo.INT_TYPE_INFO)
    LONG = _Maker(BasicTypeInfo.LONG_TYPE_INFO)
    FLOAT = _Maker(BasicTypeInfo.FLOAT_TYPE_INFO)
    DOUBLE = _Maker(BasicTypeInfo.DOUBLE_TYPE_INFO)
    CHAR = _Maker(BasicTypeInfo.CHAR_TYPE_INFO)
    BIG_INT = _Maker(BasicTypeInfo.BIG_INT_TYPE_INFO)
    BIG_DEC = _Maker(BasicTypeInfo.BIG_DEC_TYPE_INFO)
    INSTANT = _Maker(BasicTypeInfo.INSTANT_TYPE_INFO)
    SQL_DATE = _Maker(DateTypeInfo)
    SQL_TIME = _Maker(TimeTypeInfo)
    SQL_TIMESTAMP = _Maker(TimestampTypeInfo)
    PICKLED_BYTE_ARRAY = _Maker(PickledBytesTypeInfo)
    """Any Python object."""

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row whose fields are called f0, f1 and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str], field_types: Sequence[TypeInformation]
    ) -> RowTypeInfo:
        """A row with names."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        return ListTypeInfo(element_type_info)


# PyFlink's `DataTypes`, for the formats whose schemas are made of them: `Types` by other names.


class Field(NamedTuple):
    """A field of a row."""

    name: str
    type_info: TypeInformation


def _same(kind: Callable[[], TypeInformation]) -> Callable[..., TypeInformation]:
    """Makes one type; whether it may be None, and how long it is, is not declared here."""
    return staticmethod(lambda *_, **__: kind())


class DataTypes:
    """What PyFlink's formats for files call the types of fields.

    Each is the one of `Types` that has such values. There is no Table API to use them with.

    Example:
        >>> from penstock.table import DataTypes
        >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT())])
        Types.ROW_NAMED(['id'], [Types.INT()])
    """

    BOOLEAN = _same(Types.BOOLEAN)
    TINYINT = _same(Types.BYTE)
    SMALLINT = _same(Types.SHORT)
    INT = _same(Types.INT)
    BIGINT = _same(Types.LONG)
    FLOAT = _same(Types.FLOAT)
    DOUBLE = _same(Types.DOUBLE)
    DECIMAL = _same(Types.BIG_DEC)
    CHAR = _same(Types.STRING)
    VARCHAR = _same(Types.STRING)
    STRING = _same(Types.STRING)
    BINARY = _same(lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()))
    VARBINARY = BINARY
    BYTES = BINARY
    DATE = _same(Types.SQL_DATE)
    TIME = _same(Types.SQL_TIME)
    TIMESTAMP = _same(Types.SQL_TIMESTAMP)
    TIMESTAMP_LTZ = _same(Types.INSTANT)
    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Declares lists."""
        return Types.LIST(element_type)

    @staticmethod
    def MAP(
        key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True
    ) -> TypeInformation:
        """Declares dicts."""
        return Types.MAP(key_type, value_type)

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> Field:
        """Declares a field of a row."""
        return Field(name, data_type)

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> RowTypeInfo:
        """Declares rows.

        Args:
            row_fields: Each made by `FIELD`, or a type; its name is then `f0`, `f1` and so on.
            nullable: Has no effect.
        """
        fields = [
            each if isinstance(each, Field) else Field(f"f{at}", each)
            for at, each in enumerate(row_fields)
        ]
        for each in fields:
            if not isinstance(each.type_info, TypeInformation):
                raise ProgramError(
                    f"the field {each.name!r} has {each.type_info!r:.80} as its type; use "
                    "DataTypes or Types, with parentheses."
                )
        return Types.ROW_NAMED([each.name for each in fields], [each.type_info for each in fields])
