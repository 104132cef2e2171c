"""Entries of state as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.failures import WrongUsageError
from penstock.cli.tables import table

FORMATS: Final = ("table", "json", "csv", "parquet")
_COLUMNS: Final = ("state", "kind", "subtask", "key", "namespace", "map_key", "value")
_MAX_CELL: Final = 120


def checked_output(kind: str, output: str | None) -> Path | None:
    """Returns the file to write; None for the standard output."""
    if kind == "parquet" and output is None:
        raise WrongUsageError("Parquet is not for terminals; name a file with -o.")
    return None if output is None else Path(output)


def write_entries(found: dict[str, Any], kind: str, output: Path | None) -> None:
    """Writes entries in a format."""
    entries = found["entries"]
    columns = [name for name in _COLUMNS if any(name in entry for entry in entries)]
    columns = columns or ["state", "kind", "key", "value"]
    if kind == "parquet":
        assert output is not None
        _write_parquet(columns, entries, output)
        return
    if kind == "json":
        text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    elif kind == "csv":
        text = _csv(columns, entries)
    else:
        rows = [[_cell(entry.get(name)) for name in columns] for entry in entries]
        text = table([name.replace("_", " ").upper() for name in columns], rows) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _cell(value: Any) -> Any:
    """Returns a value for a table: numbers stay numbers, long texts are cut."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = _text(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _csv(columns: Sequence[str], entries: Sequence[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for entry in entries:
        cells = (entry.get(name) for name in columns)
        writer.writerow(["" if cell is None else _text(cell) for cell in cells])
    return buffer.getvalue()


def _write_parquet(columns: Sequence[str], entries: Sequence[dict[str, Any]], output: Path) -> None:
    """Writes a column with one kind of value as that kind, others as JSON text."""
    pa = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    arrays = {}
    for name in columns:
        cells = [entry.get(name) for entry in entries]
        kinds = {type(cell) for cell in cells if cell is not None}
        plain = len(kinds) <= 1 and kinds <= {bool, int, float, str}
        try:
            arrays[name] = pa.array(cells if plain else [_json_or_none(cell) for cell in cells])
        except (pa.ArrowInvalid, OverflowError):
            # A whole number beyond 64 bits.
            arrays[name] = pa.array([_json_or_none(cell) for cell in cells])
    parquet.write_table(pa.table(arrays), output)


def _json_or_none(cell: Any) -> str | None:
    return None if cell is None else json.dumps(cell, ensure_ascii=False)
