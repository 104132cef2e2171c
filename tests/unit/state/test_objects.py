"""State objects of users, on both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import ProgramError, StateError
from penstock.core.times import EpochClock
from penstock.core.types import Types
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.keyed import FUNCTION
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from pathlib import Path


class Mean:
    """An aggregate function by its methods alone; the accumulator is not the result."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class Largest:
    def reduce(self, a: int, b: int) -> int:
        return max(a, b)


@pytest.fixture(params=["hashmap", "rocksdb", "rocksdb over a base"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    name = request.param.split()[0]
    settings = (
        {"max_deltas": 0, "merge_bytes": -1, "fold_slice_ms": 60_000}
        if request.param.endswith("base")
        else {}
    )
    state = create_backend(name, **settings).create_state(
        0, 127, 128, FileArea(tmp_path), EpochClock(), "op"
    )
    state.restore(())
    state.is_folding = bool(settings)
    return state


def settle(store: Any) -> None:
    """Lets everything written so far come from the base, where the backend has one."""
    if store.is_folding:
        number = getattr(store, "settled", 0)
        store.settled = number + 1
        version = store.commit(f"v{number}")
        store.restore((version,))
        store._evict()


def test_value(store: Any) -> None:
    state = store.get_state(ValueStateDescriptor("v"))
    store.key = "a"
    assert state.value() is None
    state.update(1)
    settle(store)
    store.key = "b"
    assert state.value() is None
    state.update([1, 2])
    store.key = "a"
    assert state.value() == 1
    state.update(None)
    settle(store)
    assert state.value() is None
    state.clear()
    store.key = "b"
    assert state.value() == [1, 2]
    state.clear()
    assert state.value() is None


def test_list(store: Any) -> None:
    state = store.get_state(ListStateDescriptor("l"))
    store.key = "a"
    assert state.get() == []
    state.add(3)
    state.add_all([1, 2])
    settle(store)
    state.add(1)
    assert list(state) == [3, 1, 2, 1]
    settle(store)
    state.get().append(9)
    assert state.get() == [3, 1, 2, 1]
    state.update(iter([5]))
    settle(store)
    assert state.get() == [5]
    state.update([])
    settle(store)
    assert state.get() == []
    state.add_all([])
    assert state.get() == []


@pytest.mark.parametrize(
    "use",
    [
        lambda state: state.add(None),
        lambda state: state.add_all([1, None]),
        lambda state: state.add_all(None),
        lambda state: state.update(None),
        lambda state: state.update([None]),
    ],
)
def test_none_is_no_list_element(store: Any, use: Any) -> None:
    state = store.get_state(ListStateDescriptor("names"))
    store.key = "a"
    state.add(1)
    with pytest.raises(ProgramError, match="names"):
        use(state)
    assert state.get() == [1]


def test_map(store: Any) -> None:
    state = store.get_state(MapStateDescriptor("m"))
    store.key = "a"
    assert state.is_empty()
    state.put("x", 1)
    state.put_all({"y": None, "z": 3})
    settle(store)
    assert (state.get("x"), state.get("y"), state.get("w")) == (1, None, None)
    assert (state.contains("y"), state.contains("w")) == (True, False)
    assert sorted(state.items(), key=str) == [("x", 1), ("y", None), ("z", 3)]
    assert sorted(state.keys()) == ["x", "y", "z"]
    assert set(state.values()) == {1, None, 3}
    settle(store)
    state.remove("x")
    state.remove("not there")
    assert sorted(state) == ["y", "z"]
    state.clear()
    assert state.is_empty()
    settle(store)
    assert state.is_empty()
    assert list(state.items()) == []


def test_map_as_a_dict(store: Any) -> None:
    state = store.get_state(MapStateDescriptor("m"))
    store.key = "a"
    state["x"] = 1
    state["y"] = 2
    settle(store)
    assert state["x"] == 1
    assert "x" in state
    assert "w" not in state
    assert len(state) == 2
    del state["x"]
    assert list(state) == ["y"]
    del state["y"]
    assert not len(state)
    assert state, "an object that is false when empty would break `if state:` of PyFlink programs"


@pytest.mark.parametrize("size", [5, 500])
def test_a_map_may_be_changed_while_iterating(store: Any, size: int) -> None:
    state = store.get_state(MapStateDescriptor("m"))
    store.key = "a"
    state.put_all({number: str(number) for number in range(size)})
    settle(store)
    seen = []
    for number, _ in state.items():
        seen.append(number)
        if number % 2:
            state.remove(number)
        else:
            state.put(number, "seen")
    assert sorted(seen) == list(range(size))
    assert dict(state.items()) == {number: "seen" for number in range(0, size, 2)}
    for number in state:
        del state[number]
    assert state.is_empty()
    settle(store)
    assert state.is_empty()


@pytest.mark.parametrize("function", [max, Largest()])
def test_reducing(store: Any, function: Any) -> None:
    state = store.get_state(ReducingStateDescriptor("r", function))
    store.key = "a"
    assert state.get() is None
    state.add(3)
    settle(store)
    state.add(7)
    state.add(5)
    assert state.get() == 7
    store.key = "b"
    assert state.get() is None
    store.key = "a"
    state.clear()
    assert state.get() is None


def test_aggregating_keeps_the_accumulator(store: Any) -> None:
    state = store.get_state(AggregatingStateDescriptor("g", Mean()))
    store.key = "a"
    assert state.get() is None
    state.add(1)
    settle(store)
    state.add(2)
    assert state.get() == 1.5
    assert store.value_table("g", FUNCTION).get("a") == (3, 2)
    state.clear()
    assert state.get() is None


class Forgetful(Mean):
    def add(self, value: int, accumulator: tuple[int, int]) -> Any:
        super().add(value, accumulator)


def test_a_forgotten_return_keeps_what_is_there(store: Any) -> None:
    reducing = store.get_state(ReducingStateDescriptor("r", lambda old, new: None))
    aggregating = store.get_state(AggregatingStateDescriptor("g", Forgetful()))
    store.key = "a"
    reducing.add(3)
    with pytest.raises(ProgramError, match="returned None instead of the reduced value"):
        reducing.add(4)
    assert reducing.get() == 3
    with pytest.raises(ProgramError, match=r"Forgetful.add returned None instead of the acc"):
        aggregating.add(1)
    assert aggregating.get() is None


def test_namespaces_are_apart_and_global_state_ignores_them(store: Any) -> None:
    state = store.get_state(ValueStateDescriptor("v"))
    shared = store.get_state(ValueStateDescriptor("v"), ignore_namespace=True)
    store.key = "a"
    for namespace, value in ((None, 0), ("w", 1), ("x", 2)):
        store.namespace = namespace
        state.update(value)
    settle(store)
    store.key = "a"
    store.namespace = "w"
    assert (state.value(), shared.value()) == (1, 0)
    shared.update(9)
    state.clear()
    assert state.value() is None
    store.namespace = "x"
    assert state.value() == 2
    store.namespace = None
    assert state.value() == 9


@pytest.mark.parametrize(
    ("descriptor", "use"),
    [
        (ValueStateDescriptor("v"), lambda state: state.value()),
        (ValueStateDescriptor("v"), lambda state: state.update(1)),
        (ListStateDescriptor("l"), lambda state: state.get()),
        (ListStateDescriptor("l"), lambda state: state.add(1)),
        (MapStateDescriptor("m"), lambda state: state.get(1)),
        (MapStateDescriptor("m"), lambda state: state.put(1, 1)),
        (MapStateDescriptor("m"), lambda state: list(state.items())),
        (ReducingStateDescriptor("r", max), lambda state: state.add(1)),
        (AggregatingStateDescriptor("g", Mean()), lambda state: state.get()),
    ],
)
def test_without_a_key_state_is_refused(store: Any, descriptor: StateDescriptor, use: Any) -> None:
    state = store.get_state(descriptor)
    for fold in (False, True):
        if fold:
            store.key = "a"
            settle(store)
        store.key = NO_KEY
        with pytest.raises(StateError, match="without a current key"):
            use(state)


def test_one_name_is_one_object_of_one_kind(store: Any) -> None:
    state = store.get_state(ValueStateDescriptor("s"))
    assert store.get_state(ValueStateDescriptor("s")) is state
    with pytest.raises(ProgramError, match=r"'s'.*value state"):
        store.get_state(ListStateDescriptor("s"))
    with pytest.raises(ProgramError, match="'s'"):
        store.list_table("s")


def test_a_kind_that_changed_since_the_snapshot_is_refused(store: Any, tmp_path: Path) -> None:
    store.key = "a"
    store.get_state(ValueStateDescriptor("s")).update(1)
    version = store.commit("v")
    other = create_backend(version.backend).create_state(
        0, 127, 128, FileArea(tmp_path), EpochClock(), "op"
    )
    other.get_state(ListStateDescriptor("s"))
    with pytest.raises(StateError, match=r"'s'.*list state in the program and value state"):
        other.restore((version,))


def test_descriptors_take_pyflinks_arguments() -> None:
    text = Types.STRING()
    assert ValueStateDescriptor("a", text).type_info is text
    assert ListStateDescriptor("a", elem_type_info=text).get_name() == "a"
    assert MapStateDescriptor("a", text, Types.LONG()).key_type_info is text
    assert ReducingStateDescriptor("a", max, text).get_reduce_function() is max
    with pytest.raises(ProgramError, match=r"state 'a' takes .*brackets are missing"):
        ValueStateDescriptor("a", Types.LONG)
    with pytest.raises(ProgramError, match="reduce function"):
        ReducingStateDescriptor("a", 7)
    with pytest.raises(ProgramError, match="create_accumulator"):
        AggregatingStateDescriptor("a", max)
    with pytest.raises(ProgramError, match="named"):
        ValueStateDescriptor("")
