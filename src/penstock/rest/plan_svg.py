"""The plan of a job as a picture: levels from left to right, one box for each vertex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

_WIDTH: Final = 220
_HEIGHT: Final = 56
_GAP_X: Final = 80
_GAP_Y: Final = 24
_MARGIN: Final = 16
_SHOWN: Final = 30
_MOST: Final = 1_000


def plan_svg(plan: Mapping[str, Any]) -> str:
    """Returns the picture of a plan document."""
    nodes = plan["nodes"][:_MOST]
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    for node in nodes:
        level = node.get("level", 0)
        row = rows.get(level, 0)
        rows[level] = row + 1
        x = _MARGIN + level * (_WIDTH + _GAP_X)
        places[node["id"]] = x, _MARGIN + row * (_HEIGHT + _GAP_Y)
    width = 2 * _MARGIN + (max(rows, default=0) + 1) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(rows.values(), default=1) * (_HEIGHT + _GAP_Y) - _GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" role="img" aria-label='
        f"{quoteattr('Plan of ' + plan['name'])}>"
    ]
    for node in nodes:
        x, y = places[node["id"]]
        for edge in node["inputs"]:
            if edge["id"] in places:
                parts.append(_edge(places[edge["id"]], (x, y), edge["ship_strategy"]))
    parts.extend(_box(node, places[node["id"]]) for node in nodes)
    return "".join(parts) + "</svg>"


def _edge(source: tuple[int, int], target: tuple[int, int], label: str) -> str:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    x2, y2 = target[0], target[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return (
        f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="#888"/>'
        f'<text x="{middle}" y="{(y1 + y2) // 2 - 4}" font-size="10" fill="#888" '
        f'text-anchor="middle">{escape(label)}</text>'
    )


def _box(node: Mapping[str, Any], place: tuple[int, int]) -> str:
    x, y = place
    name = str(node["description"])
    shown = name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…"
    return (
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="6" fill="#f6f7f9" stroke="#9aa3ad"/>'
        f'<text x="{x + 10}" y="{y + 24}" font-size="12" fill="#1c2126">{escape(shown)}</text>'
        f'<text x="{x + 10}" y="{y + 42}" font-size="11" fill="#5b6570">parallelism '
        f"{int(node['parallelism'])}</text></g>"
    )
