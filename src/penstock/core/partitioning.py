"""How records travel from one operator to the subtasks of the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
