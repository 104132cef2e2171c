"""What notebooks show: settings with their sources, and the part of the program behind a stream.

Nothing here executes or asks anything of a network, and all text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from penstock.core.configuration import Configuration, Rank
from penstock.core.drawing import Box, drawing
from penstock.core.errors import ProgramError
from penstock.core.redaction import shown_value
from penstock.core.row import Row
from penstock.graph.nodes import Forward, Input, KeyGroups, Node


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
    boxes: dict[int, Box] = {}
    for node_id in sorted(_upstream(nodes, ends)):
        node = nodes[node_id]
        below = f"uid {node.uid}" if node.uid else f"parallelism {node.parallelism or 'default'}"
        column = 1 + max((boxes[each.node_id].column for each in node.inputs), default=-1)
        inputs = [(each.node_id, _label(each)) for each in node.inputs]
        boxes[node_id] = Box(node.name, node.description or node.name, below, column, inputs)
    return drawing("stream graph", boxes)


def _upstream(nodes: dict[int, Node], ends: Iterable[int]) -> set[int]:
    wanted: set[int] = set()
    open_ids = [node_id for node_id in ends if node_id in nodes]
    while open_ids:
        node_id = open_ids.pop()
        if node_id not in wanted:
            wanted.add(node_id)
            open_ids += [each.node_id for each in nodes[node_id].inputs]
    return wanted


def _label(given: Input) -> str:
    """Returns what is written on the line of an input."""
    partitioning = given.partitioning
    label = "key" if isinstance(partitioning, KeyGroups) else type(partitioning).__name__.lower()
    if isinstance(partitioning, Forward) and not partitioning.explicit:
        label = ""
    return label if given.side_tag is None else f"{label} {given.side_tag}".strip()
