"""Keyed state as tables, for pandas and Spark."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.core.errors import EnvironmentError_
from penstock.core.naming import install_extra
from penstock.core.row import Row
from penstock.state.pickles import Opaque

if TYPE_CHECKING:
    from penstock.inspection.reader import StateRow


def to_pandas(rows: Iterable[StateRow]) -> Any:
    """Returns a DataFrame with `key`, `namespace` where there is one, `map_key` for maps, `value`.

    Values are Python objects, as functions see them.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise EnvironmentError_(
            f"state as a DataFrame needs pandas: {install_extra('pandas')}, or iterate over "
            "read_keyed_state()."
        ) from error
    found = list(_flat(rows))
    return pandas.DataFrame(found, columns=_columns(found))


def to_spark(session: Any, rows: Iterable[StateRow]) -> Any:
    """Returns the same as a DataFrame of a Spark session; rows become structs."""
    arrow = importlib.import_module("pyarrow")
    found = [{name: _plain(part) for name, part in row.items()} for row in _flat(rows)]
    columns = {name: [row.get(name) for row in found] for name in _columns(found)}
    return session.createDataFrame(arrow.table(columns))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in ("key", "namespace", "map_key", "value") if name in names] or [
        "key",
        "value",
    ]


def _flat(rows: Iterable[StateRow]) -> Iterator[dict[str, Any]]:
    for row in rows:
        flat = {"key": row.key}
        if row.namespace is not None:
            flat["namespace"] = row.namespace
        if row.kind == "map":
            flat["map_key"], flat["value"] = row.value
        else:
            flat["value"] = row.value
        yield flat


def _plain(value: Any) -> Any:
    """Returns a value as Arrow takes it."""
    if isinstance(value, Row):
        names = value._fields or tuple(f"f{place}" for place in range(len(value)))
        return dict(zip(names, map(_plain, value), strict=True))
    if type(value) is tuple:
        return {f"f{place}": _plain(part) for place, part in enumerate(value)}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, Opaque) or type(value).__module__.startswith("penstock."):
        return str(value)
    return value
