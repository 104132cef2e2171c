"""What a worker holds of a state of constant size levels off: memory, files, handles.

Keys come and go for ever, so whatever remembers each of them shows. Thresholds are tiny, so that
what happens now and then in months happens within a thousand epochs.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.time import Time
from penstock.core import keygroups
from penstock.core.times import EpochClock
from penstock.files import area
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tiny_limits import TINY_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EPOCHS = 480
KEYS_AN_EPOCH = 4
LIFE = 10
"""Epochs after which keys are gone."""


class Worker:
    """One state, and what is left of its versions where others look after the files."""

    def __init__(self, backend: str, directory: Path) -> None:
        self.area = FileArea(directory, 300)
        self.clock = EpochClock(1_000)
        self.state: Any = create_backend(backend, **TINY_LIMITS[backend]).create_state(
            0, 127, 128, self.area, self.clock, "op"
        )
        self.retained: list[Any] = []
        self.state.restore(())

    def at(self, key: Any, ns: Any = None) -> None:
        self.state.key, self.state.namespace = key, ns

    def fire(self, gone: Callable[[Any, Any], None]) -> None:
        for table in (self.state.event_timers, self.state.processing_timers):
            while (time := table.next_time()) is not None and time <= self.clock.now_ms:
                for key, ns in table.due(time):
                    assert table.remove(time, key, ns)
                    self.at(key, ns)
                    gone(key, ns)

    def commit(self, epoch: int) -> None:
        self.state.namespace = None
        self.retained = [*self.retained[-2:], self.state.commit(f"e{epoch}")]
        named = {file.name for version in self.retained for file in version.files}
        for path in self.area.directory.iterdir():
            if path.is_file() and path.name not in named:
                path.unlink()


def of_values(worker: Worker, epoch: int) -> None:
    value = worker.state.get_state(ValueStateDescriptor("v"))
    worker.state.prefetch([(epoch, number) for number in range(KEYS_AN_EPOCH)])
    for number in range(KEYS_AN_EPOCH):
        worker.at((epoch, number))
        value.update(value.value() or str(epoch))
        worker.at((epoch - LIFE, number))
        value.clear()


def of_lists(worker: Worker, epoch: int) -> None:
    elements = worker.state.get_state(ListStateDescriptor("l"))
    for number in range(KEYS_AN_EPOCH):
        worker.at((epoch, number))
        elements.add(epoch)
        worker.at((epoch - LIFE, number))
        elements.clear()


def of_maps(worker: Worker, epoch: int) -> None:
    entries = worker.state.get_state(MapStateDescriptor("m"))
    for number in range(KEYS_AN_EPOCH):
        worker.at((epoch, number))
        entries.put(epoch, entries.get(1))
        worker.at((epoch - LIFE, number))
        entries.clear()
        worker.at("one key")
        entries.put((epoch, number), "x")
        entries.remove((epoch - LIFE, number))


def that_expires(worker: Worker, epoch: int) -> None:
    ttl = StateTtlConfig.new_builder(Time.milliseconds(10 * LIFE)).build()
    kinds = ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")
    for descriptor in kinds:
        descriptor.enable_time_to_live(ttl)
    value, elements, entries = (worker.state.get_state(descriptor) for descriptor in kinds)
    for number in range(KEYS_AN_EPOCH):
        worker.at((epoch, number))
        value.update(epoch)
        elements.add(epoch)
        entries.put("x", epoch)


def of_timers(worker: Worker, epoch: int) -> None:
    timers = worker.state.event_timers
    for number in range(KEYS_AN_EPOCH):
        # Deleted long before it is due, as those of sessions are, or those that watch for silence.
        timers.add(10**9 + epoch, (epoch, number), None)
        if epoch >= LIFE:
            assert timers.remove(10**9 + epoch - LIFE, (epoch - LIFE, number), None)
        worker.state.processing_timers.add(worker.clock.now_ms + 10 * LIFE, (epoch, number), None)
    worker.fire(lambda key, ns: None)


def of_timers_that_come_and_go(worker: Worker, epoch: int) -> None:
    for number in range(KEYS_AN_EPOCH):
        for time in (epoch, 10**9):
            worker.state.event_timers.add(time, (epoch, number), None)
            assert worker.state.event_timers.remove(time, (epoch, number), None)


def of_windows(worker: Worker, epoch: int) -> None:
    states = [
        worker.state.get_state(descriptor)
        for descriptor in (ValueStateDescriptor("v"), ListStateDescriptor("l"))
    ]
    entries = worker.state.get_state(MapStateDescriptor("m"))
    end = (worker.clock.now_ms // 50 + 1) * 50
    for number in range(KEYS_AN_EPOCH):
        key = (epoch % 100, number)
        worker.at(key, ("w", end))
        states[0].update(epoch)
        states[1].add(epoch)
        entries.put(epoch, epoch)
        worker.state.event_timers.add(end, key, ("w", end))

    def gone(key: Any, ns: Any) -> None:
        for state in (*states, entries):
            state.clear()

    worker.fire(gone)


@pytest.mark.simulation
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "work",
    [
        of_values,
        of_lists,
        of_maps,
        that_expires,
        of_timers,
        of_timers_that_come_and_go,
        of_windows,
    ],
)
def test_a_state_of_constant_size_levels_off(
    work: Callable[[Worker, int], None],
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("rocksdict")
    monkeypatch.setattr(area, "_MOST_VERIFIED", 20)
    # What is imported at the first use is not to count as growth.
    keygroups.numpy_if_there()
    worker = Worker(backend, tmp_path)
    # The smallest sizes of the second and of the last quarter, since folds make them swing; a list
    # of all would grow itself.
    early: dict[str, int] = {}
    late: dict[str, int] = {}
    bases, base = 0, ""
    tracemalloc.start()
    try:
        for epoch in range(EPOCHS):
            worker.clock.now_ms += 10
            work(worker, epoch)
            worker.commit(epoch)
            bases += worker.retained[-1].base_id != base
            base = worker.retained[-1].base_id
            quarter = 4 * epoch // EPOCHS
            if epoch % 10 == 0 and quarter in {1, 3}:
                gc.collect()
                least = early if quarter == 1 else late
                for what, size in measured(worker, tmp_path).items():
                    least[what] = min(size, least.get(what, size))
    finally:
        tracemalloc.stop()
        worker.state.close()
    if work is not of_timers_that_come_and_go:
        assert bases > EPOCHS // 40
    print(bases, "bases", early, late)
    slack = {"memory": 15_000, "bytes of files": 4_000, "bytes of handles": 4_000}
    for what, least in early.items():
        assert late[what] <= 1.4 * least + slack.get(what, 3), (what, early, late)


def measured(worker: Worker, directory: Path) -> dict[str, int]:
    files = [path.stat().st_size for path in directory.iterdir() if path.is_file()]
    version = worker.retained[-1]
    return {
        "memory": tracemalloc.get_traced_memory()[0],
        "files": len(files),
        "bytes of files": sum(files),
        "handles": len(version.files),
        "bytes of handles": sum(file.size_bytes for file in version.files),
    }
