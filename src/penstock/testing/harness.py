"""Runs one operator by hand, without a cluster: records, watermarks and time in, outputs out.

    harness = OneOperatorHarness(CountPerKey(), key=lambda r: r[0])
    harness.process(("a", 1), ("a", 2), timestamps=[10, 20])
    harness.watermark(20)
    assert harness.values == [("a", 2)]
    state = harness.snapshot()          # what a checkpoint would hold
    harness.restore(state)              # and what a recovery does

The operator is driven exactly as a subtask drives it, so what holds here holds in a job.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from penstock.core.copies import snapshots
from penstock.core.errors import ProgramError
from penstock.core.keygroups import key_group_range
from penstock.core.records import Batch
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, EpochClock
from penstock.files.area import FileArea
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.operators.logic import MetricGroup, OperatorContext, OperatorSpec, OperatorTimers
from penstock.operators.process import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    KeyedProcessSpec,
    ProcessSpec,
)
from penstock.operators.reduce import ReduceSpec
from penstock.operators.results import OutputTag
from penstock.state.backend import create_backend
from penstock.state.operator_state import OperatorState

if TYPE_CHECKING:
    from penstock.core.handles import KeyedStateVersion
    from penstock.state.descriptors import MapStateDescriptor


@dataclass(frozen=True)
class HarnessSnapshot:
    """State of one subtask, as a checkpoint holds it.

    Attributes:
        keyed: Version of the keyed state, or None.
        other: Watermark, the operator's own state and operator state, pickled.
    """

    keyed: KeyedStateVersion | None
    other: bytes


class RecordingOutput:
    """An `Output` that remembers everything, in order.

    Attributes:
        events: `("record", value, timestamp)`, `("side", tag id, value, timestamp)`,
            `("watermark", w)`, `("idle", bool)`; a timestamp of None is none.
        batches: The batches as they came.
    """

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.batches: list[Batch] = []

    def emit(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.events += [("record", *pair) for pair in _pairs(batch)]

    def emit_side(self, tag: str, batch: Batch) -> None:
        self.events += [("side", tag, *pair) for pair in _pairs(batch)]

    def emit_watermark(self, watermark: int) -> None:
        self.events.append(("watermark", watermark))

    def emit_idle(self, *, idle: bool) -> None:
        self.events.append(("idle", idle))


def _pairs(batch: Batch) -> list[tuple[Any, int | None]]:
    timestamps: Any = batch.timestamps or repeat(None)
    return [
        (value, None if timestamp == NO_TIMESTAMP else timestamp)
        for value, timestamp in zip(batch.values, timestamps, strict=False)
    ]


class OneOperatorHarness:
    """One subtask of one operator.

    Args:
        spec: What to run: a user's function object, or the spec of any operator.
        key: Key selector of input 0, for keyed operators.
        key2: Key selector of input 1; the same as `key` if left out.
        name: Name of the operator.
        subtask: Index of the subtask.
        parallelism: Number of subtasks; keys of other subtasks are processed all the same.
        max_parallelism: Number of key groups.
        backend: Name of the state backend.
        backend_options: Settings of the backend.
        directory: Where state lives; a temporary directory if left out.
        now_ms: Processing time to begin with.
        parameters: The job's global parameters.
        broadcast: Descriptors of the broadcast state, for broadcast functions.
    """

    def __init__(  # noqa: PLR0913 - a subtask has that many facts
        self,
        spec: OperatorSpec | Function,
        *,
        key: Callable[[Any], Any] | None = None,
        key2: Callable[[Any], Any] | None = None,
        name: str = "operator",
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        backend: str = "hashmap",
        backend_options: dict[str, Any] | None = None,
        directory: str | None = None,
        now_ms: int = 0,
        parameters: dict[str, str] | None = None,
        broadcast: tuple[MapStateDescriptor, ...] = (),
    ) -> None:
        if isinstance(spec, Function):
            spec = spec_of(spec, keyed=key is not None, broadcast=broadcast)
        if directory is None:
            directory = tempfile.mkdtemp(prefix="penstock-harness-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self.directory = directory
        self._keys = (key, key2 or key)
        self._commits = 0
        clock = EpochClock(now_ms)
        keyed = None
        if spec.is_keyed:
            first, last = key_group_range(subtask, parallelism, max_parallelism)
            keyed = create_backend(backend, **(backend_options or {})).create_state(
                first, last, max_parallelism, FileArea(directory), clock, name
            )
        self.output = RecordingOutput()
        self.context = OperatorContext(
            uid=name,
            name=name,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            attempt=0,
            clock=clock,
            keyed_state=keyed,
            timers=None if keyed is None else OperatorTimers(keyed, clock),
            operator_state=OperatorState(),
            metrics=MetricGroup(),
            parameters=parameters or {},
        )
        self.logic = spec.build()
        self.logic.setup(self.context, self.output)
        self.logic.open()
        self.restore(None)

    # -- input --------------------------------------------------------------------------------

    def process(
        self, *values: Any, timestamps: Sequence[int] | None = None, input_index: int = 0
    ) -> None:
        """Processes one batch."""
        keys = None
        select = self._keys[input_index]
        if self.context.keyed_state is not None and select is not None:
            keys = [select(value) for value in values]
        stamps = None if timestamps is None else list(timestamps)
        # The records of a batch are the operator's to change, not the caller's.
        self.logic.process(Batch(snapshots(list(values)), stamps, keys), input_index)

    def process2(self, *values: Any, timestamps: Sequence[int] | None = None) -> None:
        """Processes one batch of the second input."""
        self.process(*values, timestamps=timestamps, input_index=1)

    def watermark(self, watermark: int) -> None:
        """Advances the watermark."""
        if watermark == MAX_WATERMARK:
            self.logic.end_input()
        self.logic.advance_watermark(watermark)

    def processing_time(self, now_ms: int) -> None:
        """Begins an epoch at that time."""
        self.context.clock.now_ms = now_ms
        self.logic.advance_processing_time(now_ms)

    def end_of_epoch(self) -> None:
        """Ends an epoch, as `snapshot` does too."""
        self.logic.end_of_epoch()

    # -- output -------------------------------------------------------------------------------

    @property
    def values(self) -> list[Any]:
        """Records of the main output."""
        return [event[1] for event in self.output.events if event[0] == "record"]

    @property
    def records(self) -> list[tuple[Any, int | None]]:
        """Records of the main output with their timestamps."""
        return [(event[1], event[2]) for event in self.output.events if event[0] == "record"]

    def side(self, tag: OutputTag | str) -> list[tuple[Any, int | None]]:
        """Records of a side output with their timestamps."""
        tag_id = tag.tag_id if isinstance(tag, OutputTag) else tag
        return [
            (event[2], event[3])
            for event in self.output.events
            if event[0] == "side" and event[1] == tag_id
        ]

    @property
    def watermarks(self) -> list[int]:
        """Watermarks that went out."""
        return [event[1] for event in self.output.events if event[0] == "watermark"]

    def take(self) -> list[tuple[Any, ...]]:
        """Returns all events since the last call, and forgets them."""
        events, self.output.events = self.output.events, []
        self.output.batches = []
        return events

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> HarnessSnapshot:
        """Ends the epoch and returns its state."""
        logic, context = self.logic, self.context
        logic.end_of_epoch()
        own = logic.snapshot()
        other = (logic.watermark, own, context.operator_state.snapshot())
        keyed = None
        if context.keyed_state is not None:
            self._commits += 1
            keyed = context.keyed_state.commit(f"v{self._commits}-{id(self):x}")
        return HarnessSnapshot(keyed, pickle.dumps(other, pickle.HIGHEST_PROTOCOL))

    def restore(self, snapshot: HarnessSnapshot | None) -> None:
        """Sets the operator back to a snapshot, also one of another harness in `directory`."""
        logic, context = self.logic, self.context
        watermark, own, lists = MIN_WATERMARK, None, None
        if snapshot is not None:
            watermark, own, lists = pickle.loads(snapshot.other)
        if context.keyed_state is not None:
            held = None if snapshot is None else snapshot.keyed
            context.keyed_state.restore(() if held is None else (held,))
        context.operator_state.restore(
            [] if lists is None else [lists] * context.parallelism,
            context.subtask,
            context.parallelism,
        )
        logic.watermark = watermark
        if context.timers is not None:
            context.timers.restore_watermark(watermark)
        logic.restore(own)

    def close(self) -> None:
        """Closes the operator."""
        self.logic.close()


def spec_of(
    function: Function, *, keyed: bool, broadcast: tuple[MapStateDescriptor, ...] = ()
) -> OperatorSpec:
    """Returns the operator that the API would make of a function.

    Args:
        function: A function object.
        keyed: Whether the input is keyed.
        broadcast: Descriptors of the broadcast state.
    """
    if isinstance(function, BroadcastProcessFunction):
        return BroadcastProcessSpec(function, broadcast)
    if isinstance(function, KeyedBroadcastProcessFunction):
        return KeyedBroadcastProcessSpec(function, broadcast)
    for kind, make in _KEYED_OR_NOT:
        if isinstance(function, kind):
            return make(function, keyed)
    for kind, make in _FIXED:
        if isinstance(function, kind):
            return make(function)
    names = ", ".join(kind.__name__ for kind, _ in (*_KEYED_OR_NOT, *_FIXED))
    raise ProgramError(
        f"a {type(function).__name__} does not say which operator it belongs to; give the spec of "
        f"the operator, or one of {names}."
    )


_KEYED_OR_NOT: Final[tuple[tuple[type[Function], Callable[..., OperatorSpec]], ...]] = (
    (MapFunction, MapSpec),
    (FlatMapFunction, FlatMapSpec),
    (FilterFunction, FilterSpec),
    (CoMapFunction, CoMapSpec),
    (CoFlatMapFunction, CoFlatMapSpec),
)
_FIXED: Final[tuple[tuple[type[Function], Callable[..., OperatorSpec]], ...]] = (
    (ProcessFunction, ProcessSpec),
    (KeyedProcessFunction, KeyedProcessSpec),
    (CoProcessFunction, CoProcessSpec),
    (KeyedCoProcessFunction, KeyedCoProcessSpec),
    (ReduceFunction, ReduceSpec),
)
