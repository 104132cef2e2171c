"""What user code is given inside windows, and how window functions are called.

There is one context of each kind per operator; `window` is set before each call. While user code
runs, the keyed state's namespace is that window: `window_state()` and trigger state follow it,
whereas `global_state()` and what `open` obtains are bound to the key alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.records import Batch
from penstock.operators.errors import function_error
from penstock.operators.results import SideOutputs, deliver
from penstock.operators.runtime_context import (
    KeyedTimerService,
    OperatorKeyedState,
    RuntimeContext,
)
from penstock.operators.windows.assigners import WindowAssignerContext
from penstock.operators.windows.evictors import EvictorContext
from penstock.operators.windows.functions import (
    AllWindowFunction,
    PairFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
    deal_out,
)
from penstock.operators.windows.triggers import OnMergeContext
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.state.keyed import FUNCTION, TRIGGER
from penstock.state.objects import reduce_callable

if TYPE_CHECKING:
    from penstock.operators.logic import MetricGroup, OperatorContext, OperatorLogic, OperatorTimers
    from penstock.state.api import KeyedStateStore
    from penstock.state.keyed import KeyedState


def window_runtime_context(context: OperatorContext, owner: str = FUNCTION) -> RuntimeContext:
    """Returns what `open` is given: its state is that of the key, over all windows."""
    return RuntimeContext(context, ignore_namespace=True, owner=owner)


class _NoWindowState(OperatorKeyedState):
    """Refuses per-window state where windows merge, since it could not be merged."""

    def _get(self, descriptor: Any, kind: type[StateDescriptor], method: str) -> Any:
        raise ProgramError(
            f"operator '{self._operator_name}' asked for per-window state "
            f"'{descriptor.get_name()}', but its windows merge, so state of one window cannot be "
            "kept. Use context.global_state(), or windows that do not merge."
        )


class _Times:
    """The two times, as every context has them."""

    _timers: OperatorTimers
    _metrics: MetricGroup

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()

    def get_metric_group(self) -> MetricGroup:
        return self._metrics


class AssignerContext(_Times, WindowAssignerContext):
    """Given to assigners."""

    def __init__(self, timers: OperatorTimers, runtime_context: RuntimeContext) -> None:
        self._timers = timers
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class OperatorEvictorContext(_Times, EvictorContext):
    """Given to evictors."""

    def __init__(self, timers: OperatorTimers, metrics: MetricGroup) -> None:
        self._timers = timers
        self._metrics = metrics


class WindowTriggerContext(_Times, KeyedTimerService, OnMergeContext):
    """Given to triggers."""

    def __init__(self, state: KeyedState, timers: OperatorTimers, metrics: MetricGroup) -> None:
        super().__init__(timers, state)
        self._metrics = metrics
        self._scoped: dict[str, StateDescriptor] = {}
        self.merged_windows: list[Any] = []
        self.get_current_watermark = timers.current_watermark  # type: ignore[method-assign]

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state.get_state(self.own_descriptor(state_descriptor), owner=TRIGGER)

    def own_descriptor(self, descriptor: StateDescriptor) -> StateDescriptor:
        """Returns the descriptor under a name that no window function's state can have."""
        own = self._scoped.get(descriptor.name)
        if own is None:
            own = copy.copy(descriptor)
            own.name = f"trigger:{descriptor.name}"
            self._scoped[descriptor.name] = own
        return own

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self._state
        own = self.own_descriptor(state_descriptor)
        key, target, sources = state.key, state.namespace, self.merged_windows
        state.get_state(own, owner=TRIGGER)
        if isinstance(own, ListStateDescriptor):
            state.list_table(own.name, TRIGGER).merge_namespaces(key, target, sources)
        elif isinstance(own, MapStateDescriptor):
            state.map_table(own.name, TRIGGER).merge_namespaces(key, target, sources)
        elif isinstance(own, ReducingStateDescriptor):
            merge = reduce_callable(own.get_reduce_function())
            state.value_table(own.name, TRIGGER).merge_namespaces(key, target, sources, merge)
        elif isinstance(own, AggregatingStateDescriptor):
            merge = own.get_agg_function().merge
            state.value_table(own.name, TRIGGER).merge_namespaces(key, target, sources, merge)
        else:
            raise ProgramError(
                f"merge_partitioned_state was given {state_descriptor!r}; two values cannot be "
                "merged. Use a reducing, aggregating, list or map state in the trigger."
            )


class WindowFunctionContext(WindowContext[Any]):
    """Given to process window functions of both kinds."""

    def __init__(
        self, context: OperatorContext, timers: OperatorTimers, sides: SideOutputs, *, merging: bool
    ) -> None:
        state = context.keyed_state
        assert state is not None
        self._timers = timers
        self._sides = sides
        store = _NoWindowState if merging else OperatorKeyedState
        self._window_state = store(state, context.name)
        self._global_state = OperatorKeyedState(state, context.name, ignore_namespace=True)
        self.current: Any = None

    def window(self) -> Any:
        return self.current

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state

    def output(self, tag: Any, value: Any) -> None:
        self._sides.add(tag, value, self.current.max_timestamp())


Call = Callable[[Any, Any, Sequence[Any]], Iterable[Any] | None]
"""(key, window, elements) -> results"""

LIMIT = 16_384
"""Results are handed on when there are that many, and whenever a batch or watermark is done."""


def call_of(function: Any, given: Any, context: WindowFunctionContext) -> Call:
    """Returns how to call a window function; `context.current` must be the window by then.

    Args:
        function: The copy of the user's function.
        given: What the program gave, a `PairFunction` where there are two inputs.
        context: Given to the function.
    """
    if isinstance(given, PairFunction):
        evaluate = given.adapt(function)
        return lambda _key, _window, elements: evaluate(*deal_out(elements))
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return lambda key, _window, elements: process(key, context, elements)
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda _key, window, elements: apply(window, elements)
    if isinstance(function, ProcessAllWindowFunction):
        process_all = function.process
        return lambda _key, _window, elements: process_all(context, elements)
    return lambda _key, _window, elements: elements


def clear_of(function: Any, context: WindowFunctionContext) -> Callable[[], None] | None:
    """Returns what calls the function's `clear`, or None if it has none of its own."""
    bases = (ProcessWindowFunction, ProcessAllWindowFunction)
    if not isinstance(function, bases) or type(function).clear in [base.clear for base in bases]:
        return None
    clear = function.clear
    return lambda: clear(context)


class Results:
    """Results of fired windows, in order; their timestamp is that of the window."""

    def __init__(self, logic: OperatorLogic, late_tag: Any) -> None:
        self._logic = logic
        self._immutable, self._snapshot = logic.context.immutable, logic.context.snapshot
        self._late_tag: str | None = getattr(late_tag, "tag_id", late_tag)
        self._late_values: list[Any] = []
        self._late_times: list[int] = []
        self.sides = SideOutputs(self._snapshot)
        self.values: list[Any] = []
        self.times: list[int] = []

    def evaluate(self, call: Call, key: Any, window: Any, elements: Sequence[Any]) -> None:
        """Calls the function; a generator runs here, under the window's key."""
        values = self.values
        try:
            found = call(key, window, elements)
            if found is None:
                return
            immutable, snapshot = self._immutable, self._snapshot
            append = values.append
            for item in found:
                append(item if type(item) in immutable else snapshot(item))
        except Exception as error:
            what = f"{window!r} of key {key!r:.80}"
            raise function_error(error, self._logic.context, what=what) from error
        count = len(values) - len(self.times)
        if count == 1:
            self.times.append(window.max_timestamp())
        else:
            self.times += [window.max_timestamp()] * count
        if len(values) >= LIMIT:
            self.flush()

    def late(self, value: Any, timestamp: int) -> bool:
        """Adds a late record; returns False if there is no side output for it."""
        if self._late_tag is None:
            return False
        self._late_values.append(value)
        self._late_times.append(timestamp)
        return True

    def flush(self) -> None:
        """Hands everything on."""
        output = self._logic.output
        values, times = self.values, self.times
        if values:
            self.values, self.times = [], []
        deliver(output, self.sides, values, times)
        if self._late_values and self._late_tag is not None:
            late = Batch(self._late_values, self._late_times)
            self._late_values, self._late_times = [], []
            output.emit_side(self._late_tag, late)

    def clear(self) -> None:
        """Forgets what an aborted epoch left."""
        self.values, self.times = [], []
        self._late_values, self._late_times = [], []
        self.sides.clear()
