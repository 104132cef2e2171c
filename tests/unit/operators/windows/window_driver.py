"""Drives one window logic as a subtask does, and keeps what it emits."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from penstock.core.records import Batch
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.operators.logic import MetricGroup, OperatorContext, OperatorLogic, OperatorTimers
from penstock.operators.windows.operator import WindowLogic
from penstock.state.backend import create_backend
from penstock.state.operator_state import OperatorState

if TYPE_CHECKING:
    from penstock.operators.windows.spec import WindowSpec

_AREA = FileArea(tempfile.mkdtemp(prefix="windows-"), 1 << 30)


TIGHT = {"memory_bytes": 1, "min_bytes": 1, "max_deltas": 1, "timers_in_memory": 2}
"""Nearly nothing in memory: each commit folds, each read goes to the database."""


class Recorder:
    """An output that keeps everything in one list of events."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def emit(self, batch: Batch) -> None:
        assert batch.timestamps is not None
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
            self.events.append(("out", value, timestamp))

    def emit_side(self, tag: str, batch: Batch) -> None:
        times = batch.timestamps or [None] * len(batch.values)
        for value, timestamp in zip(batch.values, times, strict=True):
            self.events.append((tag, value, timestamp))

    def emit_watermark(self, watermark: int) -> None:
        self.events.append(("watermark", watermark))

    def emit_idle(self, *, idle: bool) -> None:
        self.events.append(("idle", idle))


class Driver:
    """One window operator; `general` runs it record by record whatever the spec allows."""

    def __init__(
        self, spec: WindowSpec, *, general: bool = False, now: int = 0, backend: str = "hashmap"
    ) -> None:
        self.spec = spec
        self.recorder = Recorder()
        self.clock = EpochClock(now)
        settings = TIGHT if backend == "rocksdb" else {}
        made = create_backend(backend, **settings)
        self.state = made.create_state(0, 127, 128, _AREA, self.clock, "w")
        self.metrics = MetricGroup()
        self.logic: OperatorLogic = WindowLogic(spec) if general else spec.build()
        self.timers = OperatorTimers(self.state, self.clock)
        context = OperatorContext(
            uid="w",
            name="window",
            subtask=0,
            parallelism=1,
            max_parallelism=128,
            attempt=0,
            clock=self.clock,
            keyed_state=self.state,
            timers=self.timers,
            operator_state=OperatorState(),
            metrics=self.metrics,
            parameters={},
        )
        self.logic.setup(context, self.recorder)
        self.logic.open()
        self.state.restore(())
        self.logic.restore(None)
        self._commits = 0

    def records(self, *records: tuple[Any, Any, int | None], side: int = 0) -> Driver:
        """Processes (key, value, timestamp) as one batch."""
        keys = [key for key, _, _ in records]
        times = [time for _, _, time in records]
        batch = Batch(
            [value for _, value, _ in records],
            None if None in times else times,  # type: ignore[arg-type]
            keys,
        )
        self.logic.process(batch, side)
        return self

    def watermark(self, watermark: int) -> Driver:
        self.logic.advance_watermark(watermark)
        return self

    def now(self, now_ms: int) -> Driver:
        self.clock.now_ms = now_ms
        self.logic.advance_processing_time(now_ms)
        return self

    def reload(self) -> Driver:
        """Commits, forgets everything, and restores: what matters must be state."""
        self._commits += 1
        version = self.state.commit(f"v{id(self)}-{self._commits}")
        snapshot, watermark = self.logic.snapshot(), self.logic.watermark
        self.state.restore(())
        self.state.restore((version,))
        self.logic.watermark = watermark
        self.timers.restore_watermark(watermark)
        self.logic.restore(snapshot)
        return self

    @property
    def events(self) -> list[tuple[Any, ...]]:
        return self.recorder.events

    @property
    def out(self) -> list[tuple[Any, int]]:
        """(value, timestamp) of the main output."""
        return [event[1:] for event in self.events if event[0] == "out"]  # type: ignore[misc]

    @property
    def values(self) -> list[Any]:
        return [value for value, _ in self.out]

    def side(self, tag: str) -> list[tuple[Any, int]]:
        return [event[1:] for event in self.events if event[0] == tag]  # type: ignore[misc]

    def take(self) -> list[tuple[Any, int]]:
        """Returns the main output so far and forgets it."""
        found = self.out
        self.events.clear()
        return found

    @property
    def dropped(self) -> int:
        return self.metrics.counter("numLateRecordsDropped").get_count()

    def left_over(self) -> list[Any]:
        """Returns everything that is still in state, timers included."""
        return list(self.state.entries())
