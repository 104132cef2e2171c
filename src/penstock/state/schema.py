"""Types of state as text, as a snapshot names them, and back.

    LONG    LIST(STRING)    MAP(STRING, DOUBLE)    TUPLE(LONG, STRING)
    ROW(name STRING, `odd name` LIST(LONG))    ROW(LONG, STRING): without names
    PICKLED: any Python object

What is declared as PICKLED anywhere inside is pickled as a whole; `is_data` says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProgramError, StateError
from penstock.core.types import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    checked_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PICKLED: Final = "PICKLED"
PLAIN: Final = "PLAIN"
"""Of no declared type, and stored as data nevertheless: state of our own operators."""

_ELEMENTS: Final = {
    "LIST": ListTypeInfo,
    "PRIMITIVE_ARRAY": PrimitiveArrayTypeInfo,
    "BASIC_ARRAY": BasicArrayTypeInfo,
    "OBJECT_ARRAY": ObjectArrayTypeInfo,
}
LISTS: Final = (ListTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)
_SINGLE: Final = {
    **{kind.name: getattr(Types, kind.name) for kind in BasicType},
    "SQL_DATE": Types.SQL_DATE,
    "SQL_TIME": Types.SQL_TIME,
    "SQL_TIMESTAMP": Types.SQL_TIMESTAMP,
    PICKLED: Types.PICKLED_BYTE_ARRAY,
}
_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|`((?:[^`]|``)*)`|([(),]))")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEEPEST: Final = 50


def schema_text(given: Any, what: str = "a state") -> str:
    """Returns the text of a declared type; "" for None.

    Raises:
        ProgramError: It is no type.
    """
    if given is None:
        return ""
    return _text(checked_type(given, what))


def map_schema_text(key: Any, value: Any, what: str) -> str:
    """Returns the text of a map's two types; "" when neither is declared."""
    if key is None and value is None:
        return ""
    return f"MAP({schema_text(key, what) or PICKLED}, {schema_text(value, what) or PICKLED})"


def _text(given: TypeInformation) -> str:
    if isinstance(given, RowTypeInfo) and given.is_named:
        named = zip(given.get_field_names(), given.get_field_types(), strict=True)
        return f"ROW({', '.join(f'{_quoted(name)} {_text(field)}' for name, field in named)})"
    if isinstance(given, RowTypeInfo | TupleTypeInfo):
        return f"{given.name}({', '.join(map(_text, given.get_field_types()))})"
    if isinstance(given, MapTypeInfo):
        return f"MAP({_text(given.key_type)}, {_text(given.value_type)})"
    if isinstance(given, LISTS):
        return f"{given.name}({_text(given.element_type)})"
    return PICKLED if isinstance(given, PickledBytesTypeInfo) else repr(given)


def _quoted(name: str) -> str:
    is_plain = _PLAIN_NAME.fullmatch(name) and name != PICKLED
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def parse_schema(text: str) -> TypeInformation:
    """Returns the type that a text names.

    Raises:
        StateError: It names none, or one of a newer release.
    """
    tokens = list(_tokens(text))
    try:
        found, end = _parse(tokens, 0, 0)
    except (IndexError, KeyError, TypeError, ProgramError):
        found, end = None, -1
    if found is None or end != len(tokens):
        raise StateError(
            f"a snapshot names the type {text!r:.200}, which this release does not know. Read it "
            "with the release that wrote it, or a newer one."
        )
    return found


def is_data(text: str) -> bool:
    """Returns whether state of that type is stored as data."""
    return bool(text) and all(token != (PICKLED, False) for token in _tokens(text))


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yields (token, whether it is a quoted name)."""
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            yield text[place:], False
            return
        place = found.end()
        if found[2] is not None:
            yield found[2].replace("``", "`"), True
        else:
            yield found[1] or found[3], False


def _parse(tokens: list[tuple[str, bool]], at: int, depth: int) -> tuple[TypeInformation, int]:
    if depth > _DEEPEST:
        raise KeyError(depth)
    word = tokens[at][0]
    if at + 1 == len(tokens) or tokens[at + 1] != ("(", False):
        return _SINGLE[word](), at + 1
    names: list[str] = []
    parts: list[TypeInformation] = []
    at += 1
    while tokens[at] != (")", False):
        at += 1
        following = tokens[at + 1] if at + 1 < len(tokens) else ("", False)
        is_named = following[1] or following[0] not in ("(", ")", ",", "")
        if word == "ROW" and is_named:
            names.append(tokens[at][0])
            at += 1
        if tokens[at] == (")", False) and not parts:
            break
        part, at = _parse(tokens, at, depth + 1)
        parts.append(part)
        if tokens[at] not in ((",", False), (")", False)):
            raise KeyError(tokens[at])
    return _made(word, names, parts), at + 1


def _made(word: str, names: list[str], parts: list[TypeInformation]) -> TypeInformation:
    if word == "ROW":
        return RowTypeInfo(parts, names or None)
    if word == "TUPLE":
        return TupleTypeInfo(parts)
    if word == "MAP":
        return MapTypeInfo(*parts)
    return _ELEMENTS[word](*parts)


def basic_type_of(given: TypeInformation) -> BasicType | None:
    """Returns which basic type it is, or None."""
    return given._basic_type if isinstance(given, BasicTypeInfo) else None
