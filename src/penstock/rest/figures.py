"""Metrics as pairs of name and value, out of a job's metrics document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException


def with_values(pairs: Mapping[str, Any], get: str | None) -> list[dict[str, Any]]:
    """Returns the names, or the values of those that are asked for; unknown ones are left out."""
    if get is None:
        return [{"id": name} for name in pairs]
    names = [name.strip() for name in get.split(",")]
    return [{"id": name, "value": _text(pairs[name])} for name in names if name in pairs]


def vertex_metric_pairs(document: Mapping[str, Any], vertex_id: str) -> dict[str, Any]:
    """Returns the metrics of a vertex as `<subtask>.<name>` and `<subtask>.<operator>.<name>`."""
    for vertex in document["vertices"]:
        if vertex["id"] == vertex_id:
            break
    else:
        raise HTTPException(404, f"There is no vertex {vertex_id}.")
    pairs: dict[str, Any] = {}
    for subtask in vertex["subtasks"]:
        index = subtask["subtask"]
        pairs |= {f"{index}.{name}": value for name, value in subtask["task"].items()}
        for uid, figures in subtask["operators"].items():
            operator = vertex["operators"].get(uid, uid).replace(" ", "_")
            pairs |= {f"{index}.{operator}.{name}": value for name, value in figures.items()}
    return pairs


def _text(value: Any) -> str:
    # Flink's word for a watermark that has not come is the least number.
    return str(-(2**63)) if value is None else str(value)
