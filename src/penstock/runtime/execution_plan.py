"""The plan of a program as JSON, in the shape that Flink prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.partitioning import KeyGroups
from penstock.graph.compile import compile_graph
from penstock.graph.nodes import Input, Node, NodeKind
from penstock.runtime.lowering import lower

if TYPE_CHECKING:
    from penstock.graph.nodes import StreamGraph

_PACTS = {
    NodeKind.SOURCE: "Data Source",
    NodeKind.OPERATOR: "Operator",
    NodeKind.SINK: "Data Sink",
}


def execution_plan(graph: StreamGraph) -> str:
    """Returns the plan as JSON text."""
    nodes = [_plan_node(node, graph) for node in graph.nodes.values()]
    remarks = _remarks(graph)
    for node in nodes:
        if node["id"] in remarks:
            node["columns"] = remarks[node["id"]]
    return json.dumps({"nodes": nodes}, indent=2)


def _remarks(graph: StreamGraph) -> dict[int, str]:
    """Returns which operators work on columns, and of other window operators why not."""
    try:
        compiled = compile_graph(graph)
    except ProgramError:
        return {}  # The plan of an unfinished program is still worth seeing.
    ids = {operator.uid: operator.node_id for operator in compiled.operators}
    lowered = lower(compiled)
    remarks = {
        ids[uid]: f"not lowered: {remark}" if remark else "lowered"
        for uid, remark in lowered.remarks.items()
    }
    for stage in lowered.graph.stages:
        if stage.is_source and stage.operators[0].spec.reads_columns:
            remarks |= {operator.node_id: "lowered" for operator in stage.operators}
    return remarks


def _plan_node(node: Node, graph: StreamGraph) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "id": node.node_id,
        "type": node.name,
        "pact": _PACTS[node.kind],
        "contents": node.description or node.name,
        "parallelism": node.parallelism or graph.parallelism if node.is_parallel else 1,
    }
    if node.uid is not None:
        plan["uid"] = node.uid
    if node.slot_sharing_group is not None:
        plan["slot_sharing_group"] = node.slot_sharing_group
    if node.inputs:
        plan["predecessors"] = [_plan_edge(given) for given in node.inputs]
    return plan


def _plan_edge(given: Input) -> dict[str, Any]:
    partitioning = given.partitioning
    strategy = "HASH" if isinstance(partitioning, KeyGroups) else type(partitioning).__name__
    edge: dict[str, Any] = {"id": given.node_id, "ship_strategy": strategy.upper()}
    edge["side"] = "second" if given.input_index else "first"
    if given.side_tag is not None:
        edge["side_output"] = given.side_tag
    return edge
