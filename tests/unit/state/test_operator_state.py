"""Operator state: its rules of redistribution, by hand."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from penstock.common.typeinfo import Types
from penstock.core.errors import ProgramError, StateError
from penstock.core.handles import FileHandle
from penstock.files.area import FileArea
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.state.operator_snapshot import encode_logic, read_logic, write_states
from penstock.state.operator_state import OperatorState, redistribute
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from pathlib import Path

LIST, MAP = ListStateDescriptor("list"), MapStateDescriptor("map")
_LOGIC = encode_logic(0, None, None, Pickles.ALLOW, "op")
LOGIC = FileHandle("logic", len(_LOGIC), hashlib.sha256(_LOGIC).hexdigest(), _LOGIC)


def restored(snapshots: list[Any], parallelism: int) -> list[OperatorState]:
    states = []
    for subtask in range(parallelism):
        state = OperatorState()
        state.restore(pickle.loads(pickle.dumps(snapshots)), subtask, parallelism)
        states.append(state)
    return states


def with_list(*elements: Any) -> Any:
    state = OperatorState()
    state.get_list_state(LIST).add_all(elements)
    return state.snapshot()


def lists(states: list[OperatorState]) -> list[list[Any]]:
    return [state.get_list_state(LIST).get() for state in states]


def test_equal_parallelism_changes_nothing() -> None:
    old = [with_list(1, 2, 3), with_list(), with_list(4)]
    assert lists(restored(old, 3)) == [[1, 2, 3], [], [4]]


def test_elements_are_dealt_in_runs_with_the_first_getting_the_extras() -> None:
    old = [with_list(1, 2, 3), with_list(4, 5)]
    assert lists(restored(old, 3)) == [[1, 2], [3, 4], [5]]
    assert lists(restored(old, 1)) == [[1, 2, 3, 4, 5]]
    assert lists(restored(old, 4)) == [[1, 2], [3], [4], [5]]
    assert lists(restored(old, 7)) == [[1], [2], [3], [4], [5], [], []]


def test_the_next_state_goes_on_where_the_extras_stopped() -> None:
    old = [{"a": ("split", [1, 2, 3, 4]), "b": ("split", [5, 6, 7, 8])}, {}]
    shares = [redistribute(old, subtask, 3) for subtask in range(3)]
    assert [share["a"][1] for share in shares] == [[1, 2], [3], [4]]
    assert [share["b"][1] for share in shares] == [[5], [6, 7], [8]]


def test_every_subtask_gets_all_of_a_union() -> None:
    olds = []
    for elements in ([1, 2], [3], []):
        state = OperatorState()
        state.get_union_list_state(LIST).update(elements)
        olds.append(state.snapshot())
    for parallelism in (1, 3, 4):
        for state in restored(olds, parallelism):
            assert state.get_union_list_state(LIST).get() == [1, 2, 3]


def test_broadcast_copies_go_round_robin() -> None:
    olds = []
    for number in range(2):
        state = OperatorState()
        state.get_broadcast_state(MAP)["copy"] = number
        olds.append(state.snapshot())
    for parallelism, copies in ((1, [0]), (2, [0, 1]), (5, [0, 1, 0, 1, 0])):
        states = restored(olds, parallelism)
        assert [state.get_broadcast_state(MAP)["copy"] for state in states] == copies


@given(
    old=st.lists(st.lists(st.integers()), min_size=1, max_size=5),
    names=st.integers(1, 4),
    parallelism=st.integers(1, 7),
)
def test_no_element_is_lost_or_doubled(old: list[list[int]], names: int, parallelism: int) -> None:
    snapshots = [{str(n): ("split", part) for n in range(names)} for part in old]
    shares = [redistribute(snapshots, subtask, parallelism) for subtask in range(parallelism)]
    for name in map(str, range(names)):
        dealt = [share[name][1] for share in shares]
        assert [element for part in dealt for element in part] == [e for part in old for e in part]
        if len(old) != parallelism:
            sizes = [len(part) for part in dealt]
            assert max(sizes) - min(sizes) <= 1


def test_restoring_is_in_place_and_drops_what_was_there() -> None:
    state = OperatorState()
    elements, entries = state.get_list_state(LIST), state.get_broadcast_state(MAP)
    elements.add(1)
    entries.put("a", 1)
    saved = state.snapshot()
    elements.add(2)
    entries.put("b", 2)
    assert not state.is_restored
    state.restore([saved], 0, 1)
    assert state.is_restored
    assert (elements.get(), dict(entries.items())) == ([1], {"a": 1})
    state.restore([], 0, 1)
    assert not state.is_restored
    assert (elements.get(), dict(entries.items())) == ([], {})


def test_a_snapshot_is_a_copy() -> None:
    state = OperatorState()
    state.get_list_state(LIST).add(1)
    saved = state.snapshot()
    state.get_list_state(LIST).add(2)
    assert saved == {"list": ("split", [1])}


def test_old_subtasks_without_state_count_too() -> None:
    assert lists(restored([None, with_list(1, 2, 3)], 3)) == [[1], [2], [3]]


def test_list_rules() -> None:
    elements = OperatorState().get_list_state(LIST)
    elements.update([1])
    elements.add_all([2, 3])
    assert list(elements) == [1, 2, 3]
    for use in (elements.add, elements.add_all, elements.update):
        with pytest.raises(ProgramError, match="None"):
            use(None)
    elements.update([])
    assert elements.get() == []


def test_broadcast_state_as_map_and_read_only() -> None:
    state = OperatorState()
    entries = state.get_broadcast_state(MAP)
    view = state.get_read_only_broadcast_state(MAP)
    entries["a"] = None
    entries.put_all({"b": 2, "c": 3})
    del entries["c"]
    entries.remove("not there")
    assert ("a" in view, "c" in view, view["b"], view.get("c")) == (True, False, 2, None)
    assert sorted(view) == ["a", "b"]
    assert sorted(view.items(), key=str) == [("a", None), ("b", 2)]
    assert set(view.values()) == {None, 2}
    assert not view.is_empty()
    for use in (
        view.clear,
        lambda: view.put("x", 1),
        lambda: view.put_all({}),
        lambda: view.remove("a"),
    ):
        with pytest.raises(ProgramError, match="read-only"):
            use()
    for key in entries.keys():  # noqa: SIM118 - a user would write it so
        entries.remove(key)
    assert entries.is_empty()


def test_one_name_has_one_mode() -> None:
    state = OperatorState()
    state.get_list_state(LIST)
    with pytest.raises(ProgramError, match="'list'"):
        state.get_union_list_state(LIST)
    with pytest.raises(StateError, match="'list'"):
        state.restore([{"list": ("union", [1])}], 0, 1)


# -- what a commit writes -----------------------------------------------------------------------


class Writes(FileArea):
    """Counts what is handed to it."""

    count = 0

    def write(self, name: str, data: bytes, known: FileHandle | None = None) -> FileHandle:
        self.count += 1
        return super().write(name, data, known)


def commit(own: OperatorState, area: FileArea, version: str) -> tuple[FileHandle, ...]:
    return write_states(own, area, version, Pickles.ALLOW, "op")


def test_only_states_that_changed_are_written(tmp_path: Path) -> None:
    area = Writes(tmp_path, 0)
    own = OperatorState()
    elements, rules = own.get_list_state(LIST), own.get_broadcast_state(MAP)
    reading = own.get_read_only_broadcast_state(MAP)
    elements.update([1])
    rules.put("rule", {"threshold": 3})
    first = commit(own, area, "v1")
    assert area.count == 2
    # Looking is no change, and the side that does not broadcast cannot change anything.
    assert elements.get() == [1]
    assert reading.get("rule") == {"threshold": 3}
    assert list(reading.items()) == [("rule", {"threshold": 3})]
    assert rules.contains("rule")
    assert rules.keys() == ["rule"]
    assert commit(own, area, "v2") == first
    assert area.count == 2
    elements.add(2)
    second = commit(own, area, "v3")
    assert area.count == 3
    assert [one == other for one, other in zip(first, second, strict=True)] == [False, True]
    rules.remove("rule")
    third = commit(own, area, "v4")
    assert [one == other for one, other in zip(second, third, strict=True)] == [True, False]


def test_what_the_broadcasting_side_changes_in_place_is_written(tmp_path: Path) -> None:
    area = Writes(tmp_path, 0)
    for look in ("get", "items", "values"):
        own = OperatorState()
        rules = own.get_broadcast_state(MAP)
        rules.put("rule", [1])
        commit(own, area, f"{look}-1")
        found = {"get": lambda: rules.get("rule"), "values": lambda: rules.values()[0]}  # noqa: B023
        (found[look]() if look in found else rules.items()[0][1]).append(2)
        files = commit(own, area, f"{look}-2")
        (saved,) = read_logic([LOGIC], [files], area, Pickles.ALLOW)
        assert saved.operator_state == {"map": ("broadcast", {"rule": [1, 2]})}


def test_equal_content_keeps_its_file(tmp_path: Path) -> None:
    """As of a function that puts all it has into its state at each snapshot."""
    area = FileArea(tmp_path, 0)
    own = OperatorState()
    own.get_list_state(LIST).update([1, 2])
    first = commit(own, area, "v1")
    own.get_list_state(LIST).update([1, 2])
    assert commit(own, area, "v2") == first
    assert len(list(tmp_path.iterdir())) == 1


def test_a_restored_version_is_not_written_again(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    own = OperatorState()
    own.get_list_state(LIST).update([1, 2])
    first = commit(own, area, "v1")
    own.get_list_state(LIST).add(3)
    commit(own, area, "lost")
    for each in (own, OperatorState()):
        (saved,) = read_logic([LOGIC], [first], area, Pickles.ALLOW)
        each.restore([saved.operator_state], 0, 1, saved.schemas, saved.files)
        assert each.get_list_state(LIST).get() == [1, 2]
        assert commit(each, area, "v2") == first
    # Of another type it is other bytes.
    typed = OperatorState()
    (saved,) = read_logic([LOGIC], [first], area, Pickles.ALLOW)
    typed.restore([saved.operator_state], 0, 1, saved.schemas, saved.files)
    typed.get_list_state(ListStateDescriptor("list", Types.LONG()))
    assert commit(typed, area, "v3") != first


def test_of_a_large_broadcast_map_the_changes_are_written(tmp_path: Path) -> None:
    """One rule of many is one entry; a fresh worker reads the map in the order in which it is."""
    area = FileArea(tmp_path, 0)
    own = OperatorState()
    rules = own.get_broadcast_state(MAP)
    count = 4_000
    rules.put_all({f"rule {n}": {"threshold": n} for n in range(count)})
    files = commit(own, area, "whole")
    whole = files[0].size_bytes
    assert commit(own, area, "same") == files
    for epoch in range(60):
        rules.put(f"rule {epoch}", {"threshold": -epoch})
        rules.get("rule 7")["threshold"] += 1
        rules.remove(f"rule {1000 + epoch}")
        rules.put(f"rule {1000 + epoch // 2}", {"threshold": 0})
        rules.put(f"new {epoch}", {})
        rules.remove("none such")
        before, files = files, commit(own, area, f"e{epoch}")
        assert files[0] == before[0]
        assert sum(file.size_bytes for file in set(files) - set(before)) < whole / 20
        assert len(files) <= 17
        (saved,) = read_logic([LOGIC], [files], area, Pickles.ALLOW)
        mode, entries = saved.operator_state["map"]
        assert mode == "broadcast"
        assert list(entries.items()) == own.get_read_only_broadcast_state(MAP).items()
    fresh = OperatorState()
    fresh.restore([saved.operator_state], 0, 1, saved.schemas, saved.files)
    rules = fresh.get_broadcast_state(MAP)
    rules.remove("rule 3")
    assert commit(fresh, area, "fresh")[: len(files)] == files
    rules.clear()
    rules.put("only", {})
    (file,) = commit(fresh, area, "cleared")
    assert file.size_bytes < 1_000
