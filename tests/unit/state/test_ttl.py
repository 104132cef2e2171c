"""Time to live, in processing time, on both backends; numbers worked by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import ProgramError
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.state.keyed import FUNCTION

if TYPE_CHECKING:
    from pathlib import Path

TTL_MS = 100
UPDATE, VISIBILITY = StateTtlConfig.UpdateType, StateTtlConfig.StateVisibility


class Fixture:
    """One state, its clock, and a way to put everything behind a commit and a cold restore."""

    def __init__(self, name: str, directory: Path, **settings: Any) -> None:
        rows = {"merge_bytes": -1, "fold_slice_ms": 60_000} if name == "rocksdb" else {}
        self.settings = settings or {"max_deltas": 2, **rows}
        self.name, self.area, self.clock = name, FileArea(directory), EpochClock(1000)
        self.number = 0
        self.state = self.new()
        self.state.restore(())

    def new(self) -> Any:
        backend = create_backend(self.name, **self.settings)
        return backend.create_state(0, 127, 128, self.area, self.clock, "op")

    def get(self, descriptor: Any, config: StateTtlConfig | None, key: Any = "k") -> Any:
        if config is not None:
            descriptor.enable_time_to_live(config)
        self.state.key = key
        return self.state.get_state(descriptor)

    def commit(self) -> Any:
        self.number += 1
        return self.state.commit(f"v{self.number}")

    def reopen(self) -> None:
        version = self.commit()
        self.state = self.new()
        self.state.restore((version,))

    def count(self) -> int:
        """Number of rows that exist, expired ones included."""
        return sum(
            len(value) if kind == "list" else 1 for _, kind, _, _, value in self.state.entries()
        )


@pytest.fixture(params=["hashmap", "rocksdb"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Fixture:
    return Fixture(request.param, tmp_path)


def config(**changes: Any) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(TTL_MS)
    if "update" in changes:
        builder.set_update_type(changes["update"])
    if "visibility" in changes:
        builder.set_state_visibility(changes["visibility"])
    if not changes.get("background", False):
        builder.disable_cleanup_in_background()
    return builder.build()


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_value_is_gone_exactly_at_its_time(at: Fixture, is_reopened: bool) -> None:
    rules = config()
    at.get(ValueStateDescriptor("v"), rules).update("x")
    if is_reopened:
        at.reopen()
    at.clock.now_ms = 1099
    assert at.get(ValueStateDescriptor("v"), rules).value() == "x"
    at.clock.now_ms = 1100
    assert at.get(ValueStateDescriptor("v"), rules).value() is None
    assert at.count() == 0, "the access removes it"


def test_reading_prolongs_only_if_told(at: Fixture) -> None:
    written = at.get(ValueStateDescriptor("w"), config())
    read = at.get(ValueStateDescriptor("r"), config(update=UPDATE.OnReadAndWrite))
    written.update(1)
    read.update(1)
    at.clock.now_ms = 1060
    assert (written.value(), read.value()) == (1, 1)
    at.clock.now_ms = 1159
    assert (written.value(), read.value()) == (None, 1)
    at.clock.now_ms = 1259
    assert read.value() is None


def test_an_expired_value_may_be_returned_once(at: Fixture) -> None:
    state = at.get(
        ValueStateDescriptor("v"), config(visibility=VISIBILITY.ReturnExpiredIfNotCleanedUp)
    )
    state.update("x")
    at.clock.now_ms = 5000
    assert state.value() == "x"
    assert state.value() is None


@pytest.mark.parametrize("is_reopened", [False, True])
def test_list_elements_expire_one_by_one(at: Fixture, is_reopened: bool) -> None:
    rules = config()
    state = at.get(ListStateDescriptor("l"), rules)
    state.add("old")
    at.clock.now_ms = 1050
    state.add_all(["new", "newer"])
    if is_reopened:
        at.reopen()
    state = at.get(ListStateDescriptor("l"), rules)
    assert state.get() == ["old", "new", "newer"]
    at.clock.now_ms = 1100
    assert state.get() == ["new", "newer"]
    assert at.count() == 2
    at.clock.now_ms = 1150
    assert state.get() == []
    assert at.count() == 0


def test_clearing_and_removing(at: Fixture) -> None:
    rules = config()
    value, elements = (
        at.get(ValueStateDescriptor("v"), rules),
        at.get(ListStateDescriptor("l"), rules),
    )
    entries = at.get(MapStateDescriptor("m"), rules)
    for state in (value, elements):
        state.update([1])
    entries.put_all({"a": 1, "b": 2, "c": None})
    entries.remove("a")
    entries.remove("not there")
    at.clock.now_ms = 1099
    assert (list(entries.keys()), list(entries.values())) == (["b", "c"], [2, None])
    for state in (value, elements, entries):
        state.clear()
    assert (value.value(), elements.get(), dict(entries.items())) == (None, [], {})
    assert at.count() == 0


def test_list_reads_prolong_all_elements(at: Fixture) -> None:
    state = at.get(ListStateDescriptor("l"), config(update=UPDATE.OnReadAndWrite))
    state.update([1, 2])
    at.clock.now_ms = 1099
    assert state.get() == [1, 2]
    at.clock.now_ms = 1198
    assert state.get() == [1, 2]
    at.clock.now_ms = 1298
    assert state.get() == []


def test_expired_list_elements_may_be_returned_once(at: Fixture) -> None:
    state = at.get(
        ListStateDescriptor("l"), config(visibility=VISIBILITY.ReturnExpiredIfNotCleanedUp)
    )
    state.add(1)
    at.clock.now_ms = 1100
    state.add(2)
    assert state.get() == [1, 2]
    assert state.get() == [2]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_map_entries_expire_one_by_one(at: Fixture, is_reopened: bool) -> None:
    rules = config()
    state = at.get(MapStateDescriptor("m"), rules)
    state.put("old", None)
    at.clock.now_ms = 1050
    state.put_all({"new": 2, "newer": 3})
    if is_reopened:
        at.reopen()
    state = at.get(MapStateDescriptor("m"), rules)
    assert "old" in state
    at.clock.now_ms = 1100
    assert ("old" in state, state.get("old"), state.get("new")) == (False, None, 2)
    assert dict(state.items()) == {"new": 2, "newer": 3}
    at.clock.now_ms = 1150
    assert state.is_empty()
    assert list(state) == []
    assert at.count() == 0


def test_an_expired_accumulation_starts_from_nothing(at: Fixture) -> None:
    state = at.get(
        ReducingStateDescriptor("r", lambda a, b: a + b),
        config(visibility=VISIBILITY.ReturnExpiredIfNotCleanedUp),
    )
    state.add(10)
    at.clock.now_ms = 1099
    state.add(5)
    assert state.get() == 15
    at.clock.now_ms = 1199
    state.add(1)
    assert state.get() == 1


def test_time_spent_down_counts(at: Fixture) -> None:
    rules = config()
    at.get(ValueStateDescriptor("v"), rules).update("x")
    at.reopen()
    at.clock.now_ms = 999_999
    assert at.get(ValueStateDescriptor("v"), rules).value() is None


@pytest.mark.parametrize("opens_first", [False, True])
@pytest.mark.parametrize("is_folded", [False, True])
def test_ttl_may_be_switched_on_and_off(at: Fixture, opens_first: bool, is_folded: bool) -> None:
    def descriptors() -> list[Any]:
        return [ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")]

    def states(rules: StateTtlConfig | None) -> list[Any]:
        return [at.get(descriptor, rules) for descriptor in descriptors()]

    def restart(rules: StateTtlConfig | None) -> list[Any]:
        version = at.commit()
        for _ in range(3 if is_folded else 0):
            at.state.value_table("other").put("k", None, at.number)
            version = at.commit()
        at.state = at.new()
        if opens_first:
            states(rules)
        at.state.restore((version,))
        return states(rules)

    value, elements, entries = states(None)
    value.update("x")
    elements.add(1)
    entries.put("a", 2)
    at.clock.now_ms = 2000
    value, elements, entries = restart(config())
    elements.add(3)
    assert (value.value(), elements.get(), dict(entries.items())) == ("x", [1, 3], {"a": 2})
    at.clock.now_ms = 2050
    entries.put("b", 4)
    value, elements, entries = restart(None)
    assert (value.value(), elements.get()) == ("x", [1, 3])
    assert dict(entries.items()) == {"a": 2, "b": 4}
    at.clock.now_ms = 9000
    value.update("y")
    elements.update([5])
    value, elements, entries = restart(config())
    assert (value.value(), elements.get()) == ("y", [5])
    at.clock.now_ms = 9100
    assert (value.value(), elements.get(), list(entries)) == (None, [], [])


@pytest.mark.parametrize("name", ["hashmap", "rocksdb"])
def test_expired_rows_leave_with_the_next_image(name: str, tmp_path: Path) -> None:
    rows = {"merge_bytes": -1, "fold_slice_ms": 60_000} if name == "rocksdb" else {}
    at = Fixture(name, tmp_path, max_deltas=1, min_bytes=0, base_share=0, **rows)
    rules = StateTtlConfig.new_builder(TTL_MS).cleanup_full_snapshot()
    rules = rules.disable_cleanup_in_background().build()
    at.get(ValueStateDescriptor("v"), rules).update("x")
    at.get(ListStateDescriptor("l"), rules).add_all([1, 2])
    at.get(MapStateDescriptor("m"), rules).put_all({1: 1, 2: 2})
    for _ in range(3):
        at.commit()
        at.state.value_table("other").put("k", None, at.number)
    at.clock.now_ms = 1099
    at.get(ListStateDescriptor("l"), rules).add(3)
    at.get(MapStateDescriptor("m"), rules).put(1, "again")
    at.clock.now_ms = 1100
    at.reopen()
    for descriptor in (
        ValueStateDescriptor("v"),
        ListStateDescriptor("l"),
        MapStateDescriptor("m"),
    ):
        at.get(descriptor, rules)
    for _ in range(6):
        at.state.value_table("other").put("k", None, at.number)
        at.commit()
    at.reopen()
    assert at.count() == 1 + 1 + 1, "the other state, a list element and a map entry"
    assert dict(at.get(MapStateDescriptor("m"), rules).items()) == {1: "again"}
    assert at.get(ListStateDescriptor("l"), rules).get() == [3]


def test_each_access_pays_for_five_others(tmp_path: Path) -> None:
    at = Fixture("hashmap", tmp_path)
    rules = StateTtlConfig.new_builder(TTL_MS).build()
    for key in range(100):
        at.get(ValueStateDescriptor("v"), rules, key).update(key)
    at.commit()
    at.clock.now_ms = 1100
    at.get(ValueStateDescriptor("v"), rules, "new").update(1)
    assert at.count() == 101
    at.commit()
    assert 96 <= at.count() <= 97, "five were looked at, of which one may be the new one"
    for _ in range(25):
        at.get(ValueStateDescriptor("v"), rules, "new").update(1)
        at.commit()
    assert at.count() == 1


def test_the_builder_is_pyflinks() -> None:
    strategies = StateTtlConfig.CleanupStrategies
    built = (
        StateTtlConfig.new_builder(datetime.timedelta(seconds=1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(1000)
        .disable_cleanup_in_background()
        .set_ttl(5000)
        .build()
    )
    assert built.ttl_ms == 5000
    assert built.get_update_type() is UPDATE.OnReadAndWrite
    assert built.get_state_visibility() is VISIBILITY.ReturnExpiredIfNotCleanedUp
    cleanup = built.get_cleanup_strategies()
    assert isinstance(cleanup, strategies)
    assert cleanup.in_full_snapshot()
    assert not cleanup.is_cleanup_in_background()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 10
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is not None
    plain = StateTtlConfig.new_builder(1).build().get_cleanup_strategies()
    assert plain.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    rows = plain.get_rocksdb_compact_filter_cleanup_strategy()
    assert rows.get_query_time_after_num_entries() == 1000
    with pytest.raises(ProgramError, match="above 0"):
        StateTtlConfig.new_builder(0).build()
    assert StateTtlConfig.new_builder("1 h").build().ttl_ms == 3_600_000
    for wrong, why in (("soon", "no span of time"), (True, "of type bool"), (1.5, "of type float")):
        with pytest.raises(ProgramError, match=f"time to live is .*{why}"):
            StateTtlConfig.new_builder(wrong).build()


def test_a_disabled_ttl_is_none(at: Fixture) -> None:
    state = at.get(ValueStateDescriptor("v"), config(update=UPDATE.Disabled))
    state.update(1)
    at.clock.now_ms = 999_999
    assert state.value() == 1
    assert at.state.value_table("v", FUNCTION).get("k") == 1
