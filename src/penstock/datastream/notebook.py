"""What notebooks show: settings with their sources, and the part of the program behind a stream.

Nothing here executes or asks anything of a network, and all text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ProgramError
from penstock.core.redaction import shown_value
from penstock.core.row import Row
from penstock.graph.nodes import Forward, Input, KeyGroups, Node

_WIDTH: Final = 180
_HEIGHT: Final = 44
_GAP_X: Final = 110
_GAP_Y: Final = 18
_MARGIN: Final = 10


def as_table(records: list[Any]) -> str:
    """Returns the text of records, one a line; in columns where all are dicts or rows of names."""
    try:
        rows = [record.as_dict() if isinstance(record, Row) else record for record in records]
    except ProgramError:
        rows = records  # Rows without names.
    if not rows or not all(isinstance(row, dict) for row in rows):
        return "\n".join(str(record) for record in records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(str(line[at])) for line in lines) for at in range(len(names))]
    return "\n".join(
        "  ".join(str(text).ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def settings_html(title: str, configuration: Configuration) -> str:
    """Returns a table of the settings that are not defaults, with their sources."""
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td>{escape(shown_value(key, setting.value))}</td>"
        f"<td>{escape(str(setting))}</td></tr>"
        for key, setting in configuration.settings().items()
        if setting.rank is not Rank.DEFAULT
    )
    if not rows:
        rows = '<tr><td colspan="3">every setting has its default</td></tr>'
    head = "<tr><th>setting</th><th>value</th><th>source</th></tr>"
    return f"<table><caption>{escape(title)}</caption>{head}{rows}</table>"


def graph_svg(nodes: dict[int, Node], ends: Iterable[int]) -> str:
    """Returns a drawing of the nodes from which `ends` are made, sources on the left."""
    wanted = _upstream(nodes, ends)
    columns: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    used: dict[int, int] = {}
    for node_id in sorted(wanted):
        given = nodes[node_id].inputs
        column = 1 + max((columns[each.node_id] for each in given), default=-1)
        row = used.get(column, 0)
        used[column] = row + 1
        columns[node_id] = column
        places[node_id] = (_MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    width = 2 * _MARGIN + (1 + max(columns.values(), default=0)) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(used.values(), default=1) * (_HEIGHT + _GAP_Y) - _GAP_Y
    edges = [
        _edge(places[each.node_id], places[node_id], each)
        for node_id in sorted(wanted)
        for each in nodes[node_id].inputs
    ]
    boxes = [_box(places[node_id], nodes[node_id]) for node_id in sorted(wanted)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="stream graph" '
        f'font-family="sans-serif" font-size="12">{"".join(edges + boxes)}</svg>'
    )


def _upstream(nodes: dict[int, Node], ends: Iterable[int]) -> set[int]:
    wanted: set[int] = set()
    open_ids = [node_id for node_id in ends if node_id in nodes]
    while open_ids:
        node_id = open_ids.pop()
        if node_id not in wanted:
            wanted.add(node_id)
            open_ids += [each.node_id for each in nodes[node_id].inputs]
    return wanted


def _box(place: tuple[int, int], node: Node) -> str:
    x, y = place
    name = node.name if len(node.name) <= 24 else node.name[:23] + "…"
    below = f"uid {node.uid}" if node.uid else f"parallelism {node.parallelism or 'default'}"
    return (
        f'<g><title>{escape(node.description or node.name)}</title><rect x="{x}" y="{y}" rx="4" '
        f'width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="currentColor"/>'
        f'<text x="{x + 8}" y="{y + 18}" fill="currentColor">{escape(name)}</text>'
        f'<text x="{x + 8}" y="{y + 35}" fill="currentColor" opacity="0.7">{escape(below)}</text>'
        "</g>"
    )


def _edge(start: tuple[int, int], end: tuple[int, int], given: Input) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    x2, y2 = end[0], end[1] + _HEIGHT // 2
    partitioning = given.partitioning
    label = "key" if isinstance(partitioning, KeyGroups) else type(partitioning).__name__.lower()
    if isinstance(partitioning, Forward) and not partitioning.explicit:
        label = ""
    if given.side_tag is not None:
        label = f"{label} {given.side_tag}".strip()
    text = (
        f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 4}" text-anchor="middle" '
        f'fill="currentColor">{escape(label)}</text>'
    )
    return f'<path d="M{x1} {y1} L{x2} {y2}" stroke="currentColor"/>{text if label else ""}'
