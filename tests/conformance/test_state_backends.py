"""One suite for every state backend: whatever is done to state, versions bring exactly it back.

The model is plain dicts. Small limits make every fold, spill and eviction happen within few steps.
"""

from __future__ import annotations

import copy
import random
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.keygroups import key_group, key_group_range, subtask_of
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend

GROUPS = 16
KEYS = [0, 1, 2, 7, "a", "b", ("t", 1), 2.5, b"x", -3]
NAMESPACES = [None, ("w", 1), ("w", 2)]
MAP_KEYS = [0, "m", None, (1, None), "n"]
BACKENDS = ["hashmap", "rocksdb"]

# So small that every fold, merge, spill and eviction happens within a few steps.
SETTINGS: dict[str, dict[str, Any]] = {
    "hashmap": {"max_deltas": 3, "min_bytes": 6000, "base_share": 2},
    "rocksdb": {
        "max_deltas": 3,
        "memory_bytes": 3000,
        "merge_bytes": 500,
        "timers_in_memory": 4,
        "block_cache_bytes": 1 << 20,
    },
    # A fold takes a dozen commits, so that everything happens in its midst.
    "rocksdb, sliced folds": {
        "max_deltas": 3,
        "replay_bytes": 4000,
        "timers_in_memory": 4,
        "block_cache_bytes": 1 << 20,
        "fold_slice_ms": 0,
        "fold_pace": 0,
    },
}


def make_state(name: str, area: FileArea, subtask: int = 0, parallelism: int = 1) -> Any:
    first, last = key_group_range(subtask, parallelism, GROUPS)
    return create_backend(name.partition(",")[0], **SETTINGS[name]).create_state(
        first, last, GROUPS, area, EpochClock(1000), "op"
    )


def dump(states: list[Any]) -> dict[str, Any]:
    """Everything that `entries` yields, as the model has it."""
    found = empty_model()
    for state in states:
        for name, kind, key, ns, value in state.entries():
            if kind == "value":
                assert (name, key, ns) not in found["value"]
                found["value"][name, key, ns] = value
            elif kind == "list":
                found["list"][name, key, ns] = found["list"].get((name, key, ns), []) + value
            elif kind == "map":
                entries = found["map"].setdefault((name, key, ns), {})
                assert value[0] not in entries
                entries[value[0]] = value[1]
            else:
                assert (value, key, ns) not in found[kind]
                found[kind].add((value, key, ns))
    return found


def empty_model() -> dict[str, Any]:
    return {"value": {}, "list": {}, "map": {}, "event_timer": set(), "processing_timer": set()}


class StateMachine(RuleBasedStateMachine):
    backend = ""

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.area = FileArea(self.directory, inline_threshold_bytes=300)
        self.model = empty_model()
        self.commits: list[tuple[dict[str, Any], list[Any]]] = []
        self.number = 0
        self.states = self.new_states(1)
        self.standby: list[Any] = []

    def new_states(self, parallelism: int) -> list[Any]:
        return [
            make_state(self.backend, self.area, index, parallelism) for index in range(parallelism)
        ]

    def teardown(self) -> None:
        for state in getattr(self, "states", []) + getattr(self, "standby", []):
            state.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def at(self, key: Any) -> Any:
        return self.states[subtask_of(key_group(key, GROUPS), len(self.states), GROUPS)]

    # -- changes

    keys = st.sampled_from(KEYS)
    spaces = st.sampled_from(NAMESPACES)
    numbers = st.integers(0, 9)
    texts = st.text(max_size=40)

    @rule(key=keys, ns=spaces, value=st.one_of(numbers, texts))
    def put_value(self, key: Any, ns: Any, value: Any) -> None:
        self.at(key).value_table("v").put(key, ns, value)
        self.model["value"]["v", key, ns] = value

    @rule(key=keys, ns=spaces)
    def remove_value(self, key: Any, ns: Any) -> None:
        self.at(key).value_table("v").remove(key, ns)
        self.model["value"].pop(("v", key, ns), None)

    @rule(keys=st.lists(keys))
    def prefetch(self, keys: list[Any]) -> None:
        for state in self.states:
            state.prefetch([key for key in keys if self.at(key) is state])

    @rule(key=keys, ns=spaces, values=st.lists(numbers, max_size=5))
    def extend_list(self, key: Any, ns: Any, values: list[Any]) -> None:
        self.at(key).list_table("l").extend(key, ns, values)
        if values:
            self.model["list"].setdefault(("l", key, ns), []).extend(values)

    @rule(key=keys, ns=spaces, value=texts)
    def append_list(self, key: Any, ns: Any, value: Any) -> None:
        self.at(key).list_table("l").append(key, ns, value)
        self.model["list"].setdefault(("l", key, ns), []).append(value)

    @rule(key=keys, ns=spaces, values=st.lists(numbers, max_size=3))
    def replace_list(self, key: Any, ns: Any, values: list[Any]) -> None:
        self.at(key).list_table("l").replace(key, ns, list(values))
        self.model["list"].pop(("l", key, ns), None)
        if values:
            self.model["list"]["l", key, ns] = list(values)

    @rule(key=keys)
    def merge_lists(self, key: Any) -> None:
        _, target, source = NAMESPACES
        self.at(key).list_table("l").merge_namespaces(key, target, [source])
        moved = self.model["list"].pop(("l", key, source), [])
        if moved:
            self.model["list"].setdefault(("l", key, target), []).extend(moved)

    @rule(key=keys, ns=spaces, map_key=st.sampled_from(MAP_KEYS), value=st.none() | numbers)
    def put_entry(self, key: Any, ns: Any, map_key: Any, value: Any) -> None:
        self.at(key).map_table("m").put(key, ns, map_key, value)
        self.model["map"].setdefault(("m", key, ns), {})[map_key] = value

    @rule(key=keys, ns=spaces, map_key=st.sampled_from(MAP_KEYS))
    def remove_entry(self, key: Any, ns: Any, map_key: Any) -> None:
        self.at(key).map_table("m").remove(key, ns, map_key)
        entries = self.model["map"].get(("m", key, ns), {})
        entries.pop(map_key, None)
        if not entries:
            self.model["map"].pop(("m", key, ns), None)

    @rule(key=keys, ns=spaces)
    def clear_map(self, key: Any, ns: Any) -> None:
        self.at(key).map_table("m").clear(key, ns)
        self.model["map"].pop(("m", key, ns), None)

    @rule(key=keys, ns=spaces, time=st.integers(-2, 12), is_event=st.booleans())
    def add_timer(self, key: Any, ns: Any, time: int, is_event: bool) -> None:
        state = self.at(key)
        (state.event_timers if is_event else state.processing_timers).add(time, key, ns)
        self.model["event_timer" if is_event else "processing_timer"].add((time, key, ns))

    @rule(key=keys, ns=spaces, time=st.integers(-2, 12), is_event=st.booleans())
    def remove_timer(self, key: Any, ns: Any, time: int, is_event: bool) -> None:
        state = self.at(key)
        timers = self.model["event_timer" if is_event else "processing_timer"]
        removed = (state.event_timers if is_event else state.processing_timers).remove(
            time, key, ns
        )
        assert removed is ((time, key, ns) in timers)
        timers.discard((time, key, ns))

    @rule()
    def fire_earliest(self) -> None:
        for index, state in enumerate(self.states):
            mine = {timer for timer in self.model["event_timer"] if self.at(timer[1]) is state}
            assert len(list(state.event_timers.all())) == len(mine)
            earliest = min((time for time, _, _ in mine), default=None)
            assert state.event_timers.next_time() == earliest, index
            if earliest is not None:
                due = state.event_timers.due(earliest)
                expected = {timer for timer in mine if timer[0] == earliest}
                assert {(earliest, key, ns) for key, ns in due} == expected
                assert len(due) == len(expected)
                for key, ns in due:
                    assert state.event_timers.remove(earliest, key, ns)
                self.model["event_timer"] -= expected

    @rule(rng=st.randoms(use_true_random=False), steps=st.integers(5, 60))
    def work(self, rng: Any, steps: int) -> None:
        """Many changes at once: folds and evictions need more than a shrinkable handful."""
        for _ in range(steps):
            self.change(rng)

    def change(self, rng: Any) -> None:
        key, ns, number = rng.choice(KEYS), rng.choice(NAMESPACES), rng.randrange(10)
        map_key, is_event = rng.choice(MAP_KEYS), rng.random() < 0.5
        changes = [
            lambda: self.put_value(key, ns, "x" * number * 5),
            lambda: self.put_value(key, None, number),
            lambda: self.remove_value(key, ns),
            lambda: self.extend_list(key, ns, [number] * (number % 4)),
            lambda: self.append_list(key, ns, "y" * number),
            lambda: self.replace_list(key, ns, [number] * (number % 3)),
            lambda: self.merge_lists(key),
            lambda: self.put_entry(key, ns, map_key, number),
            lambda: self.put_entry(key, ns, number, None),
            lambda: self.remove_entry(key, ns, map_key),
            lambda: self.clear_map(key, ns) if number < 3 else None,
            lambda: self.add_timer(key, ns, number * 3, is_event),
            lambda: self.add_timer(key, ns, number, is_event),
            lambda: self.remove_timer(key, ns, number, is_event),
            lambda: self.prefetch(rng.sample(KEYS, 3)),
            lambda: self.read(key, ns),
        ]
        rng.choice(changes)()

    # -- reads

    @rule(key=keys, ns=spaces)
    def read(self, key: Any, ns: Any) -> None:
        state = self.at(key)
        assert state.value_table("v").get(key, ns) == self.model["value"].get(("v", key, ns))
        assert state.list_table("l").get(key, ns) == self.model["list"].get(("l", key, ns), [])
        table, entries = state.map_table("m"), self.model["map"].get(("m", key, ns), {})
        for map_key in MAP_KEYS:
            assert table.get(key, ns, map_key, "none") == entries.get(map_key, "none")
            assert table.contains(key, ns, map_key) is (map_key in entries)
        items = list(table.items(key, ns))
        assert dict(items) == entries
        assert len(items) == len(entries)
        assert table.is_empty(key, ns) is (not entries)

    @rule()
    def evict(self) -> None:
        for state in self.states:
            if self.backend != "hashmap":
                state._evict()

    @invariant()
    def dump_is_the_model(self) -> None:
        if hasattr(self, "states"):
            assert dump(self.states) == self.model

    # -- versions

    @rule()
    def commit(self) -> None:
        self.number += 1
        versions = [
            state.commit(f"e{self.number}-{index}") for index, state in enumerate(self.states)
        ]
        self.commits.append((copy.deepcopy(self.model), versions))

    @precondition(lambda self: getattr(self, "commits", None))
    @rule(back=st.integers(0, 5), how=st.sampled_from(["same", "cold", "standby", "mixed"]))
    def restore(self, back: int, how: str) -> None:
        model, versions = self.commits[-1 - back % len(self.commits)]
        parallelism = len(versions)
        if how == "cold" or parallelism != len(self.states):
            self.standby, self.states = self.states, self.new_states(parallelism)
        elif how == "standby" and len(self.standby) == parallelism:
            self.standby, self.states = self.states, self.standby
        for state, version in zip(self.states, versions, strict=True):
            state.restore((version,))
            if how == "mixed":
                state.restore((version,))
        self.model = copy.deepcopy(model)

    @rule()
    def restore_nothing(self) -> None:
        for state in self.states:
            state.restore(())
        self.model = empty_model()

    @precondition(lambda self: getattr(self, "commits", None))
    @rule(parallelism=st.integers(1, 3), back=st.integers(0, 3))
    def rescale(self, parallelism: int, back: int) -> None:
        model, versions = self.commits[-1 - back % len(self.commits)]
        self.standby, self.states = self.states, self.new_states(parallelism)
        for state in self.states:
            state.restore(versions)
        self.model = copy.deepcopy(model)


class HashMapMachine(StateMachine):
    backend = "hashmap"


class RocksDbMachine(StateMachine):
    backend = "rocksdb"


class SlicedFoldsMachine(StateMachine):
    backend = "rocksdb, sliced folds"


MANY = settings(
    max_examples=40,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
TestHashMap = HashMapMachine.TestCase
TestHashMap.settings = MANY
TestRocksDb = RocksDbMachine.TestCase
TestRocksDb.settings = MANY
TestSlicedFolds = SlicedFoldsMachine.TestCase
TestSlicedFolds.settings = MANY


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("machine", [HashMapMachine, RocksDbMachine, SlicedFoldsMachine])
def test_a_long_life(machine: Any, seed: int) -> None:
    """The same rules without shrinking, for far more steps than hypothesis takes."""
    rng = random.Random(seed)
    life = machine()
    life.start()
    try:
        for _ in range(60):
            life.work(rng=rng, steps=rng.randrange(1, 40))
            life.dump_is_the_model()
            event = rng.random()
            if event < 0.6:
                life.commit()
            elif event < 0.7 and life.commits:
                how = rng.choice(["same", "cold", "standby", "mixed"])
                life.restore(back=rng.randrange(3), how=how)
            elif event < 0.8 and life.commits:
                life.rescale(parallelism=rng.randrange(1, 4), back=rng.randrange(2))
            elif event < 0.9:
                life.evict()
            elif event < 0.98:
                life.fire_earliest()
            else:
                life.restore_nothing()
            life.dump_is_the_model()
    finally:
        life.teardown()
