"""More timers due at once than fire in one epoch: nothing overtakes them, nothing is lost.

Expected values are counted by hand: every key rings once, at its time, before any later record.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from recovery_kit import Faults, collected, environment
from restore_kit import wait_for

from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.runtime import subtask

if TYPE_CHECKING:
    from pathlib import Path

KEYS = 300
RINGS_AT = 10_000
LATER = 20_000

# Every key once; then the watermark passes the timers, alone; then every key again.
FIRST = [(key, key) for key in range(KEYS)]
BETWEEN = [(-1, LATER + number) for number in range(150)]
AGAIN = [(key, LATER + 1000 + key) for key in range(KEYS)]


class Rings(KeyedProcessFunction):
    """A timer of each key, all at one time."""

    epochs: ClassVar[Counter[int]] = Counter()

    def open(self, context: Any) -> None:
        self.has_rung = context.get_state(ValueStateDescriptor("has rung", Types.BOOLEAN()))

    def process_element(self, value: Any, context: Any) -> Any:
        if value[1] < RINGS_AT:
            context.timer_service().register_event_time_timer(RINGS_AT)
        yield value[0], "later" if self.has_rung.value() else "first"

    def on_timer(self, timestamp: int, context: Any) -> Any:
        key = context.get_current_key()
        if key in {100, 200}:
            Faults.once(f"ring {key}")
        service = context.timer_service()
        # The clock of processing time stands still in an epoch.
        self.epochs[service.current_processing_time()] += 1
        assert service.current_watermark() >= RINGS_AT
        self.has_rung.update(True)
        yield key, "rings"


class Count(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, len(list(elements))


def timed(env: Any, records: list[Any]) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value[1]
    )
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch fires no more than it looks at the clock once for."""
    monkeypatch.setattr(subtask, "FIRING_MS", 0)
    Faults.hit.clear()
    Rings.epochs.clear()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_timers_fire_over_epochs_before_what_comes_behind_them(
    backend: str, tmp_path: Path
) -> None:
    """With two failures in their midst, and windows downstream that would drop late rings."""
    env = environment(tmp_path, 1, {"state.backend.type": backend})
    stream = timed(env, FIRST + BETWEEN + AGAIN)
    told = stream.key_by(lambda value: value[0]).process(Rings())
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    counts = told.key_by(lambda value: value[1]).window(windows).process(Count())
    found = collected(counts)
    rings = [(start, count) for what, start, count in found if what == "rings"]
    assert rings == [(RINGS_AT, KEYS)]
    assert sum(count for what, _, count in found if what == "first") == KEYS + len(BETWEEN)
    assert sum(count for what, _, count in found if what == "later") == KEYS
    assert len(Faults.hit) == 2
    assert len(Rings.epochs) > 5
    assert max(Rings.epochs.values()) < KEYS / 4, "also in the first epoch after a restart"


@pytest.mark.parametrize("parallelism", [1, 2])
def test_windows_of_many_keys_fire_over_epochs(parallelism: int, tmp_path: Path) -> None:
    env = environment(tmp_path, parallelism)
    stream = timed(env, FIRST + BETWEEN + AGAIN)
    windows = TumblingEventTimeWindows.of(Time.seconds(5))
    counts = stream.key_by(lambda value: value[0]).window(windows).process(Count())
    expected = Counter((key, time // 5000 * 5000) for key, time in FIRST + BETWEEN + AGAIN)
    assert {(key, start): count for key, start, count in collected(counts)} == expected


def test_the_end_of_input_fires_everything(tmp_path: Path) -> None:
    env = environment(tmp_path, 2)
    told = timed(env, FIRST).key_by(lambda value: value[0]).process(Rings())
    found = Counter(collected(told))
    assert found == Counter((key, what) for key in range(KEYS) for what in ("first", "rings"))
    assert len(Rings.epochs) > 5


class Gate(Rings):
    """Stops in the midst of the timers until it is told to go on."""

    reached: ClassVar[threading.Event]
    opened: ClassVar[threading.Event]
    rung: ClassVar[Counter[int]]

    def on_timer(self, timestamp: int, context: Any) -> Any:
        self.rung[context.get_current_key()] += 1
        if sum(self.rung.values()) == KEYS // 3:
            self.reached.set()
            self.opened.wait()
        return ()


@pytest.mark.parametrize("records", [FIRST + BETWEEN, FIRST], ids=["watermark", "end of input"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_savepoint_in_the_midst_of_timers(
    parallelism: int, records: list[Any], tmp_path: Path
) -> None:
    """The job goes on from it with the same or another parallelism, and each timer fires once."""
    Gate.reached, Gate.opened, Gate.rung = threading.Event(), threading.Event(), Counter()

    def start(subtasks: int, options: dict[str, str]) -> Any:
        options["execution.checkpointing.interval"] = ""
        env = environment(tmp_path, subtasks, options)
        stream = timed(env, records).uid("numbers").key_by(lambda value: value[0])
        stream.process(Gate()).uid("rings").filter(lambda _: False).print()
        return env.execute_async("rings")

    job = start(2, {})
    Gate.reached.wait()
    stopped = job.stop_with_savepoint(False, str(tmp_path / "savepoints"))
    wait_for(lambda: [each for each in job.checkpoints() if each.status == "IN_PROGRESS"], "stop")
    Gate.opened.set()
    place = stopped.result(200)
    assert sum(Gate.rung.values()) < KEYS, "it stopped before all had rung"
    resumed = start(parallelism, {"execution.state-recovery.path": place})
    resumed.get_job_execution_result().result(200)
    assert Gate.rung == Counter(range(KEYS))
