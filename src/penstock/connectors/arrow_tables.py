"""Records as Arrow tables, for sinks that write columns.

Rows, dicts, named tuples and data classes have named columns; tuples and lists have `_1`, `_2` ...,
as in Spark; anything else is one column `value`. Types are inferred unless a schema is given.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

from penstock.core.errors import JobExecutionError, ProgramError

Schema = Any
"""A `pyarrow.Schema`, a list of column names, or None."""


def to_table(values: list[Any], schema: Schema = None) -> Any:
    """Returns the records as a `pyarrow.Table`.

    Args:
        values: The records; all of one shape.
        schema: A `pyarrow.Schema`, or names of columns, or None to infer both.
    """
    arrow: Any = importlib.import_module("pyarrow")
    names, columns = _columns(values, _names_of(schema))
    types = {field.name: field.type for field in schema} if isinstance(schema, arrow.Schema) else {}
    arrays = []
    for name, column in zip(names, columns, strict=True):
        try:
            arrays.append(arrow.array(column, type=types.get(name)))
        except (arrow.ArrowException, TypeError, OverflowError) as error:
            wanted = f" as {types[name]}" if name in types else ""
            raise JobExecutionError(
                f"column {name!r} cannot be written{wanted}: {error}. Give the sink a "
                "pyarrow.Schema that fits, or convert the records before."
            ) from error
    if types:
        return arrow.Table.from_arrays(arrays, schema=schema)
    return arrow.Table.from_arrays(arrays, names=names)


def checked_schema(schema: Schema) -> Schema:
    """Returns a schema; a text is refused, whose letters would be taken for columns."""
    if isinstance(schema, str):
        raise ProgramError(
            f"the schema is the text {schema!r:.80}; give a list of column names, or a "
            "pyarrow.Schema."
        )
    return schema


def _names_of(schema: Schema) -> list[str] | None:
    if schema is None:
        return None
    return list(schema.names) if hasattr(schema, "names") else list(schema)


def _columns(values: list[Any], names: list[str] | None) -> tuple[list[str], list[list[Any]]]:
    """Returns names and columns of records of one shape."""
    first = values[0] if values else {}
    if isinstance(first, dict):
        return _of_dicts(values, names)
    found, rows = _rows(values, first)
    if names is None:
        names = found
    width = len(names)
    if set(map(len, rows)) - {width}:
        row = next(row for row in rows if len(row) != width)
        raise JobExecutionError(
            f"a record has {len(row)} fields instead of {width}: {row!r:.200}. All records of a "
            "table have the same columns."
        )
    return names, [list(column) for column in zip(*rows, strict=True)]


def _of_dicts(
    values: list[dict[str, Any]], names: list[str] | None
) -> tuple[list[str], list[list[Any]]]:
    known = dict.fromkeys(name for value in values for name in value)
    if names is None:
        names = list(known)
    unknown = [name for name in known if name not in names]
    if unknown:
        raise JobExecutionError(
            f"a record has a column {unknown[0]!r} that the schema does not: {', '.join(names)}."
        )
    return names, [[value.get(name) for value in values] for name in names]


def _rows(values: list[Any], first: Any) -> tuple[list[str], Sequence[Any]]:
    """Returns names and rows; the first record says what all are."""
    if hasattr(first, "get_row_kind"):
        named = getattr(first, "_fields", None)
        return list(named) if named else _numbered(len(first)), [tuple(value) for value in values]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return list(first._fields), values
    if isinstance(first, tuple | list):
        return _numbered(len(first)), values
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        return names, [tuple(getattr(value, name) for name in names) for value in values]
    return ["value"], [(value,) for value in values]


def _numbered(count: int) -> list[str]:
    return [f"_{number}" for number in range(1, count + 1)]
