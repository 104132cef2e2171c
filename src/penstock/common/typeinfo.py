"""PyFlink's `common.typeinfo`: declared types."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.core.types import (
    BasicArrayTypeInfo as BasicArrayTypeInfo,
    BasicType as BasicType,
    BasicTypeInfo as BasicTypeInfo,
    DateTypeInfo as DateTypeInfo,
    InstantTypeInfo as InstantTypeInfo,
    ListTypeInfo as ListTypeInfo,
    MapTypeInfo as MapTypeInfo,
    ObjectArrayTypeInfo as ObjectArrayTypeInfo,
    PickledBytesTypeInfo as PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo as PrimitiveArrayTypeInfo,
    RowTypeInfo as RowTypeInfo,
    SqlTimeTypeInfo as SqlTimeTypeInfo,
    TimestampTypeInfo as TimestampTypeInfo,
    TimeTypeInfo as TimeTypeInfo,
    TupleTypeInfo as TupleTypeInfo,
    TypeInformation as TypeInformation,
    Types as Types,
)

__getattr__ = facade(__name__)
