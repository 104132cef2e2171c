"""Recent checkpoints as bars on a line of time: how long each took, and how long none ran."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final
from xml.sax.saxutils import escape

_MOST: Final = 100
_WIDTH: Final = 960
_HEIGHT: Final = 72
_COLOURS: Final = {"COMPLETED": "#2e7d4f", "FAILED": "#c0392b", "IN_PROGRESS": "#2b6cb0"}


def timeline_svg(history: Iterable[dict[str, Any]]) -> str:
    """Returns the picture of the newest lines of a history."""
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
