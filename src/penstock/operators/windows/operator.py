"""The window operator: assigner x trigger x evictor x contents x function.

Read this package from here down. `WindowParts` is what the program said; `WindowLogic` runs it,
record by record:

1. A record is assigned to windows (`assigners.py`); windows that are over are skipped.
2. It is added to their contents (`contents.py`), and the trigger (`triggers.py`) says whether to
   evaluate and whether to purge.
3. Timers call the trigger again; at the cleanup time everything of the window goes.

`spec.py` chooses a `WindowPath` where whole batches give the same results: `aligned.py` for
tumbling and sliding windows, `sessions.py`, and for count windows its own. The first two fire with
`TimedFiring`, which does not ask the trigger.

Invariant: while the trigger or a function runs, the keyed state's key and namespace are those of
the window. Contents of a merging window lie under its state window instead, by explicit arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.errors import PenstockError, ProgramError, shorten
from penstock.core.times import MAX_TIMESTAMP, NO_TIMESTAMP, saturating_add
from penstock.operators.adapters import as_instance, check_methods, close_function, open_function
from penstock.operators.errors import function_error, user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.logic import OperatorSpec
from penstock.operators.windows.assigners import (
    CountWindows,
    MergingWindowAssigner,
    WindowAssigner,
    own_merge,
)
from penstock.operators.windows.contents import (
    EVICTABLE_TABLE,
    AggregateContents,
    Buffer,
    ContentsSpec,
    PairContents,
    PairRecords,
    RecordContents,
)
from penstock.operators.windows.contexts import (
    AssignerContext,
    OperatorEvictorContext,
    Results,
    WindowFunctionContext,
    WindowTriggerContext,
    call_of,
    clear_of,
    window_runtime_context,
)
from penstock.operators.windows.evictors import Evictor, TimestampedValue
from penstock.operators.windows.functions import (
    AllWindowFunction,
    PairFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.windows.triggers import CONTINUE, Trigger, TriggerResult
from penstock.operators.windows.windows import MERGING_TABLE, MergingWindowSet
from penstock.state.keyed import ASSIGNER

if TYPE_CHECKING:
    from penstock.core.records import Batch

OnTime = Callable[[int, Any, Any], TriggerResult]
"""`on_event_time` or `on_processing_time` of a trigger."""


@dataclass(frozen=True, slots=True)
class WindowParts(OperatorSpec):
    """Assigner, trigger, evictor, contents and function of a windowed operation.

    `window_all` is the same: its records all carry one key and it runs with parallelism 1.
    """

    is_keyed = True
    assigner: WindowAssigner  # Which windows a record belongs to.
    trigger: Trigger | None = None  # When a window is evaluated; None for the assigner's default.
    evictor: Evictor | None = None  # Which records leave a window when it is evaluated, or None.
    # How long a window takes records after the watermark has passed it.
    allowed_lateness_ms: int = 0
    # Side output of late records (an `OutputTag` or its id), or None to drop them.
    late_tag: Any = None
    contents: ContentsSpec = field(default_factory=Buffer)  # What a window holds.
    # A window function of one of four kinds, a `PairFunction`, or None to emit the contents.
    function: Any = None
    is_all: bool = False  # Whether all records carry one key, which need not be looked at.

    def __post_init__(self) -> None:
        if not isinstance(self.assigner, WindowAssigner):
            raise ProgramError(
                f"window(...) was given {self.assigner!r}; it takes a WindowAssigner, for example "
                "TumblingEventTimeWindows.of(Time.minutes(1))."
            )
        if self.trigger is not None and not isinstance(self.trigger, Trigger):
            raise ProgramError(f"trigger(...) was given {self.trigger!r}; it takes a Trigger.")
        if self.evictor is not None and not isinstance(self.evictor, Evictor):
            raise ProgramError(f"evictor(...) was given {self.evictor!r}; it takes an Evictor.")
        for part in (self.assigner, self.trigger, self.evictor):
            check_methods(part)
        if self.allowed_lateness_ms < 0:
            raise ProgramError(
                f"the allowed lateness is {self.allowed_lateness_ms} ms; it must not be negative."
            )
        self._check_merging()
        self._check_function()

    def _check_merging(self) -> None:
        if not isinstance(self.assigner, MergingWindowAssigner):
            return
        trigger = self.used_trigger
        if not trigger.can_merge():
            raise ProgramError(
                f"{self.assigner!r} merges windows, which {trigger!r} does not support. "
                "Use a trigger whose can_merge() is True, or windows that do not merge."
            )
        if isinstance(self.contents, AggregateContents):
            function = self.contents.function
            if not callable(getattr(function, "merge", None)):
                raise ProgramError(
                    f"{type(function).__name__} needs merge(acc_a, acc_b) for {self.assigner!r}."
                )

    def _check_function(self) -> None:
        function = self.function
        if isinstance(self.contents, PairContents) != isinstance(function, PairFunction):
            raise ProgramError(
                "PairContents and PairFunction belong together: they are the two halves of a join "
                "or a co-group."
            )
        if function is not None and not isinstance(function, PairFunction):
            as_instance(
                function,
                WindowFunction,
                ProcessWindowFunction,
                AllWindowFunction,
                ProcessAllWindowFunction,
            )

    @property
    def used_trigger(self) -> Trigger:
        """The trigger that runs: the program's or the assigner's default."""
        return self.assigner.get_default_trigger(None) if self.trigger is None else self.trigger


class WindowFiring(Protocol):
    """Fires windows without asking the trigger, with the results of the general path."""

    def advance_watermark(self, watermark: int) -> bool:
        """Fires up to a watermark; returns whether nothing up to it is left."""

    def advance_processing_time(self, now_ms: int) -> None:
        """Fires up to now."""


class WindowPath(ABC):
    """Adds whole batches to windows, with the results of the general path."""

    firing: WindowFiring | None = None
    """How the windows fire, if not by asking the trigger."""

    @abstractmethod
    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        """Adds records; there is at least one."""


class WindowLogic(FunctionLogic):
    """Windows of any kind, on the general path or on a faster one.

    Args:
        parts: What the program said.
        path: Makes the path by which batches are added; None for the general one.
    """

    def __init__(
        self, parts: WindowParts, path: Callable[[WindowLogic], WindowPath] | None = None
    ) -> None:
        pairs = parts.function
        super().__init__(pairs.function if isinstance(pairs, PairFunction) else pairs)
        self.parts = parts
        self.assigner = parts.assigner
        self.trigger = parts.used_trigger
        self.evictor = parts.evictor
        self.lateness = parts.allowed_lateness_ms
        self._make_path = path
        self.frees_full = isinstance(parts.assigner, CountWindows) and parts.trigger is None
        self.is_event_time = parts.assigner.is_event_time()

    # -- life cycle ---------------------------------------------------------------------------

    def open(self) -> None:
        context = self.context
        self.state = state = keyed_state_of(self)
        timers = context.timers
        assert timers is not None
        self.timers = timers
        # Timers of the assigner's own domain clean windows up.
        self.cleanup_timers = state.event_timers if self.is_event_time else state.processing_timers
        self._open_contents()
        self.merging: MergingWindowSet | None = None
        if isinstance(self.assigner, MergingWindowAssigner):
            table = state.value_table(MERGING_TABLE)
            self.merging = MergingWindowSet(own_merge(self.assigner), table)
        self.results = Results(self, self.parts.late_tag)
        self.late_records = context.metrics.counter("numLateRecordsDropped")
        self._assigner_context = AssignerContext(timers, window_runtime_context(context, ASSIGNER))
        self.trigger_context = WindowTriggerContext(state, timers, context.metrics)
        self._evictor_context = OperatorEvictorContext(timers, context.metrics)
        self.function_context = WindowFunctionContext(
            context, timers, self.results.sides, merging=self.merging is not None
        )
        self.call = call_of(self.function, self.parts.function, self.function_context)
        self.clear_function = clear_of(self.function, self.function_context)
        self._path = None if self._make_path is None else self._make_path(self)
        self._firing = None if self._path is None else self._path.firing
        super().open()

    def _open_contents(self) -> None:
        self.contents = self.evaluated = self.parts.contents.open(self.context)
        if self.evictor is not None:
            # An evictor takes records, so they are kept as they came and folded at each firing.
            self.contents = RecordContents(self.context, EVICTABLE_TABLE)
        with user_code(self.context, what="open()"):
            open_function(self.evaluated.function(), window_runtime_context(self.context))

    def _open_function(self) -> None:
        with user_code(self.context, what="open()"):
            open_function(self.function, window_runtime_context(self.context))

    def restore(self, state: Any) -> None:
        self.results.clear()
        super().restore(state)

    def close(self) -> None:
        super().close()
        close_function(self.evaluated.function())

    # -- records ------------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not batch.values:
            return
        keys = keys_of(self, batch)
        self.state.prefetch(keys)
        if isinstance(self.evaluated, PairRecords):
            self.evaluated.side = input_index
        add = self.add_each if self._path is None else self._path.add
        add(batch.values, batch.timestamps, keys)
        self.state.namespace = None
        self.results.flush()

    def add_each(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        """Adds records one by one: the general path."""
        state = self.state
        if timestamps is None:
            timestamps = [NO_TIMESTAMP] * len(values)
        add = self._add_to_windows if self.merging is None else self._add_and_merge
        value = None
        try:
            for value, timestamp, key in zip(values, timestamps, keys, strict=True):
                state.key = key
                add(key, value, timestamp)
        except PenstockError:
            raise
        except Exception as error:
            # The user's assigner, trigger or evictor; the window function reports for itself.
            raise function_error(error, self.context, shorten(value)) from error

    def _add_to_windows(self, key: Any, value: Any, timestamp: int) -> None:
        windows = self.assigner.assign_windows(value, timestamp, self._assigner_context)
        is_skipped = True
        for window in windows:
            cleanup = self.cleanup_time(window)
            if self.is_event_time and cleanup <= self.watermark:
                continue
            is_skipped = False
            self.add_to_window(key, value, timestamp, window, window)
            if cleanup != MAX_TIMESTAMP:
                self.cleanup_timers.add(cleanup, key, window)
        if is_skipped:
            self.skipped(value, timestamp)

    def _add_and_merge(self, key: Any, value: Any, timestamp: int) -> None:
        windows = self.assigner.assign_windows(value, timestamp, self._assigner_context)
        merging = self.merging
        assert merging is not None
        merging.load(key)
        is_skipped = True
        for new in windows:
            window = merging.add_window(new, self.on_merge)
            cleanup = self.cleanup_time(window)
            if self.is_event_time and cleanup <= self.watermark:
                merging.retire(window)
                continue
            is_skipped = False
            self.add_to_window(key, value, timestamp, window, merging.mapping[window])
            if cleanup != MAX_TIMESTAMP:
                self.cleanup_timers.add(cleanup, key, window)
        merging.persist()
        if is_skipped:
            self.skipped(value, timestamp)

    def add_to_window(self, key: Any, value: Any, timestamp: int, window: Any, home: Any) -> None:
        """Adds a record to a window that is not over and asks the trigger."""
        if self.evictor is None:
            self.contents.add(key, home, value)
        else:
            self.contents.add(key, home, (self.evaluated.kept(value), timestamp))
        self.state.namespace = window
        result = self.trigger.on_element(value, timestamp, window, self.trigger_context)
        if result is not CONTINUE:
            self._act(result, key, window, home)

    def skipped(self, value: Any, timestamp: int) -> None:
        """Sends a record that no window took to the side output, or counts it, if it is late."""
        if not self.is_event_time or saturating_add(timestamp, self.lateness) > self.watermark:
            return
        if not self.results.late(value, timestamp):
            self.late_records.inc()

    def on_merge(self, window: Any, replaced: list[Any], home: Any, moved: list[Any]) -> None:
        """Windows became one: moves contents, trigger state and timers."""
        state, context = self.state, self.trigger_context
        key = state.key
        self.contents.merge(key, home, moved)
        state.namespace = window
        context.merged_windows = replaced
        self.trigger.on_merge(window, context)
        context.merged_windows = []
        for old in replaced:
            state.namespace = old
            self.trigger.clear(old, context)
            cleanup = self.cleanup_time(old)
            if cleanup != MAX_TIMESTAMP:
                self.cleanup_timers.remove(cleanup, key, old)

    # -- timers -------------------------------------------------------------------------------

    def advance_watermark(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        if self._firing is None:
            has_fired = self.timers.advance_watermark(watermark, self.on_event_timer)
        else:
            has_fired = self._firing.advance_watermark(watermark)
        self.results.flush()
        if has_fired:
            self.output.emit_watermark(watermark)
        else:
            self.watermark = before

    def advance_processing_time(self, now_ms: int) -> None:
        if self._firing is None:
            self.timers.advance_processing_time(now_ms, self.on_processing_timer)
        else:
            self._firing.advance_processing_time(now_ms)
        self.results.flush()

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        self._on_timer(self.trigger.on_event_time, time_ms, key, namespace, self.is_event_time)

    def on_processing_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        cleans_up = not self.is_event_time
        self._on_timer(self.trigger.on_processing_time, time_ms, key, namespace, cleans_up)

    def _on_timer(self, ask: OnTime, time_ms: int, key: Any, window: Any, cleans_up: bool) -> None:
        home = self._home_of(key, window)
        if home is None:
            return
        try:
            self._act(ask(time_ms, window, self.trigger_context), key, window, home)
            if cleans_up and time_ms == self.cleanup_time(window):
                self.clear_window(key, window, home)
        except PenstockError:
            raise
        except Exception as error:
            # The user's trigger or evictor; the window function reports for itself.
            what = f"timer at {time_ms} of {window!r} of key {key!r:.80}"
            raise function_error(error, self.context, what=what) from error

    def _home_of(self, key: Any, window: Any) -> Any | None:
        """Returns where a window's contents are, or None when it was merged away."""
        if self.merging is None:
            return window
        self.merging.load(key)
        return self.merging.state_window(window)

    def cleanup_time(self, window: Any) -> int:
        """Returns when a window is over and everything of it goes."""
        if self.is_event_time:
            return saturating_add(window.max_timestamp(), self.lateness)
        return window.max_timestamp()  # type: ignore[no-any-return]

    def clear_window(self, key: Any, window: Any, home: Any) -> None:
        """Removes everything of a window."""
        self.contents.remove(key, home)
        self.trigger.clear(window, self.trigger_context)
        self.clear_function_state(window)
        if self.merging is not None:
            self.merging.retire(window)
            self.merging.persist()

    def clear_function_state(self, window: Any) -> None:
        """Calls `clear` of the window function."""
        if self.clear_function is not None:
            self.function_context.current = window
            with user_code(self.context, what=f"clear() of {window!r}"):
                self.clear_function()

    # -- evaluation ---------------------------------------------------------------------------

    def _act(self, result: TriggerResult, key: Any, window: Any, home: Any) -> None:
        if result.is_fire():
            self._fire(key, window, home)
        if result.is_purge():
            self.contents.remove(key, home)
        if self.frees_full and result.is_fire():
            # No timer would ever clean a count window up, and nothing is added to a full one.
            self.clear_window(key, window, home)

    def _fire(self, key: Any, window: Any, home: Any) -> None:
        if self.evictor is not None:
            self._evict_and_fire(key, window, home)
        elif elements := self.contents.kept_elements(key, home):
            self.evaluate(key, window, elements)

    def _evict_and_fire(self, key: Any, window: Any, home: Any) -> None:
        evictor, contents = self.evictor, self.contents
        assert evictor is not None
        assert isinstance(contents, RecordContents)
        records = list(map(TimestampedValue._make, contents.elements(key, home)))
        if not records:
            return
        evictor.evict_before(records, len(records), window, self._evictor_context)
        values = contents.copies([value for value, _ in records])
        if elements := self.evaluated.elements_of(values):
            self.evaluate(key, window, elements)
        evictor.evict_after(records, len(records), window, self._evictor_context)
        contents.replace(key, home, [(value, timestamp) for value, timestamp in records])

    def evaluate(self, key: Any, window: Any, elements: Sequence[Any]) -> None:
        """Calls the window function; key and namespace are current already."""
        self.function_context.current = window
        self.results.evaluate(self.call, key, window, elements)
