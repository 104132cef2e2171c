"""The wall clock jumps by an hour, forth and back.

Checkpoints go by the monotonic clock; a timer in processing time fires once in any case.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from recovery_kit import Faults, collected, environment, failing_at, same

from penstock.core.times import SystemClock
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOUR_MS = 3_600_000
RECORDS = 1_000


class CountsAndRings(KeyedProcessFunction):
    """Numbers the records of a key; a timer of each key rings soon after the first."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == 1:
            timers = context.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + 5)
        yield context.get_current_key(), count

    def on_timer(self, timestamp: int, context: Any) -> Any:
        yield context.get_current_key(), "rang"


def test_results_are_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Faults.hit.clear()
    wall_ms = SystemClock.wall_ms
    jumps = itertools.cycle([0, HOUR_MS, 0, -HOUR_MS, 7, 2 * HOUR_MS])
    monkeypatch.setattr(SystemClock, "wall_ms", lambda self: wall_ms(self) + next(jumps))
    env = environment(tmp_path, 2, {"execution.checkpointing.incremental": "true"})
    numbers = env.from_sequence(0, RECORDS - 1).map(failing_at([300, 800], "jump"))
    found = collected(numbers.key_by(lambda value: value % 7).process(CountsAndRings()))
    rings = [key for key, what in found if what == "rang"]
    assert len(rings) == len(set(rings)), "a timer rang twice"
    same(
        [row for row in found if row[1] != "rang"],
        [(key, n) for key in range(7) for n in range(1, len(range(key, RECORDS, 7)) + 1)],
    )
    assert len(Faults.hit) == 2


def test_numbers_rise_and_checkpoints_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backwards by an hour at every look: no checkpoint expires, none is too early."""
    wall_ms = SystemClock.wall_ms
    looks = itertools.count()
    monkeypatch.setattr(SystemClock, "wall_ms", lambda self: wall_ms(self) - next(looks) * HOUR_MS)
    env = environment(tmp_path, 1, {"execution.checkpointing.timeout": "1 min"})
    stream = env.from_sequence(0, 10**9).key_by(lambda value: value % 7).process(CountsAndRings())
    stream.print()
    job = env.execute_async("backwards")
    numbers = [job.trigger_checkpoint().result() for _ in range(3)]
    assert numbers == sorted(set(numbers))
    job.cancel()
    job._wait_quietly()
    assert not [each for each in job.checkpoints() if each.failure_reason == "CHECKPOINT_EXPIRED"]
