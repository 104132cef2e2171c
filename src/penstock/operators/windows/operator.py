"""The window operator, record by record: assigner x trigger x evictor x function.

This is the general path, which takes every program; `choice.py` says which programs run by whole
batches instead, with equal results.

1. A record is assigned to windows; windows that are over are skipped.
2. It is added to their contents, and the trigger says whether to evaluate and whether to purge.
3. Timers call the trigger again; at the cleanup time everything of the window goes.

Invariant: while the trigger or a function runs, the keyed state's key and namespace are those of
the window. Contents of a merging window lie under its state window instead, by explicit arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PenstockError
from penstock.core.naming import shorten
from penstock.core.times import MAX_TIMESTAMP, NO_TIMESTAMP, saturating_add
from penstock.operators.adapters import close_function, open_function
from penstock.operators.errors import function_error, user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.windows.assigners import CountWindows, MergingWindowAssigner
from penstock.operators.windows.contexts import (
    AssignerContext,
    OperatorEvictorContext,
    Results,
    WindowFunctionContext,
    WindowRuntimeContext,
    WindowTriggerContext,
    call_of,
    clear_of,
)
from penstock.operators.windows.evictors import TimestampedValue
from penstock.operators.windows.functions import PairFunction, PairRecords
from penstock.operators.windows.merging import TABLE as MERGING_TABLE
from penstock.operators.windows.merging import MergingWindowSet
from penstock.operators.windows.triggers import CONTINUE, TriggerResult
from penstock.operators.windows.window_state import EVICTABLE_TABLE, RecordContents
from penstock.state.keyed import ASSIGNER

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.operators.windows.spec import WindowSpec

OnTime = Callable[[int, Any, Any], TriggerResult]
"""`on_event_time` or `on_processing_time` of a trigger."""

LATE_COUNTER = "numLateRecordsDropped"


class WindowLogic(FunctionLogic):
    """Windows of any kind."""

    def __init__(self, spec: WindowSpec) -> None:
        pairs = spec.function
        self._pairs = pairs if isinstance(pairs, PairFunction) else None
        super().__init__(spec.function if self._pairs is None else self._pairs.function)
        self.spec = spec
        self.assigner = spec.assigner
        self.trigger = spec.used_trigger
        self.evictor = spec.evictor
        self.lateness = spec.allowed_lateness_ms
        self._frees_full = isinstance(spec.assigner, CountWindows) and spec.trigger is None
        self.is_event_time = spec.assigner.is_event_time()

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
            self.merging = MergingWindowSet(self.assigner, table)
        self.results = Results(self, self.spec.late_tag)
        self.late_records = context.metrics.counter(LATE_COUNTER)
        runtime_context = WindowRuntimeContext(context, ASSIGNER)
        self._assigner_context = AssignerContext(timers, runtime_context)
        self.trigger_context = WindowTriggerContext(state, timers, context.metrics)
        self._evictor_context = OperatorEvictorContext(timers, context.metrics)
        self.function_context = WindowFunctionContext(
            context, timers, self.results.sides, merging=self.merging is not None
        )
        self.call = call_of(self.function, self._pairs, self.function_context)
        self.clear_function = clear_of(self.function, self.function_context)
        super().open()

    def _open_contents(self) -> None:
        self.contents = self._evaluated = self.spec.contents.open(self.context)
        if self.evictor is not None:
            # An evictor wants to see records, so they are kept raw and folded at each firing.
            self.contents = RecordContents(self.context, EVICTABLE_TABLE)
        with user_code(self.context, what="open()"):
            open_function(self._evaluated.function(), WindowRuntimeContext(self.context))

    def _open_function(self) -> None:
        with user_code(self.context, what="open()"):
            open_function(self.function, WindowRuntimeContext(self.context))

    def restore(self, state: Any) -> None:
        self.results.clear()
        super().restore(state)

    def close(self) -> None:
        super().close()
        close_function(self._evaluated.function())

    # -- records ------------------------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not batch.values:
            return
        keys = keys_of(self, batch)
        self.state.prefetch(keys)
        if isinstance(self._evaluated, PairRecords):
            self._evaluated.side = input_index
        self.process_records(batch.values, batch.timestamps, keys)
        self.state.namespace = None
        self.results.flush()

    def process_records(
        self, values: list[Any], timestamps: list[int] | None, keys: list[Any]
    ) -> None:
        """Processes a batch; record by record unless a subclass knows better."""
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
            self.contents.add(key, home, (self._evaluated.kept(value), timestamp))
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
        has_fired = self.timers.advance_watermark(watermark, self.on_event_timer)
        self.results.flush()
        if has_fired:
            self.output.emit_watermark(watermark)
        else:
            self.watermark = before

    def advance_processing_time(self, now_ms: int) -> None:
        self.timers.advance_processing_time(now_ms, self.on_processing_timer)
        self.results.flush()

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        self._on_timer(self.trigger.on_event_time, time_ms, key, namespace, self.is_event_time)

    def on_processing_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        is_own_domain = not self.is_event_time
        self._on_timer(self.trigger.on_processing_time, time_ms, key, namespace, is_own_domain)

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
        """Tells the window function that a window is gone."""
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
        if self._frees_full and result.is_fire():
            # No timer would ever clean a count window up, and nothing is added to a full one.
            self.clear_window(key, window, home)

    def _fire(self, key: Any, window: Any, home: Any) -> None:
        if self.evictor is not None:
            self._evict_and_fire(key, window, home)
            return
        elements = self.contents.kept_elements(key, home)
        if elements:
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
        elements = self._evaluated.elements_of(values)
        if elements:
            self.evaluate(key, window, elements)
        evictor.evict_after(records, len(records), window, self._evictor_context)
        contents.replace(key, home, [(value, timestamp) for value, timestamp in records])

    def evaluate(self, key: Any, window: Any, elements: Sequence[Any]) -> None:
        """Calls the window function; key and namespace are current already."""
        self.function_context.current = window
        self.results.evaluate(self.call, key, window, elements)
