"""PyFlink's `DataTypes`, for the formats whose schemas are made of them: `Types` by other names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.basic_types import TypeInformation
from penstock.core.errors import ProgramError
from penstock.core.types import Types

if TYPE_CHECKING:
    from penstock.core.composite_types import RowTypeInfo

Made = Callable[..., TypeInformation]


class Field(NamedTuple):
    """A field of a row."""

    name: str
    type_info: TypeInformation


def _same(kind: Callable[[], TypeInformation]) -> Made:
    """Makes one type; whether it may be None, and how long it is, is not declared here."""

    def made(*_: Any, **__: Any) -> TypeInformation:
        return kind()

    return staticmethod(made)


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
