"""The job graph: stages of chained operators, cut at exchanges, on numbered levels.

A stage is a tree of operators that run in one subtask without an exchange between them. Only its
first operator has inputs from other stages. Levels make the lineage of an epoch linear: level n+1
reads what levels 0..n sent, so a diamond or a union is computed once, however often it is used.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.keygroups import LIMIT_MAX_PARALLELISM, default_max_parallelism
from penstock.graph.nodes import (
    Chaining,
    Forward,
    Input,
    Node,
    NodeKind,
    Partitioning,
    Rebalance,
    StreamGraph,
)


@dataclass(frozen=True, slots=True)
class ChainedOperator:
    """One operator inside a stage."""

    node_id: int  # The node it came from.
    kind: NodeKind  # Source, operator or sink.
    uid: str  # Name of its state in every snapshot.
    uid_is_generated: bool  # The user gave none.
    name: str  # What users see.
    spec: Any
    # Position in the stage of the operator it is chained to; None for the first one.
    producer: int | None
    side_tag: str | None  # Side output of the producer it reads, or None.


@dataclass(frozen=True, slots=True)
class Edge:
    """An exchange between two stages."""

    edge_id: int  # Number of the edge in the job.
    source_stage: int  # Where records come from.
    source_operator: int  # Position of the producer in its stage.
    side_tag: str | None  # Side output of the producer, or None.
    partitioning: Partitioning
    target_stage: int  # Where they go, always to its first operator.
    input_index: int  # Which input of that operator.


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators that run in the same subtasks."""

    stage_id: int  # Position in `JobGraph.stages`.
    level: int  # 0 for sources, else one more than the highest upstream level.
    parallelism: int
    max_parallelism: int  # Number of key groups.
    operators: tuple[ChainedOperator, ...]  # In an order in which producers come first.

    @property
    def name(self) -> str:
        """Names of the chained operators, as Flink shows a task."""
        return " -> ".join(operator.name for operator in self.operators)

    @property
    def vertex_id(self) -> str:
        """32 hex digits that name the stage as long as its first operator keeps its uid."""
        return hashlib.md5(self.operators[0].uid.encode(), usedforsecurity=False).hexdigest()

    @property
    def is_source(self) -> bool:
        """Whether the stage reads a source."""
        return self.operators[0].kind is NodeKind.SOURCE


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A compiled program."""

    job_name: str
    stages: tuple[Stage, ...]  # Ordered by level.
    edges: tuple[Edge, ...]

    @property
    def operators(self) -> tuple[ChainedOperator, ...]:
        """All operators, stage by stage."""
        return tuple(operator for stage in self.stages for operator in stage.operators)

    @property
    def levels(self) -> tuple[tuple[Stage, ...], ...]:
        """Stages by level."""
        count = 1 + max(stage.level for stage in self.stages)
        return tuple(
            tuple(stage for stage in self.stages if stage.level == level) for level in range(count)
        )

    @property
    def stages_by_uid(self) -> dict[str, Stage]:
        """The stage of each operator."""
        return {operator.uid: stage for stage in self.stages for operator in stage.operators}

    def inputs_of(self, stage: Stage) -> tuple[Edge, ...]:
        """Edges into a stage."""
        return tuple(edge for edge in self.edges if edge.target_stage == stage.stage_id)

    def outputs_of(self, stage: Stage) -> tuple[Edge, ...]:
        """Edges out of a stage."""
        return tuple(edge for edge in self.edges if edge.source_stage == stage.stage_id)


# Compiles a stream graph into a job graph.
#
# 1. Uids and parallelism of every node are settled, and what is wrong is said.
# 2. A node joins the stage of its only upstream when nothing forces an exchange between them;
# otherwise it starts a stage of its own.
# 3. Levels follow from the edges between stages.


def compile_graph(graph: StreamGraph) -> JobGraph:
    """Compiles a program.

    Raises:
        ProgramError: The program cannot run as it stands.
    """
    if not graph.nodes:
        raise ProgramError(
            "the program has no operators. Add a source and a sink before execute(), for example "
            "env.from_collection([1, 2, 3]).print()."
        )
    nodes = {node_id: _settled(node, graph) for node_id, node in graph.nodes.items()}
    return _Compiler(graph, nodes, _uids(graph)).compile()


def rescaled(graph: StreamGraph, now: JobGraph, wanted: Mapping[str, int]) -> JobGraph:
    """Compiles a program that runs, for other parallelisms.

    Args:
        graph: The program.
        now: As it is compiled now: max parallelism stays, since key groups follow from it.
        wanted: Parallelism of operators by uid; it goes before what the program says.

    Raises:
        ProgramError: An operator cannot have that parallelism, or a `forward` connects two that
            would differ.
    """
    limits = {uid: stage.max_parallelism for uid, stage in now.stages_by_uid.items()}
    nodes = {}
    for node_id, uid in _uids(graph).items():
        node = graph.nodes[node_id]
        parallelism = wanted.get(uid)
        if parallelism not in (None, 1) and not node.is_parallel:
            raise ProgramError(
                f"'{node.name}' has parallelism 1 always; {parallelism} was asked for."
            )
        nodes[node_id] = replace(
            node, parallelism=parallelism or node.parallelism, max_parallelism=limits[uid]
        )
    return compile_graph(replace(graph, nodes=nodes))


def spread(graph: StreamGraph, parallelism: int) -> dict[str, int]:
    """Returns the operators that follow the job's parallelism, by uid, with this one.

    Raises:
        ProgramError: There is none: the program gives each operator a parallelism of its own.
    """
    wanted = {
        uid: parallelism
        for node_id, uid in _uids(graph).items()
        if graph.nodes[node_id].parallelism is None and graph.nodes[node_id].is_parallel
    }
    if not wanted:
        raise ProgramError(
            "every operator of the program has a parallelism of its own (set_parallelism), so none "
            "follows the job's. Name those to change with PUT /jobs/<id>/resource-requirements."
        )
    return wanted


def _settled(node: Node, graph: StreamGraph) -> Node:
    parallelism = node.parallelism or graph.parallelism
    if not node.is_parallel:
        parallelism = 1
    max_parallelism = node.max_parallelism or graph.max_parallelism
    if max_parallelism is None:
        max_parallelism = default_max_parallelism(parallelism)
    if not 1 <= max_parallelism <= LIMIT_MAX_PARALLELISM:
        raise ProgramError(
            f"max parallelism of '{node.name}' is {max_parallelism}; it must lie between 1 and "
            f"{LIMIT_MAX_PARALLELISM}."
        )
    if parallelism > max_parallelism:
        raise ProgramError(
            f"parallelism of '{node.name}' is {parallelism}, more than its max parallelism "
            f"{max_parallelism}. Lower the one or raise the other with set_max_parallelism()."
        )
    return replace(node, parallelism=parallelism, max_parallelism=max_parallelism)


def _uids(graph: StreamGraph) -> dict[int, str]:
    """Returns the uid of each node; a generated one is stable while the program is unchanged."""
    uids: dict[int, str] = {}
    for node in graph.nodes.values():
        given = node.uid or node.uid_hash
        if given is None and not graph.auto_generate_uids:
            raise ProgramError(
                f"operator '{node.name}' has no uid and pipeline.auto-generate-uids is false. "
                f'Give it one: .uid("...").'
            )
        slug = re.sub(r"[^a-z0-9]+", "-", node.name.lower()).strip("-")[:40]
        uids[node.node_id] = given or f"{slug or 'operator'}-{node.node_id}"
    for uid, count in Counter(uids.values()).items():
        if count > 1:
            names = [graph.nodes[node_id].name for node_id, other in uids.items() if other == uid]
            raise ProgramError(
                f"uid '{uid}' is used by {count} operators ({', '.join(names)}); a uid names the "
                "state of exactly one operator. Give each its own."
            )
    return uids


@dataclass(slots=True)
class _Place:
    """Where a node went."""

    stage: int
    position: int


class _Compiler:
    def __init__(self, graph: StreamGraph, nodes: dict[int, Node], uids: dict[int, str]) -> None:
        self._graph = graph
        self._nodes = nodes
        self._uids = uids
        self._places: dict[int, _Place] = {}
        self._chains: list[list[ChainedOperator]] = []
        self._edges: list[Edge] = []

    def compile(self) -> JobGraph:
        # Programs append nodes behind their inputs, so ascending ids are a topological order.
        for node in sorted(self._nodes.values(), key=lambda node: node.node_id):
            self._place(node)
        levels = self._levels()
        order = sorted(range(len(self._chains)), key=lambda stage: (levels[stage], stage))
        renumbered = {old: new for new, old in enumerate(order)}
        stages = tuple(self._stage(renumbered[old], levels[old], old) for old in order)
        edges = tuple(
            replace(
                edge,
                source_stage=renumbered[edge.source_stage],
                target_stage=renumbered[edge.target_stage],
            )
            for edge in self._edges
        )
        return JobGraph(self._graph.job_name, stages, edges)

    def _stage(self, stage_id: int, level: int, chain: int) -> Stage:
        head = self._nodes[self._chains[chain][0].node_id]
        assert head.parallelism is not None
        assert head.max_parallelism is not None
        return Stage(
            stage_id, level, head.parallelism, head.max_parallelism, tuple(self._chains[chain])
        )

    def _place(self, node: Node) -> None:
        if node.kind is not NodeKind.SOURCE and not node.inputs:
            raise ProgramError(f"operator '{node.name}' has no input.")
        if self._is_chained(node):
            upstream = node.inputs[0]
            place = self._places[upstream.node_id]
            self._append(node, place.stage, place.position, upstream.side_tag)
            return
        self._chains.append([])
        stage = len(self._chains) - 1
        self._append(node, stage, None, None)
        for given in node.inputs:
            source = self._places[given.node_id]
            self._edges.append(
                Edge(
                    edge_id=len(self._edges),
                    source_stage=source.stage,
                    source_operator=source.position,
                    side_tag=given.side_tag,
                    partitioning=self._partitioning(node, given),
                    target_stage=stage,
                    input_index=given.input_index,
                )
            )

    def _append(self, node: Node, stage: int, producer: int | None, tag: str | None) -> None:
        chain = self._chains[stage]
        self._places[node.node_id] = _Place(stage, len(chain))
        chain.append(
            ChainedOperator(
                node_id=node.node_id,
                kind=node.kind,
                uid=self._uids[node.node_id],
                uid_is_generated=node.uid is None and node.uid_hash is None,
                name=node.name,
                spec=node.spec,
                producer=producer,
                side_tag=tag,
            )
        )

    def _is_chained(self, node: Node) -> bool:
        if len(node.inputs) != 1 or node.chaining is not Chaining.ALWAYS:
            return False
        upstream = self._nodes[node.inputs[0].node_id]
        return (
            self._graph.chaining_enabled
            and upstream.chaining is not Chaining.NEVER
            and isinstance(node.inputs[0].partitioning, Forward)
            and upstream.parallelism == node.parallelism
            and upstream.max_parallelism == node.max_parallelism
        )

    def _partitioning(self, node: Node, given: Input) -> Partitioning:
        upstream = self._nodes[given.node_id]
        if isinstance(given.partitioning, Forward) and upstream.parallelism != node.parallelism:
            if given.partitioning.explicit:
                raise ProgramError(
                    f"forward() from '{upstream.name}' (parallelism {upstream.parallelism}) to "
                    f"'{node.name}' (parallelism {node.parallelism}) needs equal parallelism. "
                    "Use rescale() or rebalance() instead."
                )
            return Rebalance()
        return given.partitioning

    def _levels(self) -> list[int]:
        levels = [0] * len(self._chains)
        # Edges were appended with ascending target stage, and every source stage came before.
        for edge in self._edges:
            levels[edge.target_stage] = max(
                levels[edge.target_stage], levels[edge.source_stage] + 1
            )
        return levels
