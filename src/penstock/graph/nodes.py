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
    """One edge into a node."""

    node_id: int
    partitioning: Partitioning = field(default_factory=Forward)
    # Tag id of the upstream's side output, or None for its main output.
    side_tag: str | None = None
    input_index: int = 0  # 0, or 1 for the second input of connected streams.


class NodeKind(Enum):
    """The three kinds; everything else is an operator spec."""

    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the program."""

    node_id: int  # Position in the program, from 1.
    kind: NodeKind  # Source, operator or sink.
    name: str  # What users see.
    spec: Any  # A `SourceSpec`, `OperatorSpec` or `SinkSpec`.
    inputs: tuple[Input, ...] = ()  # Edges into it; empty for sources.
    parallelism: int | None = None  # None = the environment's.
    max_parallelism: int | None = None  # None = the environment's, or derived.
    uid: str | None = None  # The user's uid, or None.
    uid_hash: str | None = None  # The user's 32 hex digits, or None.
    chaining: Chaining = Chaining.ALWAYS  # Whether it may share a stage with its upstream.
    is_parallel: bool = True  # False when the parallelism must stay 1.
    slot_sharing_group: str | None = None  # Accepted and shown; Spark has no slots.
    description: str | None = None  # Longer text for the plan, or None.


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """A whole program, ready to be compiled."""

    job_name: str
    nodes: dict[int, Node]  # Nodes by id, in the order in which the program made them.
    parallelism: int = 1  # The environment's default.
    max_parallelism: int | None = None  # The environment's, or None.
    chaining_enabled: bool = True  # Whether operators may be chained at all.
    auto_generate_uids: bool = True  # Whether a missing uid is generated or an error.
