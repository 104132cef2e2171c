"""The stream graph: what the program said, as frozen nodes.

A stream of the API is a tuple of `Input`s without a target, so a union is a longer tuple and no
node; an exchange is the `partitioning` of an input and no node either. What a node does is its
`spec`, which this package never looks into.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.core.partitioning import Forward, Partitioning


class Chaining(Enum):
    """Whether an operator may share a stage with its upstream."""

    ALWAYS = "always"
    HEAD = "head"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Input:
    """One edge into a node.

    Attributes:
        node_id: The upstream node.
        partitioning: How records travel.
        side_tag: Tag id of the upstream's side output, or None for its main output.
        input_index: 0, or 1 for the second input of connected streams.
    """

    node_id: int
    partitioning: Partitioning = field(default_factory=Forward)
    side_tag: str | None = None
    input_index: int = 0


class NodeKind(Enum):
    """The three kinds; everything else is an operator spec."""

    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the program.

    Attributes:
        node_id: Position in the program, from 1.
        kind: Source, operator or sink.
        name: What users see.
        spec: A `SourceSpec`, `OperatorSpec` or `SinkSpec`.
        inputs: Edges into it; empty for sources.
        parallelism: None = the environment's.
        max_parallelism: None = the environment's, or derived.
        uid: The user's uid, or None.
        uid_hash: The user's 32 hex digits, or None.
        chaining: Whether it may share a stage with its upstream.
        is_parallel: False when the parallelism must stay 1.
        slot_sharing_group: Accepted and shown; Spark has no slots.
        description: Longer text for the plan, or None.
    """

    node_id: int
    kind: NodeKind
    name: str
    spec: Any
    inputs: tuple[Input, ...] = ()
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    chaining: Chaining = Chaining.ALWAYS
    is_parallel: bool = True
    slot_sharing_group: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """A whole program, ready to be compiled.

    Attributes:
        job_name: Name of the job.
        nodes: Nodes by id, in the order in which the program made them.
        parallelism: The environment's default.
        max_parallelism: The environment's, or None.
        chaining_enabled: Whether operators may be chained at all.
        auto_generate_uids: Whether a missing uid is generated or an error.
    """

    job_name: str
    nodes: dict[int, Node]
    parallelism: int = 1
    max_parallelism: int | None = None
    chaining_enabled: bool = True
    auto_generate_uids: bool = True
