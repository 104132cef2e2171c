"""What `print()` and `FileSink` write: records of a declared type look as they do in PyFlink.

There, rows are written by Python and all other declared types by Java: `+I[a,1]`, `(a,1)`,
`[1, 2]`, `{a=1}`, `true`. Records without a declared type are written by `str`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.connectors.print_sink import format_row
from penstock.core.row import Row
from penstock.core.types import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types

__all__ = ["formatter_of", "text_of"]


def formatter_of(type_info: TypeInformation) -> Callable[[Any], str]:
    """Returns what makes the text of a record of a type."""
    if isinstance(type_info, RowTypeInfo):
        return format_row
    if isinstance(type_info, PickledBytesTypeInfo) or type_info == Types.STRING():
        return str
    return java_text


def text_of(type_info: TypeInformation) -> Callable[[Any], str]:
    """Returns what makes the text of a record in a file, where Java writes rows as well."""
    return java_text if isinstance(type_info, RowTypeInfo) else formatter_of(type_info)


def java_text(value: Any) -> str:
    """Returns the text that Java's `toString` would give."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(map(java_text, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(java_text, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, dict):
        pairs = (f"{java_text(key)}={java_text(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)
