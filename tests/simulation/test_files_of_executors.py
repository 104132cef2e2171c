"""Files that stay with executors, under seeded schedules of failures.

The driver's side is the real one. Executors are sets of files, and workers forget what they were
doing when they die, while what they sent may still arrive. A checkpoint that counts has all its
files; a file that a version or a checkpoint under way needs is not removed; nothing is removed
twice or left for ever; no checkpoint waits for ever.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock.core.handles import FileHandle
from penstock.files.errors import StorageError
from penstock.runtime.records import Delivery, OperatorVersion, SubtaskVersion
from penstock.runtime.state_files import HeldFiles

if TYPE_CHECKING:
    from penstock.runtime.records import Errand, Order

SCHEDULES = int(os.environ.get("PENSTOCK_SCHEDULES", "300"))
KEYS = [(0, 0), (0, 1), (1, 0)]


def version(names: tuple[str, ...]) -> SubtaskVersion:
    handles = tuple(FileHandle(name, 1, name) for name in names)
    return SubtaskVersion(
        "-".join(names), {"uid": OperatorVersion((), handles, ((),) * len(handles))}
    )


class World:
    """Executors, their workers, and the store."""

    def __init__(self, seed: int, files: HeldFiles) -> None:
        self.rng = random.Random(seed)
        self.files = files
        self.store: dict[str, str] = {}
        self.disks: list[set[str]] = [set(), set()]
        self.homes = {key: index % 2 for index, key in enumerate(KEYS)}
        self.state = dict.fromkeys(KEYS, ("start",))
        self.memory: dict[tuple[int, int], dict[int, Delivery | Order]] = {key: {} for key in KEYS}
        self.late: list[Order] = []
        self.completed: dict[tuple[int, int], tuple[str, ...]] = {}
        self.needed: Counter[str] = Counter()
        self.is_cancelled = False
        self.number = 0
        self.excused: set[str] = set()
        """What lost epochs wrote, and copies that subtasks leave where they move away: they stay
        until the next attempt."""
        self.seen: Counter[str] = Counter()
        for key in KEYS:
            self.state[key] = (self.write(key),)
        self.completed = dict(self.state)
        files.released({}, self.versions())

    def versions(self) -> dict[tuple[int, int], SubtaskVersion]:
        return {key: version(names) for key, names in self.state.items()}

    def write(self, key: tuple[int, int]) -> str:
        self.number += 1
        name = f"f{self.number}"
        self.disks[self.homes[key]].add(name)
        return name

    def put(self, order: Order) -> None:
        assert order.url not in self.store or self.store[order.url] == order.file.name
        self.store[order.url] = order.file.name

    # -- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.06:
            self.worker_dies(self.rng.choice(KEYS))
        elif chance < 0.10 and self.late:
            self.seen["late"] += 1
            self.put(self.late.pop(self.rng.randrange(len(self.late))))
        elif chance < 0.13:
            self.executor_dies(self.rng.randrange(2))
        else:
            self.epoch(counts=self.rng.random() < 0.8)

    def epoch(self, *, counts: bool, writes: bool = True) -> None:
        errands = self.files.errands()
        answers: list[Delivery] = []
        after = dict(self.state)
        for key in KEYS:
            answers += self.attend(key, errands.get(key))
            if writes and self.rng.random() < 0.7:
                name = self.write(key)
                after[key] = (*after[key], name)[-self.rng.randint(1, 3) :]
                if not counts:
                    self.excused.add(name)
        if counts:
            before, self.state = self.versions(), after
            self.files.settle(answers)
            self.files.released(before, self.versions())
        else:
            self.seen["lost epoch"] += 1

    def attend(self, key: tuple[int, int], errand: Errand | None) -> list[Delivery]:
        orders = {order.number: order for order in (() if errand is None else errand.orders)}
        mine = self.memory[key]
        for number in mine.keys() - orders.keys():
            order = mine.pop(number)
            if not isinstance(order, Delivery):
                self.late.append(order)
        for name in () if errand is None else errand.gone:
            assert not any(name in names for names in self.state.values()), f"{name} is in use"
            assert not self.needed[name], f"{name} is needed by a checkpoint"
            self.disks[self.homes[key]].discard(name)
        for number, order in orders.items():
            known = mine.setdefault(number, order)
            if isinstance(known, Delivery) or self.rng.random() < 0.4:
                continue
            outcome = self.rng.choice(["done", "done", "done", "failed", "unknown"])
            if order.file.name not in self.disks[self.homes[key]]:
                outcome = "not here"
            self.seen[outcome] += 1
            if outcome in ("done", "unknown"):
                self.put(order)
            mine[number] = Delivery(number, "" if outcome == "done" else outcome)
        return [each for each in mine.values() if isinstance(each, Delivery)]

    def worker_dies(self, key: tuple[int, int]) -> None:
        self.seen["worker"] += 1
        self.late += [each for each in self.memory[key].values() if not isinstance(each, Delivery)]
        self.memory[key] = {}

    def executor_dies(self, which: int) -> None:
        self.seen["executor"] += 1
        self.disks[which] = set()
        for key in KEYS:
            self.worker_dies(key)
        # The next attempt: the checkpoint under way is aborted, the latest one is fetched.
        self.is_cancelled = True
        self.state = dict(self.completed)
        kept = self.files.keep_only(self.versions())
        self.disks = [disk & kept for disk in self.disks]
        for key in KEYS:
            before, self.homes[key] = self.homes[key], self.rng.randrange(2)
            if before != self.homes[key]:
                self.excused |= set(self.state[key])
            self.disks[self.homes[key]] |= set(self.state[key])

    def goes_on(self) -> bool:
        """Until something is known; says whether the checkpoint is aborted."""
        self.is_cancelled |= self.rng.random() < 0.02
        while not self.is_cancelled and self.files.has_orders:
            open_before = sum(len(each.orders) for each in self.files.errands().values())
            self.step()
            if sum(len(each.orders) for each in self.files.errands().values()) < open_before:
                break
        return self.is_cancelled

    def checkpoint(self, number: int) -> None:
        state = dict(self.state)
        pinned = self.files.pin(self.versions().values())
        self.needed.update(pinned)
        self.is_cancelled = False
        for _ in range(self.rng.randrange(3)):
            # The coordinator takes a moment, while epochs run.
            self.epoch(counts=True)
        puts = {f"s3://b/{name}-{number}": FileHandle(name, 1, name) for name in pinned}
        try:
            is_done = self.files.upload(puts, self.goes_on)
        except StorageError:
            is_done = False
            self.seen["failed checkpoint"] += 1
        if is_done and not self.is_cancelled:
            self.seen["checkpoint"] += 1
            assert all(self.store.get(url) == file.name for url, file in puts.items())
            self.completed = state
        self.needed.subtract(pinned)
        self.files.unpin(pinned)


def run(seed: int, files: HeldFiles) -> Counter[str]:
    world = World(seed, files)
    for number in range(12):
        for _ in range(world.rng.randrange(6)):
            world.step()
        world.checkpoint(number)
    # Healed: what nothing names is gone after two epochs.
    for _ in range(2):
        world.epoch(counts=True, writes=False)
    named = {name for names in world.state.values() for name in names}
    left = set().union(*world.disks) - named - world.excused
    assert not left, f"{left} stay for ever"
    return world.seen


def test_no_schedule_loses_a_file_or_waits_for_ever() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        try:
            seen += run(seed, HeldFiles())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    # Every kind of trouble was met, and work got done between.
    for kind in ("late", "worker", "executor", "lost epoch", "failed", "unknown", "checkpoint"):
        assert seen[kind] > SCHEDULES / 10, (kind, seen)


class ForgetsPins(HeldFiles):
    def pin(self, versions):  # type: ignore[no-untyped-def]
        names = super().pin(versions)
        self._pins.clear()
        return names


class TakesAnyAnswer(HeldFiles):
    def settle(self, answers):  # type: ignore[no-untyped-def]
        super().settle([each._replace(error="") for each in answers])


class ForgetsWhatIsGone(HeldFiles):
    def errands(self):  # type: ignore[no-untyped-def]
        found = super().errands()
        self._gone.clear()
        self._told.clear()
        return {key: each._replace(gone=()) for key, each in found.items()}


@pytest.mark.parametrize("broken", [ForgetsPins, TakesAnyAnswer, ForgetsWhatIsGone])
def test_broken_builds_are_detected(broken: type[HeldFiles]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            run(seed, broken())
