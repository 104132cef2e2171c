"""Declared types in the backends: no pickles in files, changed types, pickles refused or hidden."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.copies import unchanged
from penstock.core.errors import StateError
from penstock.core.row import Row
from penstock.core.times import EpochClock, Time
from penstock.core.types import Types
from penstock.files.area import FileArea
from penstock.operators.windows.windows import TimeWindow
from penstock.state.backend import create_backend, read_entries
from penstock.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.state.operator_snapshot import encode_logic, read_logic, write_states
from penstock.state.operator_state import OperatorState
from penstock.state.plain_serializer import Opaque, Pickles

if TYPE_CHECKING:
    from penstock.core.handles import KeyedStateVersion
    from penstock.state.keyed import KeyedState

BACKENDS = ["hashmap", "rocksdb"]
LONG, INT, DOUBLE, TEXT = Types.LONG(), Types.INT(), Types.DOUBLE(), Types.STRING()


@pytest.fixture
def area(tmp_path: Path) -> FileArea:
    return FileArea(tmp_path, inline_threshold_bytes=0)


def open_state(
    backend: str,
    area: FileArea,
    pickles: Pickles = Pickles.ALLOW,
    keys: tuple[int, int] = (0, 127),
    clock: EpochClock | None = None,
    **settings: Any,
) -> KeyedState:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    made = create_backend(backend, pickles=pickles, **settings)
    return made.create_state(*keys, 128, area, clock or EpochClock(), "op")


def put(state: KeyedState, values: dict[Any, Any], descriptor: Any, namespace: Any = None) -> None:
    target = state.get_state(descriptor)
    for key, value in values.items():
        state.key, state.namespace = key, namespace
        (target.put_all if descriptor.kind == "map" else target.update)(value)


def get(state: KeyedState, key: Any, descriptor: Any) -> Any:
    target = state.get_state(descriptor)
    state.key, state.namespace = key, None
    if descriptor.kind == "value":
        return target.value()
    return dict(target.items()) if descriptor.kind == "map" else target.get()


def folded(state: KeyedState, name: str) -> KeyedStateVersion:
    """Commits so that everything lies in the base."""
    state._needs_base = True
    return state.commit(name)


def files(area: FileArea) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in area.directory.iterdir() if path.is_file()}


def written(area: FileArea) -> bytes:
    return b"".join(files(area).values())


@pytest.mark.parametrize("is_base", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_declared_state_holds_no_pickle(backend: str, is_base: bool, area: FileArea) -> None:
    descriptors = [
        ValueStateDescriptor("v", Types.ROW_NAMED(["a", "b"], [LONG, TEXT])),
        ListStateDescriptor("l", Types.TUPLE([LONG, TEXT])),
        MapStateDescriptor("m", TEXT, DOUBLE),
    ]
    values: list[dict[Any, Any]] = [
        {"k": Row(a=1, b="x"), ("tuple", 2): Row(a=None, b="y")},
        {"k": [(1, "a"), (2, "b")]},
        {7: {"x": 1.5, "y": None}},
    ]
    state = open_state(backend, area, Pickles.REFUSE)
    state.restore(())
    for descriptor, content in zip(descriptors, values, strict=True):
        put(state, content, descriptor, TimeWindow(0, 10))
        put(state, content, descriptor)
    state.event_timers.add(9, "k", TimeWindow(0, 10))
    version = folded(state, "v1") if is_base else state.commit("v1")
    assert b"\x80\x05\x95" not in written(area)
    other = open_state(backend, area, Pickles.REFUSE)
    other.restore((version,))
    for descriptor, content in zip(descriptors, values, strict=True):
        for key, value in content.items():
            assert get(other, key, descriptor) == value
    found = list(read_entries(version, area, Pickles.REFUSE))
    assert len(found) == 2 * (2 + 1 + 2) + 1
    assert ("", "event_timer", "k", TimeWindow(0, 10), 9) in found


@pytest.mark.parametrize("is_base", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_types_change_at_restore(backend: str, is_base: bool, area: FileArea) -> None:
    first = open_state(backend, area)
    first.restore(())
    put(first, {"a": 1, "b": 2}, ValueStateDescriptor("v", INT))
    put(first, {"a": [1, 2]}, ListStateDescriptor("l", INT))
    put(first, {"a": {"x": 1}}, MapStateDescriptor("m", TEXT, INT))
    version = folded(first, "v1") if is_base else first.commit("v1")
    before = files(area)

    second = open_state(backend, area)
    value = ValueStateDescriptor("v", DOUBLE)
    second.get_state(value)
    second.restore((version,))
    elements, entries = ListStateDescriptor("l", DOUBLE), MapStateDescriptor("m", TEXT, DOUBLE)
    # The other two are asked for only when the snapshot is there already.
    for key, descriptor, expected in (
        ("a", value, 1.0),
        ("a", elements, [1.0, 2.0]),
        ("a", entries, {"x": 1.0}),
    ):
        found = get(second, key, descriptor)
        assert (found, repr(found)) == (expected, repr(expected))
    put(second, {"c": 3.5}, value)
    again = second.commit("v2")
    assert before.items() <= files(area).items(), "the snapshot is as it was"

    third = open_state(backend, area)
    third.restore((again,))
    found = {key: get(third, key, value) for key in "abc"}
    assert repr(found) == repr({"a": 1.0, "b": 2.0, "c": 3.5})
    assert {facts.schema for facts in third.facts()} == {
        "DOUBLE", "LIST(DOUBLE)", "MAP(STRING, DOUBLE)"
    }  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_incompatible_types_are_refused(backend: str, area: FileArea) -> None:
    first = open_state(backend, area)
    first.restore(())
    put(first, {"a": 1}, ValueStateDescriptor("v", LONG))
    version = folded(first, "v1")
    second = open_state(backend, area)
    second.get_state(ValueStateDescriptor("v", TEXT))
    with pytest.raises(StateError, match=r"'v' of operator 'op' is LONG .* and STRING"):
        second.restore((version,))
    third = open_state(backend, area)
    third.restore((version,))
    with pytest.raises(StateError, match=r"'v' of operator 'op' is LONG .* and STRING"):
        third.get_state(ValueStateDescriptor("v", TEXT))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_migration_function_and_undeclared_state(backend: str, area: FileArea) -> None:
    first = open_state(backend, area)
    first.restore(())
    put(first, {"a": 1}, ValueStateDescriptor("v"))
    version = folded(first, "v1")
    descriptor = ValueStateDescriptor("v", TEXT)
    descriptor.set_migration(lambda value: f"number {value}")
    second = open_state(backend, area)
    second.restore((version,))
    assert get(second, "a", descriptor) == "number 1"
    # Undeclared state is taken as it is; what does not fit is found when it is written.
    third = open_state(backend, area)
    third.get_state(ValueStateDescriptor("v", TEXT))
    third.restore((version,))
    put(third, {"a": 1}, ValueStateDescriptor("v", TEXT))
    with pytest.raises(StateError, match="'v' of operator 'op': declared STRING, got int 1"):
        third.commit("v2")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_ttl_and_a_type_change_together(backend: str, area: FileArea) -> None:
    clock = EpochClock()
    clock.now_ms = 1_000
    descriptor = ValueStateDescriptor("v", INT)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    first = open_state(backend, area, clock=clock)
    first.restore(())
    put(first, {"a": 1}, descriptor)
    version = folded(first, "v1")
    plain = ValueStateDescriptor("v", DOUBLE)
    second = open_state(backend, area, clock=clock)
    second.get_state(plain)
    second.restore((version,))
    assert repr(get(second, "a", plain)) == "1.0"
    timed = ValueStateDescriptor("v", Types.BIG_DEC())
    timed.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    third = open_state(backend, area, clock=clock)
    third.get_state(timed)
    third.restore((version,))
    assert str(get(third, "a", timed)) == "1"
    clock.now_ms = 11_000
    assert get(third, "a", timed) is None


def test_rows_of_several_types_are_told_apart_after_rescaling(area: FileArea) -> None:
    """Two subtasks saw the types of a state in different order; one takes over from both."""
    olds = []
    was_int = set()
    for number, (keys, types) in enumerate((((0, 63), (INT, LONG)), ((64, 127), (LONG, INT)))):
        state = open_state("rocksdb", area, keys=keys)
        state.restore(())
        for step, declared in enumerate(types):
            table = state.value_table("v")
            table.schema = repr(declared)
            for key in range(step, 200, 2):
                if state.context.owns(key):
                    table.put(key, None, key)
                    was_int.update([key] if declared is INT else [])
            version = folded(state, f"v{number}-{step}")
        olds.append(version)
    assert 80 < len(was_int) < 120
    descriptor = ValueStateDescriptor("v", LONG)
    descriptor.set_migration(lambda value: value + 1_000)
    whole = open_state("rocksdb", area)
    whole.get_state(descriptor)
    whole.restore(tuple(olds))
    expected = {key: key + 1_000 if key in was_int else key for key in range(200)}
    assert {key: get(whole, key, descriptor) for key in range(200)} == expected
    again = folded(whole, "whole")
    found = open_state("rocksdb", area)
    found.get_state(descriptor)
    found.restore((again,))
    assert {key: get(found, key, descriptor) for key in range(200)} == expected


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: str) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.trace),)


@pytest.mark.parametrize("is_base", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_offline_readers_run_no_pickles(
    backend: str, is_base: bool, area: FileArea, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = tmp_path_factory.mktemp("trace") / "ran"
    state = open_state(backend, area)
    state.restore(())
    evil = Evil(str(trace))
    state.snapshot = unchanged  # Or it would run here already.
    put(state, {"a": evil, "b": 5}, ValueStateDescriptor("v"))
    put(state, {"a": [evil, 1]}, ListStateDescriptor("l"))
    put(state, {"a": {"x": evil}}, MapStateDescriptor("m"))
    put(state, {"a": 7}, ValueStateDescriptor("typed", LONG))
    put(state, {"a": (8, "x")}, ValueStateDescriptor("harmless"))
    version = folded(state, "v1") if is_base else state.commit("v1")
    found = list(read_entries(version, area, Pickles.OPAQUE))
    values = {(row[0], row[2]): row[4] for row in found}
    assert values["typed", "a"] == 7
    assert values["harmless", "a"] == (8, "x")
    assert isinstance(values["v", "a"], Opaque)
    assert "<" in repr(values["v", "a"])
    assert all(isinstance(part, Opaque) for part in values["l", "a"])
    assert not trace.exists()
    with pytest.raises(StateError, match="allow-pickle is false"):
        list(read_entries(version, area, Pickles.REFUSE))
    assert not trace.exists()
    assert list(read_entries(version, area))
    assert trace.exists(), "the pickle is what it claims to be"


def test_a_file_that_is_a_pickle_is_not_unpickled(
    area: FileArea, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import pickle

    trace = tmp_path_factory.mktemp("trace") / "ran"
    handle = area.write("old.delta", pickle.dumps((1, Evil(str(trace)), [], [], ())))
    empty = open_state("hashmap", area).context.version("", "hashmap")
    version = dataclasses.replace(empty, version_id="old", deltas=(handle,), delta_ids=("old",))
    for pickles in Pickles:
        with pytest.raises(StateError, match=r"'old\.delta' is malformed"):
            list(read_entries(version, area, pickles))
    assert not trace.exists()


def test_state_without_a_type_is_refused_by_name(area: FileArea) -> None:
    state = open_state("hashmap", area, Pickles.REFUSE)
    with pytest.raises(StateError, match=r"'total' of operator 'op' has no declared type"):
        state.get_state(ValueStateDescriptor("total"))
    with pytest.raises(StateError, match="'total'"):
        state.get_state(ValueStateDescriptor("total", Types.LIST(Types.PICKLED_BYTE_ARRAY())))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_operators_keep_is_data_where_pickles_are_refused(
    backend: str, area: FileArea
) -> None:
    state = open_state(backend, area, Pickles.REFUSE)
    state.restore(())
    state.value_table("reduce").put("a", TimeWindow(0, 5), (1, "x"))
    version = folded(state, "v1")
    assert b"\x80\x05\x95" not in written(area)
    assert list(read_entries(version, area, Pickles.REFUSE)) == [
        ("reduce", "value", "a", TimeWindow(0, 5), (1, "x"))
    ]
    state.value_table("reduce").put("a", None, object())
    with pytest.raises(StateError, match=r"'reduce' of operator 'op'.*not plain data"):
        state.commit("v2")


def test_operator_state_is_data_and_changes_its_type(tmp_path: Path) -> None:
    state = OperatorState("op")
    state.get_list_state(ListStateDescriptor("l", INT)).update([1, 2])
    state.get_broadcast_state(MapStateDescriptor("b", TEXT, INT)).put("x", 1)
    area = FileArea(tmp_path)
    logic = area.write("logic", encode_logic(7, {"max": (1, None)}, None, Pickles.REFUSE, "op"))
    files = write_states(state, area, "v", Pickles.REFUSE, "op")
    assert all(b"\x80\x05\x95" not in area.read(file) for file in (logic, *files))
    (saved,) = read_logic([logic], [files], area, Pickles.REFUSE)
    assert saved.watermark == 7
    assert saved.logic == {"max": (1, None)}
    other = OperatorState("op")
    broadcast = other.get_broadcast_state(MapStateDescriptor("b", TEXT, DOUBLE))
    other.restore([saved.operator_state], 0, 1, saved.schemas)
    elements = other.get_list_state(ListStateDescriptor("l", DOUBLE))
    assert repr(elements.get()) == "[1.0, 2.0]"
    assert repr(dict(broadcast.items())) == "{'x': 1.0}"
    assert [(facts.name, facts.kind, facts.schema) for facts in other.facts()] == [
        ("b", "operator-broadcast", "MAP(STRING, DOUBLE)"),
        ("l", "operator-list", "LIST(DOUBLE)"),
    ]
    wrong = OperatorState("op")
    wrong.restore([saved.operator_state], 0, 1, saved.schemas)
    with pytest.raises(StateError, match=r"'l' of operator 'op' is LIST\(INT\)"):
        wrong.get_list_state(ListStateDescriptor("l", TEXT))
