"""Draws a graph as SVG: boxes in columns from left to right, with what travels between them.

All text is escaped, and colours are those of the page around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise
from typing import Any, Final, NamedTuple

_WIDTH: Final = 220
_HEIGHT: Final = 48
_GAP_X: Final = 100
_GAP_Y: Final = 20
_MARGIN: Final = 12
_SHOWN: Final = 30


class Box(NamedTuple):
    """A box and the lines that lead to it."""

    name: str  # Its beginning is shown.
    title: str  # Is shown when the pointer is over the box.
    below: str  # The second line.
    column: int
    inputs: list[tuple[Any, str]]  # The box where a line begins, and what is written on the line.


def drawing(label: str, boxes: Mapping[Any, Box]) -> str:
    """Returns a picture of boxes; lines that begin at others are left out.

    A line that passes columns has a place in each, as a box has, so it crosses none.
    """
    rows: dict[int, int] = {}

    def place(column: int) -> tuple[int, int]:
        row = rows[column] = rows.get(column, -1) + 1
        return _MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y)

    places = {key: place(box.column) for key, box in boxes.items()}
    lines = [
        _line([places[start], *map(place, passed), places[key]], text)
        for key, box in boxes.items()
        for start, text in box.inputs
        if start in places
        for passed in [range(boxes[start].column + 1, box.column)]
    ]
    width = 2 * _MARGIN + (1 + max(rows, default=0)) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + (1 + max(rows.values(), default=0)) * (_HEIGHT + _GAP_Y) - _GAP_Y
    drawn = [_box(places[key], box) for key, box in boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'font-family="sans-serif" font-size="12">{"".join(lines + drawn)}</svg>'
    )


def _box(place: tuple[int, int], box: Box) -> str:
    x, y = place
    name = box.name if len(box.name) <= _SHOWN else box.name[: _SHOWN - 1] + "…"
    return (
        f'<g><title>{escape(box.title)}</title><rect x="{x}" y="{y}" rx="5" width="{_WIDTH}" '
        f'height="{_HEIGHT}" fill="none" stroke="currentColor"/>'
        f'<text x="{x + 9}" y="{y + 20}" fill="currentColor">{escape(name)}</text>'
        f'<text x="{x + 9}" y="{y + 38}" fill="currentColor" opacity="0.7">{escape(box.below)}'
        "</text></g>"
    )


def _line(places: list[tuple[int, int]], text: str) -> str:
    path, written = "", ""
    for (left, top), (x2, below) in pairwise(places):
        x1, y1, y2 = left + _WIDTH, top + _HEIGHT // 2, below + _HEIGHT // 2
        x, y = (x1 + x2) // 2, (y1 + y2) // 2 - 4
        if text and not path:
            written = (
                f'<text x="{x}" y="{y}" text-anchor="middle" fill="currentColor">{escape(text)}'
                "</text>"
            )
        path += f"{'L' if path else 'M'}{x1} {y1} C{x} {y1} {x} {y2} {x2} {y2}"
    return f'<path d="{path}" fill="none" stroke="currentColor"/>{written}'
