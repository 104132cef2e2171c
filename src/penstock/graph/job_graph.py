"""The job graph: stages of chained operators, cut at exchanges, on numbered levels.

A stage is a tree of operators that run in one subtask without an exchange between them. Only its
first operator has inputs from other stages. Levels make the lineage of an epoch linear: level n+1
reads what levels 0..n sent, so a diamond or a union is computed once, however often it is used.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.graph.nodes import NodeKind

if TYPE_CHECKING:
    from penstock.core.partitioning import Partitioning


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

    def inputs_of(self, stage: Stage) -> tuple[Edge, ...]:
        """Edges into a stage."""
        return tuple(edge for edge in self.edges if edge.target_stage == stage.stage_id)

    def outputs_of(self, stage: Stage) -> tuple[Edge, ...]:
        """Edges out of a stage."""
        return tuple(edge for edge in self.edges if edge.source_stage == stage.stage_id)
