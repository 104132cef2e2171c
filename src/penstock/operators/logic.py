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

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.times import MIN_WATERMARK, EpochClock

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.state.keyed import KeyedState
    from penstock.state.operator_state import OperatorState
    from penstock.state.timers import TimerTable

# Timers of keyed operators, in both time domains.
#
# A million timers that are due at once would make one epoch of many seconds. Where nothing that
# comes behind them is at hand, the subtask bounds the time of firing (`slice_ends`), as Flink's
# interruptible timers make room for barriers. What is left fires in the next epochs, before any
# record; the watermark waits for it.


OnTimer = Callable[[int, Any, Any], None]

TIMERS_AT_ONCE: Final = 4096
"""Timers that are looked up together."""

TIMERS_BETWEEN_LOOKS: Final = 16
"""Timers that fire before the next look at the clock."""


class OperatorTimers:
    """Fires the timers of one operator; the timers themselves are keyed state."""

    def __init__(self, state: KeyedState, clock: EpochClock) -> None:
        self._state = state
        self._clock = clock
        self._watermark = MIN_WATERMARK
        self.fired = 0
        """Timers that fired since the last epoch began."""
        self.slice_ends: float | None = None
        """By `time.perf_counter`, when firing stops although more is due; None for never."""

    def current_watermark(self) -> int:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._clock.now_ms

    def next_processing_timer(self) -> int | None:
        return self._state.processing_timers.next_time()

    def restore_watermark(self, watermark: int) -> None:
        """Sets the watermark without firing, after a restore."""
        self._watermark = watermark

    def is_slice_over(self) -> bool:
        """Returns whether what is due is to wait for the next epoch."""
        return self.slice_ends is not None and time.perf_counter() >= self.slice_ends

    def advance_watermark(self, watermark: int, on_timer: OnTimer) -> bool:
        """Fires event timers; returns whether nothing up to the watermark is left."""
        self._watermark = watermark
        return self._fire(self._state.event_timers, watermark, on_timer)

    def advance_processing_time(self, now_ms: int, on_timer: OnTimer) -> None:
        self._fire(self._state.processing_timers, now_ms, on_timer)

    def _fire(self, table: TimerTable, until_ms: int, on_timer: OnTimer) -> bool:
        """Fires in time order, timers registered meanwhile included, while due."""
        state = self._state
        while (time_ms := table.next_time()) is not None and time_ms <= until_ms:
            due = table.due(time_ms, TIMERS_AT_ONCE)
            state.prefetch([key for key, _ in due])
            for count, (key, namespace) in enumerate(due):
                if count and count % TIMERS_BETWEEN_LOOKS == 0 and self.is_slice_over():
                    self.fired += count
                    state.namespace = None
                    return False
                # False: an earlier timer of this very instant deleted it.
                if table.remove(time_ms, key, namespace):
                    state.key = key
                    state.namespace = namespace
                    on_timer(time_ms, key, namespace)
            self.fired += len(due)
        state.namespace = None
        return True


# Metrics of one operator in one subtask: the built-in counts and the user's own.
#
# What counts up is reported as its growth in one epoch, and the driver sums it: a retried epoch is
# not counted twice, and a subtask that moves to another worker does not begin again. The users' own
# view (`get_count()`) is that of the worker.


class Counter:
    """A number that users raise and lower."""

    def __init__(self) -> None:
        self._count = 0
        self._before = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def begin_epoch(self) -> None:
        self._before = self._count

    def report(self) -> Any:
        return self._count - self._before


class Distribution:
    """Sum, count, minimum and maximum of the values given to it in this epoch."""

    def __init__(self) -> None:
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)

    def report(self) -> Any:
        return {"count": self.count, "sum": self.sum, "min": self.min, "max": self.max}


class Meter:
    """Counts events; the driver knows the time and makes a rate of them."""

    def __init__(self) -> None:
        self._count = 0
        self._before = 0

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def begin_epoch(self) -> None:
        self._before = self._count

    def report(self) -> Any:
        return {"events": self._count - self._before}


OF_SOURCES: Final = ""
"""Group of what a source measures: its names begin with a dot, and are shown as Flink's own."""


class MetricGroup:
    """Named metrics of one operator, with nested groups."""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self.scope = scope
        self.metrics: dict[str, Any] = {}
        self.groups: dict[str, MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns the nested group `name`, or `name.extra`; made at the first call."""
        label = name if extra is None else f"{name}.{extra}"
        group = self.groups.get(label)
        if group is None:
            group = self.groups[label] = MetricGroup((*self.scope, label))
        return group

    def counter(self, name: str) -> Counter:
        return self.metrics.setdefault(name, Counter())  # type: ignore[no-any-return]

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self.metrics.setdefault(name, Meter())  # type: ignore[no-any-return]

    def distribution(self, name: str) -> Distribution:
        return self.metrics.setdefault(name, Distribution())  # type: ignore[no-any-return]

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self.metrics[name] = obj

    def get_all_variables(self) -> dict[str, str]:
        return {}

    def begin_epoch(self) -> None:
        """What is counted from here on belongs to a new epoch."""
        for metric in self.metrics.values():
            if isinstance(metric, Counter | Meter | Distribution):
                metric.begin_epoch()
        for group in self.groups.values():
            group.begin_epoch()

    def report(self) -> dict[str, Any]:
        """Returns what the epoch's report carries, by dotted name: plain data.

        A counter is its growth, a meter `{"events": growth}`, a distribution its four numbers, a
        gauge `{"value": what it says}`.
        """
        values: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            label = ".".join((*self.scope, name))
            if isinstance(metric, Counter | Meter | Distribution):
                values[label] = metric.report()
            else:
                values[label] = {"value": metric()}
        for group in self.groups.values():
            values.update(group.report())
        return values


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
