"""Operator state: its rules of redistribution, by hand."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ProgramError, StateError
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.state.operator_state import OperatorState, redistribute

LIST, MAP = ListStateDescriptor("list"), MapStateDescriptor("map")


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
