"""Pictures of a job: its plan, and its recent checkpoints as bars on a line of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

_BOX_WIDTH: Final = 220
_BOX_HEIGHT: Final = 56
_GAP_X: Final = 80
_GAP_Y: Final = 24
_MARGIN: Final = 16
_SHOWN: Final = 30
_MOST_BOXES: Final = 1_000


def plan_svg(plan: Mapping[str, Any]) -> str:
    """Returns the picture of a plan: levels from left to right, one box for each vertex."""
    nodes = plan["nodes"][:_MOST_BOXES]
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    for node in nodes:
        level = node.get("level", 0)
        row = rows.get(level, 0)
        rows[level] = row + 1
        x = _MARGIN + level * (_BOX_WIDTH + _GAP_X)
        places[node["id"]] = x, _MARGIN + row * (_BOX_HEIGHT + _GAP_Y)
    width = 2 * _MARGIN + (max(rows, default=0) + 1) * (_BOX_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(rows.values(), default=1) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y
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
    x1, y1 = source[0] + _BOX_WIDTH, source[1] + _BOX_HEIGHT // 2
    x2, y2 = target[0], target[1] + _BOX_HEIGHT // 2
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
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" '
        f'height="{_BOX_HEIGHT}" rx="6" fill="#f6f7f9" stroke="#9aa3ad"/>'
        f'<text x="{x + 10}" y="{y + 24}" font-size="12" fill="#1c2126">{escape(shown)}</text>'
        f'<text x="{x + 10}" y="{y + 42}" font-size="11" fill="#5b6570">parallelism '
        f"{int(node['parallelism'])}</text></g>"
    )


_MOST: Final = 100
_WIDTH: Final = 960
_HEIGHT: Final = 72
_COLOURS: Final = {"COMPLETED": "#2e7d4f", "FAILED": "#c0392b", "IN_PROGRESS": "#2b6cb0"}


def timeline_svg(history: Iterable[dict[str, Any]]) -> str:
    """Returns the newest lines of a history: how long each took, and how long none ran."""
    lines = list(islice(history, _MOST))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" role="img" '
        'aria-label="Recent checkpoints">'
    )
    if not lines:
        text = '<text x="12" y="40" font-size="13" fill="#5b6570">No checkpoint yet.</text></svg>'
        return head + text
    first = min(line["trigger_timestamp"] for line in lines)
    last = max(line["trigger_timestamp"] + line["end_to_end_duration"] for line in lines)
    scale = (_WIDTH - 24) / max(last - first, 1)
    bars = []
    for line in lines:
        x = 12 + (line["trigger_timestamp"] - first) * scale
        width = max(line["end_to_end_duration"] * scale, 2.0)
        kind = "savepoint" if line["is_savepoint"] else "checkpoint"
        title = f"{kind} {line['id']}: {line['status']}, {line['end_to_end_duration']} ms"
        bars.append(
            f'<rect x="{x:.1f}" y="18" width="{width:.1f}" height="28" '
            f'fill="{_COLOURS.get(line["status"], "#888")}"><title>{escape(title)}</title></rect>'
        )
    scale_text = f"{(last - first) / 1000:.1f} s"
    foot = (
        f'<line x1="12" y1="50" x2="{_WIDTH - 12}" y2="50" stroke="#9aa3ad"/>'
        f'<text x="{_WIDTH - 12}" y="66" font-size="11" text-anchor="end" fill="#5b6570">'
        f"{scale_text}</text></svg>"
    )
    return head + "".join(bars) + foot
