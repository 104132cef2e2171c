"""What a whole job of constant state holds levels off: memory, files here and there, figures.

Thresholds are tiny, so that folds, merges and compactions happen in every other epoch.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from recovery_kit import environment
from restore_kit import Numbers, Tap, wait_for

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.runtime import driver, subtask
from tiny_limits import TINY_LIMITS

ROUNDS = 160
RECORDS = 60
KEYS = 40


class Turnover(KeyedProcessFunction):
    """Every key has a value, entries of the last records, and a timer that comes soon."""

    seen: ClassVar[int] = 0

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("v", Types.STRING()))
        self.entries = runtime_context.get_map_state(
            MapStateDescriptor("m", Types.LONG(), Types.STRING())
        )
        runtime_context.get_metrics_group().gauge("seen", lambda: Turnover.seen)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.value.update(str(value) * 20)
        self.entries.put(value, "x" * 50)
        self.entries.remove(value - 3 * KEYS)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 1)
        Turnover.seen += 1
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return ()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_of_constant_state_levels_off(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = functools.partial(subtask.create_backend, **TINY_LIMITS[backend])
    monkeypatch.setattr(subtask, "create_backend", small)
    # Each round is new input for a job that has none.
    monkeypatch.setattr(driver, "_QUIET_TICK_MS", 10)
    Tap.limit, Turnover.seen = 0, 0
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "io.tmp.dirs": str(tmp_path / "local"),
    }
    env = environment(tmp_path, 2, options)
    numbers = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda value: value % KEYS).process(Turnover()).filter(lambda _: False).print()
    job = env.execute_async("turnover")
    # The smallest of the second and of the last quarter, since folds make all of it swing.
    early: dict[str, int] = {}
    late: dict[str, int] = {}
    for number in range(ROUNDS):
        Tap.limit += RECORDS
        wait_for(lambda: Turnover.seen >= Tap.limit, "all records")
        job.trigger_checkpoint().result(100)
        quarter = 4 * number // ROUNDS
        if quarter in {1, 3}:
            least = early if quarter == 1 else late
            for what, size in measured(job, tmp_path).items():
                least[what] = min(size, least.get(what, size))
    job.cancel().result(100)
    print(early, late)
    slack = {"memory": 30 << 20, "checkpointed bytes": 8_000, "local bytes": 8_000, "figures": 500}
    for what, least in early.items():
        assert late[what] <= 1.4 * least + slack.get(what, 4), (what, early, late)


def measured(job: Any, directory: Path) -> dict[str, int]:
    gc.collect()
    checkpointed, local = files_in(directory / "checkpoints"), files_in(directory / "local")
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return {
        "checkpointed files": len(checkpointed),
        "checkpointed bytes": sum(checkpointed),
        "local files": len(local),
        "local bytes": sum(local),
        "memory": resident,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "figures": len(json.dumps(job.metrics(), default=repr)),
        "checkpoints in the history": len(job.checkpoints()),
    }


def files_in(directory: Path) -> list[int]:
    """The sizes of all files, without holes in logs; some go while they are looked at."""
    sizes = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = Path(folder, name).stat()
                sizes.append(512 * status.st_blocks if name == "LOG" else status.st_size)
    return sizes
