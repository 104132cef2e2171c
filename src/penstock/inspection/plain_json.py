"""Values of state as JSON has them, and keys as somebody types them.

What has no JSON form is a dict with one key that starts with `$`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.core.row import Row
from penstock.state.pickles import Opaque

_SIMPLE: Final = frozenset({type(None), bool, int, str})
_LARGEST_FLOAT: Final = 1.7976931348623157e308


def to_json(value: Any) -> Any:  # noqa: PLR0911 - one branch per family
    """Returns a value in a form that `json.dumps` can write."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is float:
        return value if abs(value) <= _LARGEST_FLOAT else {"$repr": repr(value)}
    if kind is list:
        return [to_json(part) for part in value]
    if kind is tuple:
        return {"$tuple": [to_json(part) for part in value]}
    if kind is bytes or kind is bytearray:
        return {"$bytes": value.hex()}
    if kind is Opaque:
        return {"$pickle": value.size_bytes}
    if isinstance(value, Row):
        fields = [to_json(part) for part in value]
        if value._fields is None:
            return {"$row": fields}
        return dict(zip(value._fields, fields, strict=True))
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: to_json(part) for key, part in value.items()}
        return {"$map": [[to_json(key), to_json(part)] for key, part in value.items()]}
    return {"$repr": repr(value)}


def is_key(key: Any, text: str) -> bool:
    """Returns whether a text means a key: the key itself, its JSON or its Python form."""
    if key == text or repr(key) == text or str(key) == text:
        return True
    try:
        typed = json.loads(text)
    except ValueError:
        return False
    return bool(key == typed or (isinstance(typed, list) and key == tuple(typed)))
