"""What an operator is: a frozen `Spec` travels, its `Logic` runs, only its state is snapshotted.

Call order on a `Logic`, by the subtask (`operators.task`), always from one thread:

1. `setup(context, output)`, then `open()`: once per worker and job attempt. State tables are
   obtained here; user functions are opened here.
2. `restore(state)`: whenever the worker is given a version it does not hold; `state` is what
   `snapshot` returned for that version, or None at the first start. Keyed state and timers are
   restored by `context.keyed_state` itself, under the same objects.
3. per epoch: `advance_processing_time(now)` (fires due timers), any number of `process` and
   `advance_watermark`, then `end_of_epoch()`, then `snapshot()`.
4. `end_input()` before the last watermark (MAX) of bounded input; `close()` at the end.

A logic may keep what it likes in attributes as a cache, as long as step 2 resets it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.times import MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.clock import EpochClock
    from penstock.core.records import Batch
    from penstock.operators.metrics import MetricGroup
    from penstock.operators.timers import OperatorTimers
    from penstock.state.keyed import KeyedState
    from penstock.state.operator_state import OperatorState


class Output(Protocol):
    """What follows an operator: the next operators of the chain, and the exchanges."""

    def emit(self, batch: Batch) -> None:
        """Hands records on; an empty batch is allowed."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Hands records to the side output with that tag id."""

    def emit_watermark(self, watermark: int) -> None:
        """Hands a watermark on, to the main and all side outputs."""

    def emit_idle(self, *, idle: bool) -> None:
        """Says that the output turned idle, or active again."""


@dataclass(slots=True)
class OperatorContext:
    """What a logic is given at `setup`."""

    uid: str  # Uid of the operator, its name in every snapshot.
    name: str  # Name as the user sees it.
    subtask: int  # Index of this subtask.
    parallelism: int
    max_parallelism: int  # Number of key groups.
    attempt: int  # Number of the job attempt, from 0.
    clock: EpochClock  # Processing time of the running epoch.
    # State and timers by key; None for operators that are not keyed.
    keyed_state: KeyedState | None
    timers: OperatorTimers | None  # Timers by key; None for operators that are not keyed.
    operator_state: OperatorState  # List, union and broadcast state.
    metrics: MetricGroup  # The operator's metrics.
    parameters: dict[str, str]  # The job's global parameters.
    # What is emitted is copied by `snapshot`, unless its type is one of `immutable`, or all of it
    # is declared to be immutable.
    immutable: frozenset[type] = IMMUTABLE
    snapshot: Callable[[Any], Any] = snapshot
    emits_immutable: bool = False


class OperatorSpec(ABC):
    """Frozen, picklable description of an operator; subclasses are frozen dataclasses."""

    @property
    def is_keyed(self) -> bool:
        """Whether batches carry keys and the context has keyed state and timers."""
        return False

    @abstractmethod
    def build(self) -> OperatorLogic:
        """Makes the running operator; called once per subtask and worker."""


class OperatorLogic:
    """Base of running operators; a subclass overrides what it needs."""

    context: OperatorContext
    output: Output
    at_once: int = 1
    """So many records it works on at the same time: fewer in a batch would take as long."""
    watermark: int = MIN_WATERMARK
    """Minimum over all inputs, kept by `advance_watermark`, set again by the subtask's restore."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Keeps context and output."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Opens user functions and obtains state."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Processes records of one input."""
        raise NotImplementedError

    def advance_watermark(self, watermark: int) -> None:
        """Fires event timers up to the watermark, then hands it on.

        The subtask calls this only with rising watermarks, already merged over all inputs. Where
        the time for firing ends before the timers do, nothing is handed on and `watermark` stays
        what it was; the subtask comes with the same one again before anything else.
        """
        before, self.watermark = self.watermark, watermark
        timers = self.context.timers
        if timers is None or timers.advance_watermark(watermark, self.on_event_timer):
            self.output.emit_watermark(watermark)
        else:
            self.watermark = before

    def advance_input_status(self, *, idle: bool) -> None:
        """The merged input turned idle or active."""
        self.output.emit_idle(idle=idle)

    def is_idle_behind(self, before: bool) -> bool:
        """Returns whether the output was last reported as idle; `before` is the input's status."""
        return before

    def advance_processing_time(self, now_ms: int) -> None:
        """Fires processing timers up to now, each at most once even if the clock jumped."""
        timers = self.context.timers
        if timers is not None:
            timers.advance_processing_time(now_ms, self.on_processing_timer)

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        """One event timer fires; `context.keyed_state` is already at key and namespace."""

    def on_processing_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        """One processing timer fires; `context.keyed_state` is already at key and namespace."""

    def end_of_epoch(self) -> None:
        """Last call of an epoch before `snapshot`: emit what is held back, periodic watermarks."""

    def snapshot(self) -> Any:
        """Returns small, picklable state of the logic itself (a generator's), or None."""
        return None

    def restore(self, state: Any) -> None:
        """Takes back what `snapshot` returned, or None at the first start; resets caches."""

    def restore_rescaled(self, states: list[Any]) -> None:
        """Takes the states of all former subtasks when their number has changed.

        An operator that keeps more than caches overrides this. By default it starts without state,
        with the smallest watermark of the former subtasks.
        """
        self.restore(None)

    def end_input(self) -> None:
        """Bounded input ended; the MAX watermark follows."""

    def next_processing_timer(self) -> int | None:
        """Returns when this operator next needs an epoch without input, or None."""
        timers = self.context.timers
        return None if timers is None else timers.next_processing_timer()

    def close(self) -> None:
        """Closes user functions. Errors are logged, never raised."""
