"""What an operator does with keyed state in an epoch, at random, and with a model beside it."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

from sim_state_model import Model, change, compare

from penstock.core.keygroups import key_group, subtask_of
from penstock.core.times import EpochClock
from penstock.state.keyed import FUNCTION

if TYPE_CHECKING:
    import random

    from sim_state_model import Declared

GROUPS = 16
KEYS = [0, -7, "a", ("t", 1), 2.5, b"x"]
WINDOW_MS = 10


class StateWork:
    """Changes, reads and timers; who holds the state, and since when, is no matter here."""

    def __init__(self, rng: random.Random, declared: list[Declared]) -> None:
        self.rng = rng
        self.declared = declared
        self.seen: Counter[str] = Counter()
        self.clock = EpochClock(1_000)
        self.model = Model(1_000)
        self.watermark = 0
        self.workers: list[Any] = []
        # Timers come back at the time that they were deleted at.
        self.deleted: dict[str, list[tuple[int, Any]]] = {}

    def at(self, key: Any) -> Any:
        return self.workers[subtask_of(key_group(key, GROUPS), len(self.workers), GROUPS)]

    def epoch(self) -> None:
        rng = self.rng
        self.clock.now_ms += rng.choice([0, 1, 5, 5, 20])
        self.model.now_ms = self.clock.now_ms
        for worker in self.workers:
            worker.prefetch([key for key in KEYS if self.at(key) is worker and rng.random() < 0.5])
        for _ in range(rng.choice([0, 1, 3, 10, 30, 120])):
            self.act()
        if rng.random() < 0.7:
            self.fire("event_timers", self.watermark)
            self.fire("processing_timers", self.clock.now_ms)
        self.watermark += rng.choice([0, 1, 3, 10, 10, 40])

    def windows(self) -> list[tuple[str, int]]:
        first = self.watermark - self.watermark % WINDOW_MS
        return [("w", first + WINDOW_MS * ahead) for ahead in range(1, 4)]

    def act(self) -> None:
        rng = self.rng
        key, what = rng.choice(KEYS), rng.random()
        if what < 0.35:
            ns = rng.choice(self.windows())
            self.touch(key, ns, rng.choice(self.declared))
            self.add_timer("event_timers", ns[1], key, ns)
        elif what < 0.75:
            self.touch(key, None, rng.choice(self.declared))
        elif what < 0.95:
            domain = rng.choice(["event_timers", "processing_timers"])
            now = self.watermark if domain == "event_timers" else self.clock.now_ms
            time = now + rng.choice([1, 2, 3, rng.randrange(60), 5_000 + rng.randrange(3)])
            deleted = self.deleted.setdefault(domain, [])
            if deleted and rng.random() < 0.6:
                time, key = deleted.pop(rng.randrange(len(deleted)))
            if rng.random() < 0.8:
                self.add_timer(domain, time, key, None)
            else:
                self.remove_timer(domain, time, key, None)
        elif what < 0.98:
            domain = rng.choice(["event_timers", "processing_timers"])
            timers = sorted(getattr(self.model, domain), key=repr)
            for time, key, ns in rng.sample(timers, len(timers) // 3):
                self.remove_timer(domain, time, key, ns)
                if ns is None:
                    self.deleted.setdefault(domain, []).append((time, key))
        else:
            self.merge_windows(key)

    def touch(self, key: Any, ns: Any, declared: Any, *, reads: bool = False) -> None:
        worker = self.at(key)
        worker.key, worker.namespace = key, ns
        state = worker.get_state(declared.descriptor)
        if reads or self.rng.random() < 0.3:
            compare(self.rng, self.model, declared, state, (key, ns))
        else:
            change(self.rng, self.model, declared, state, (key, ns))
        self.seen[f"{declared.name} in {'a window' if ns else 'a key'}"] += 1

    def merge_windows(self, key: Any) -> None:
        """Sessions that meet: contents of the later windows go to the first."""
        target, *sources = self.windows()
        worker, contents = self.at(key), self.model.contents
        for declared in self.declared:
            name, kind = declared.name, declared.kind
            if declared.expires or kind in {"value", "aggregating"}:
                continue
            parts = [contents.pop((name, key, ns), {}) for ns in (target, *sources)]
            elements = [element for part in parts for element in part.values()]
            if kind == "list":
                worker.list_table(name, FUNCTION).merge_namespaces(key, target, sources)
                merged = dict(enumerate(elements))
            elif kind == "map":
                worker.map_table(name, FUNCTION).merge_namespaces(key, target, sources)
                merged = {place: each for part in parts for place, each in part.items()}
            else:
                add = operator.add
                worker.value_table(name, FUNCTION).merge_namespaces(key, target, sources, add)
                merged = {0: (sum(value for value, _ in elements), 0)} if elements else {}
            if merged:
                contents[name, key, target] = merged
            self.seen["windows merged"] += 1
        self.add_timer("event_timers", target[1], key, target)

    # -- timers -------------------------------------------------------------------------------

    def add_timer(self, domain: str, time: int, key: Any, ns: Any) -> None:
        getattr(self.at(key), domain).add(time, key, ns)
        getattr(self.model, domain).add((time, key, ns))
        self.seen[f"{domain} registered"] += 1

    def remove_timer(self, domain: str, time: int, key: Any, ns: Any) -> None:
        timers = getattr(self.model, domain)
        removed = getattr(self.at(key), domain).remove(time, key, ns)
        assert removed is ((time, key, ns) in timers), (domain, time, key, ns)
        timers.discard((time, key, ns))
        self.seen[f"{domain} deleted"] += removed

    def fire(self, domain: str, until: int) -> None:
        """Fires what is due, as operators do: in order, timers registered meanwhile included."""
        timers = getattr(self.model, domain)
        for worker in self.workers:
            table = getattr(worker, domain)
            while True:
                mine = {timer for timer in timers if self.at(timer[1]) is worker}
                assert len(list(table.all())) == len(mine), domain
                earliest = min((time for time, _, _ in mine), default=None)
                assert table.next_time() == earliest, domain
                if earliest is None or earliest > until:
                    break
                due = table.due(earliest)
                expected = {(key, ns) for time, key, ns in mine if time == earliest}
                assert len(due) == len(expected)
                assert set(due) == expected
                for key, ns in due:
                    self.remove_timer(domain, earliest, key, ns)
                    self.seen[f"{domain} fired"] += 1
                    self.on_timer(domain, earliest, key, ns)

    def on_timer(self, domain: str, time: int, key: Any, ns: Any) -> None:
        if ns is not None:
            worker = self.at(key)
            worker.key, worker.namespace = key, ns
            for declared in self.declared:
                worker.get_state(declared.descriptor).clear()
                self.model.set(declared, key, ns, {})
            self.seen["windows purged"] += 1
        elif self.rng.random() < 0.3:
            self.add_timer(domain, time + self.rng.randrange(1, 30), key, None)
