"""The nodes that a program appends, for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.graph.nodes import Node


def node_of(stream: Any) -> Node:
    """The node behind a stream or sink."""
    node: Node = stream._environment._program.nodes[stream._own_node_id()]
    return node


def spec_of(stream: Any) -> Any:
    return node_of(stream).spec
