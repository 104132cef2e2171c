"""The stream graph: what the program said, as frozen nodes.

A stream of the API is a tuple of `Input`s without a target, so a union is a longer tuple and no
node; an exchange is the `partitioning` of an input and no node either. What a node does is its
`spec`, which this package never looks into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.core.basic_types import TypeInformation


@dataclass(frozen=True, slots=True)
class Forward:
    """Subtask i to subtask i; both sides have one parallelism. Such edges may be chained."""

    # The program said `forward()`; then different parallelism is an error instead of a silent
    # rebalance.
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Round robin over all subtasks."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Round robin over the subtasks that belong to this one (local groups)."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Uniformly at random, from a seed that is a function of epoch and subtask."""


@dataclass(frozen=True, slots=True)
class Global:
    """Everything to subtask 0."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Everything to every subtask."""


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """By the key group of the selected key; batches behind it carry their keys."""

    selector: Callable[[Any], Any]  # Function of a record that gives its key.
    # For built-in selections (a field name or position), how a lowered plan finds the key; None for
    # arbitrary Python.
    columns: tuple[Any, ...] | None = None
    # Declared type of the keys, or None; keys are converted to it, snapshots name it.
    key_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class PartialAggregates:
    """By the key group of the key, as partial aggregates that the sender makes."""

    aggregation: Any  # What the sender computes; known to the operators, not here.


@dataclass(frozen=True, slots=True)
class Custom:
    """By a user's function `partition(key, number of subtasks) -> subtask`."""

    partitioner: Callable[[Any, int], int]
    selector: Callable[[Any], Any]


Partitioning = (
    Forward
    | Rebalance
    | Rescale
    | Shuffle
    | Global
    | Broadcast
    | KeyGroups
    | PartialAggregates
    | Custom
)


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
