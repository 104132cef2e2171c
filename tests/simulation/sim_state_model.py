"""What keyed state ought to hold: plain dictionaries, with the rules of Flink's documents.

Every content is kept with its last access, because a state with a time to live hides what was last
accessed that long ago, each list element and each map entry by itself.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    import random

    from penstock.state.descriptors import StateDescriptor

TTL_MS = 40
MAP_KEYS = ["a", "b", "c", "", "é"]


class Mean:
    """An aggregate function whose accumulator is not its result."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


def ttl(*, on_read: bool) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS))
    if on_read:
        builder.update_ttl_on_read_and_write().cleanup_incrementally(2, False)
    return builder.build()


@dataclass(frozen=True)
class Declared:
    """One state of the program."""

    descriptor: StateDescriptor
    expires: bool = False
    on_read: bool = False

    @property
    def name(self) -> str:
        return self.descriptor.name

    @property
    def kind(self) -> str:
        return self.descriptor.kind


def declared_states() -> list[Declared]:
    """Every kind, pickled and of a declared type, without and with a time to live."""
    found = []
    for typed in (False, True):
        number = Types.LONG() if typed else None
        text = Types.STRING() if typed else None
        for expires, on_read in ((False, False), (True, False), (True, True)):
            end = f"{'-typed' * typed}{'-ttl' * expires}{'-read' * on_read}"
            for descriptor in (
                ValueStateDescriptor("value" + end, number),
                ListStateDescriptor("list" + end, number),
                MapStateDescriptor("map" + end, text, number),
                ReducingStateDescriptor("reducing" + end, lambda a, b: a + b, number),
                AggregatingStateDescriptor("aggregating" + end, Mean()),
            ):
                if expires:
                    descriptor.enable_time_to_live(ttl(on_read=on_read))
                found.append(Declared(descriptor, expires, on_read))
    return found


@dataclass
class Model:
    """Contents by (state name, key, namespace), and timers as (time, key, namespace)."""

    now_ms: int = 0
    contents: dict[tuple[str, Any, Any], dict[Any, tuple[Any, int]]] = field(default_factory=dict)
    event_timers: set[tuple[int, Any, Any]] = field(default_factory=set)
    processing_timers: set[tuple[int, Any, Any]] = field(default_factory=set)

    def frozen(self) -> bytes:
        return pickle.dumps(self)

    def alive(self, state: Declared, key: Any, ns: Any) -> dict[Any, tuple[Any, int]]:
        """What of a state is not expired: by map key, or by position in a list or list of one."""
        found = self.contents.get((state.name, key, ns), {})
        if not state.expires:
            return found
        return {
            place: (value, accessed)
            for place, (value, accessed) in found.items()
            if accessed + TTL_MS > self.now_ms
        }

    def set(self, state: Declared, key: Any, ns: Any, contents: dict[Any, tuple[Any, int]]) -> None:
        if contents:
            self.contents[state.name, key, ns] = contents
        else:
            self.contents.pop((state.name, key, ns), None)

    def read(self, state: Declared, key: Any, ns: Any) -> list[tuple[Any, Any]]:
        """Reads all of a state, which prolongs its life if it says so."""
        found = self.alive(state, key, ns)
        if state.on_read:
            found = {place: (value, self.now_ms) for place, (value, _) in found.items()}
            self.set(state, key, ns, found)
        return [(place, value) for place, (value, _) in found.items()]


def change(rng: random.Random, model: Model, declared: Declared, state: Any, at: Any) -> None:
    """Does one thing to a state and to the model, and compares what both say."""
    key, ns = at
    if declared.kind == "list":
        _change_list(rng, model, declared, state, at)
    elif declared.kind == "map":
        _change_map(rng, model, declared, state, at)
    elif rng.random() < 0.15:
        state.clear()
        model.set(declared, key, ns, {})
    elif declared.kind == "value":
        value = rng.choice([None, 0, rng.randrange(1000)])
        if "typed" not in declared.name and value:
            value = "x" * rng.randrange(200)
        state.update(value)
        model.set(declared, key, ns, {} if value is None else {0: (value, model.now_ms)})
    else:
        number = rng.randrange(100)
        before = model.alive(declared, key, ns)
        if declared.kind == "aggregating":
            old = before[0][0] if before else (0, 0)
            new: Any = (old[0] + number, old[1] + 1)
        else:
            new = before[0][0] + number if before else number
        state.add(number)
        model.set(declared, key, ns, {0: (new, model.now_ms)})


def _change_list(rng: random.Random, model: Model, declared: Declared, state: Any, at: Any) -> None:
    key, ns = at
    kept = [] if (what := rng.random()) < 0.3 else list(model.alive(declared, key, ns).values())
    added = [rng.randrange(1000) for _ in range(rng.randrange(6))]
    if what < 0.15:
        state.clear()
        added = []
    elif what < 0.3:
        state.update(list(added))
    elif what < 0.6 and added:
        del added[1:]
        state.add(added[0])
    else:
        state.add_all(list(added))
    kept += [(value, model.now_ms) for value in added]
    model.set(declared, key, ns, dict(enumerate(kept)))


def _change_map(rng: random.Random, model: Model, declared: Declared, state: Any, at: Any) -> None:
    key, ns = at
    entries, what = dict(model.alive(declared, key, ns)), rng.random()
    map_key = rng.choice([*MAP_KEYS, f"k{rng.randrange(6)}"])
    if what < 0.1:
        state.clear()
        entries = {}
    elif what < 0.35:
        state.remove(map_key)
        entries.pop(map_key, None)
    elif what < 0.5:
        added = {f"k{rng.randrange(6)}": rng.randrange(100) for _ in range(rng.randrange(5))}
        state.put_all(added)
        entries |= {name: (value, model.now_ms) for name, value in added.items()}
    else:
        value = rng.randrange(1000)
        state.put(map_key, value)
        entries[map_key] = (value, model.now_ms)
    model.set(declared, key, ns, entries)


def compare(rng: random.Random, model: Model, declared: Declared, state: Any, at: Any) -> None:
    """Reads a state in one of the ways that there are."""
    key, ns = at
    if declared.kind == "map":
        _compare_map(rng, model, declared, state, at)
        return
    found = [value for _, value in model.read(declared, key, ns)]
    if declared.kind == "list":
        assert list(state.get()) == found, (declared.name, at)
        return
    expected = found[0] if found else None
    if declared.kind == "value":
        assert state.value() == expected, (declared.name, at)
    elif declared.kind == "aggregating":
        mean = None if expected is None else expected[0] / expected[1]
        assert state.get() == mean, (declared.name, at)
    else:
        assert state.get() == expected, (declared.name, at)


def _compare_map(rng: random.Random, model: Model, declared: Declared, state: Any, at: Any) -> None:
    key, ns = at
    alive, what = model.alive(declared, key, ns), rng.random()
    if what < 0.4:
        map_key = rng.choice([*MAP_KEYS, f"k{rng.randrange(6)}"])
        expected = alive[map_key][0] if map_key in alive else None
        if what < 0.2:
            assert state.get(map_key) == expected, (declared.name, at)
        else:
            assert state.contains(map_key) is (map_key in alive), (declared.name, at)
        if declared.on_read and map_key in alive:
            alive[map_key] = (expected, model.now_ms)
            model.set(declared, key, ns, alive)
    elif what < 0.5:
        assert state.is_empty() is (not alive), (declared.name, at)
    else:
        items = list(state.items())
        assert len(items) == len(alive), (declared.name, at)
        assert dict(items) == dict(model.read(declared, key, ns)), (declared.name, at)
