"""Snapshots against programs: what is found wrong before the first record, and what goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import restore_kit
from recovery_kit import environment, same
from restore_kit import KEYS, Count, Numbers, Tap, Visible, build, counts, run_to, wait_for

from penstock.checkpoint.errors import CheckpointError
from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.core.errors import ProgramError
from penstock.core.keygroups import key_group
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    CountTrigger,
    TimeWindow,
    Trigger,
    TumblingEventTimeWindows,
)
from penstock.inspection.reader import open_snapshot
from penstock.snapshots import SavepointReader, SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path


class Typed(KeyedProcessFunction):
    """`Count` with a declared type."""

    def __init__(self, declared: Any = None) -> None:
        self.declared = declared or Types.INT()

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", self.declared))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield context.get_current_key(), count


class Listed(KeyedProcessFunction):
    """The same name, another kind."""

    def open(self, context: Any) -> None:
        context.get_list_state(ListStateDescriptor("count", Types.INT()))

    def process_element(self, value: int, context: Any) -> Any:
        yield from ()


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(function: Any) -> None:
        monkeypatch.setattr(restore_kit, "Count", lambda: function)

    Visible.rows.clear()
    use(Typed())
    return use


def savepoint(directory: Path, end: int = 100, **arguments: Any) -> str:
    Visible.rows.clear()
    Tap.limit = 0
    client = build(directory, 3, **arguments).execute_async()
    run_to(client, end)
    path: str = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    return path


def going_on(
    directory: Path, path: str, start: int = 100, options: dict[str, str] | None = None
) -> str:
    """Runs on from a snapshot at `start`, checks the next hundred; returns the next savepoint."""
    Visible.rows.clear()
    Tap.limit = start
    options = {"execution.state-recovery.path": path, **(options or {})}
    client = build(directory, 2, options).execute_async()
    Tap.limit = start + 100
    expected = set(counts(start + 100)) - set(counts(start))
    wait_for(lambda: len(Visible.all()) >= len(expected), "the next hundred")
    same(Visible.all(), expected)
    after: str = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    return after


def test_everything_wrong_is_told_at_once(tmp_path: Path, program: Any) -> None:
    path = savepoint(tmp_path)
    before = {name: os.stat(name).st_mtime_ns for name in (path, f"{path}/_metadata")}
    program(Typed(Types.STRING()))
    env = build(tmp_path / "x", 2, source_uid="others", max_parallelism=256)
    found = env.check_restore(path)
    assert found["fits"] is False
    texts = "\n".join(found["problems"])
    assert len(found["problems"]) == 3
    assert "max parallelism 256 in the program and 128 in the snapshot" in texts
    assert "state 'count' of operator 'count' is INT in the snapshot and STRING" in texts
    assert "(uid 'numbers') has state in the snapshot and is not in the program" in texts
    verdicts = {each["uid"]: each["verdict"] for each in found["operators"]}
    assert verdicts == {
        "others": "new",
        "remember": "matched",
        "count": "matched",
        "sink": "matched",
        "numbers": "unmatched",
    }
    (count,) = [each for each in found["operators"] if each["uid"] == "count"]
    assert count["parallelism"] == [3, 2]
    assert count["key_groups"] == [[0, 127], [128, 255]]
    assert count["states"][0]["verdict"] == "incompatible"
    # The start itself says the same, and reads nothing.
    Visible.rows.clear()
    options = {"execution.state-recovery.path": path}
    client = build(
        tmp_path / "y", 2, options, source_uid="others", max_parallelism=256
    ).execute_async()
    with pytest.raises(CheckpointError) as caught:
        client.get_job_execution_result().result(200)
    for problem in found["problems"]:
        assert problem in str(caught.value)
    assert (client.last_epoch, Visible.all()) == (0, [])
    assert before == {name: os.stat(name).st_mtime_ns for name in before}


def test_a_program_that_fits(tmp_path: Path, program: Any) -> None:
    path = savepoint(tmp_path)
    program(Typed(Types.DOUBLE()))
    found = build(tmp_path / "x", 5).check_restore(path)
    assert (found["fits"], found["problems"], found["warnings"]) == (True, [], [])
    (count,) = [each for each in found["operators"] if each["uid"] == "count"]
    assert count["key_groups"] == [[0, 25], [26, 51], [52, 76], [77, 102], [103, 127]]
    (state,) = count["states"]
    assert (state["verdict"], state["before"], state["after"]) == ("migrated", "INT", "DOUBLE")
    going_on(tmp_path / "y", path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"parallelism": 200}, "is 200, more than its max parallelism 128"),
        ({"path": "nowhere"}, "is not a checkpoint or savepoint"),
        ({"function": Listed()}, "value INT in the snapshot and list LIST(INT) in the program"),
        ({"key_type": Types.STRING()}, "keys of type STRING in the program and LONG in"),
        ({"options": {"penstock.state.allow-pickle": "false"}}, "'values' of operator 'remember'"),
        ({"options": {"pipeline.auto-generate-uids": "false"}, "unnamed": True}, "has no uid"),
    ],
    ids=["parallelism", "no snapshot", "kind", "key type", "pickle", "missing uid"],
)
def test_single_wrongs(tmp_path: Path, program: Any, change: dict[str, Any], text: str) -> None:
    path = savepoint(tmp_path / "old", change=keyed_by(Types.LONG()))
    if "function" in change:
        program(change["function"])
    env = build(
        tmp_path / "new",
        change.get("parallelism", 2),
        change.get("options"),
        change=keyed_by(change.get("key_type", Types.LONG())),
    )
    if change.get("unnamed"):
        env.add_source(Numbers()).print()
    found = env.check_restore(str(tmp_path / change["path"]) if "path" in change else path)
    assert found["fits"] is False
    assert text in "\n".join(found["problems"])


def test_a_doubled_uid_is_refused_when_it_is_given(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="uid 'sink' is already that of operator"):
        build(tmp_path, uid="sink")


def keyed_by(declared: Any) -> Any:
    """A change of the job: its key has a declared type."""

    class Keyed:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def key_by(self, selector: Any) -> Any:
            return self.stream.key_by(selector, declared)

    return Keyed


def test_another_format_is_refused_by_number(tmp_path: Path) -> None:
    path = savepoint(tmp_path)
    metadata = tmp_path.joinpath(path, "_metadata")
    data = bytearray(metadata.read_bytes())
    data[9] = 9
    import hashlib

    sealed = bytes(data[:-32]) + hashlib.sha256(data[:-32]).digest()
    metadata.write_bytes(sealed)
    found = build(tmp_path / "x").check_restore(path)
    assert found["fits"] is False
    assert "9" in found["problems"][0]
    assert "newer" in found["problems"][0]


def test_pickled_state_is_refused_at_the_start(tmp_path: Path, program: Any) -> None:
    program(Count())
    options = {"penstock.state.allow-pickle": "false"}
    client = build(tmp_path, 2, options).execute_async()
    with pytest.raises(ProgramError) as caught:
        client.get_job_execution_result().result(200)
    assert "state 'count' of operator 'count'" in str(caught.value)
    assert "state 'values' of operator 'remember'" in str(caught.value)
    assert client.last_epoch == 0


def test_pickles_from_elsewhere_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = savepoint(tmp_path / "one")
    for place, is_told in (("two", True), ("one", False)):
        caplog.clear()
        going_on(tmp_path / place, path)
        text = "holds pickled state ('values' of 'remember')"
        assert (text in caplog.text) is is_told


def test_savepoints_go_from_backend_to_backend(tmp_path: Path) -> None:
    """Canonical savepoints do not ask which backend wrote them, nor which one reads them."""
    path = savepoint(tmp_path, options={"state.backend.type": "hashmap"})
    for end, backend in ((100, "rocksdb"), (200, "hashmap")):
        with SavepointReader.read(path) as snapshot:
            rows = [(row.key, row.value) for row in snapshot.read_keyed_state("count", "count")]
        same(rows, [(key, len(range(key, end, KEYS))) for key in range(KEYS)])
        path = going_on(tmp_path / backend, path, end, {"state.backend.type": backend})


def test_a_job_goes_on_from_an_edited_savepoint(tmp_path: Path) -> None:
    path = savepoint(tmp_path)
    thousands = [(key, 1_000) for key in range(KEYS)]
    edited = (
        SavepointWriter.from_existing_savepoint(path)
        .with_keyed_state("count", ValueStateDescriptor("count", Types.INT()), thousands)
        .write(str(tmp_path / "edited"))
    )
    with SavepointReader.read(edited) as snapshot:
        assert snapshot.uids() == ["numbers", "remember", "count", "sink"]
        same([(row.key, row.value) for row in snapshot.read_keyed_state("count")], thousands)
    Visible.rows.clear()
    options = {"execution.state-recovery.path": edited}
    client = build(tmp_path / "x", 2, options).execute_async()
    Tap.limit = 100 + KEYS
    wait_for(lambda: len(Visible.all()) >= KEYS, "one more of each key")
    same(Visible.all(), [(key, 1_001) for key in range(KEYS)])
    client.cancel()
    client._wait_quietly()


def key_groups_of(path: str, uid: str) -> list[tuple[int, int]]:
    """Ranges of the subtasks, and the groups of their keys lie within."""
    with open_snapshot(path) as snapshot:
        record = snapshot.operator(uid)
        ranges = []
        for subtask in record.subtasks:
            assert subtask.keyed is not None
            first, last = subtask.keyed.first_key_group, subtask.keyed.last_key_group
            ranges.append((first, last))
            for row in snapshot.keyed_state_of(subtask):
                assert first <= key_group(row.key, record.max_parallelism) <= last
        return ranges


def test_an_edited_operator_keeps_its_subtasks_and_what_each_has_for_itself(tmp_path: Path) -> None:
    """Of three; the ranges are those of 128 and of 64 key groups by Flink's formula, by hand."""
    path = savepoint(tmp_path)
    thousands = [(key, 1_000) for key in range(KEYS)]
    writer = SavepointWriter.from_existing_savepoint(path, unpickle=True)
    writer.with_keyed_state("count", ValueStateDescriptor("count", Types.INT()), iter(thousands))
    writer.with_list_state("remember", ListStateDescriptor("more", Types.INT()), range(5))
    edited = writer.write(str(tmp_path / "edited"))
    assert key_groups_of(edited, "count") == [(0, 42), (43, 85), (86, 127)]
    regrouped = writer.set_max_parallelism(64).with_keyed_state(
        "count", ValueStateDescriptor("count", Types.INT()), thousands
    )
    regrouped_path = regrouped.write(str(tmp_path / "edited"))
    assert key_groups_of(regrouped_path, "count") == [(0, 21), (22, 42), (43, 63)]
    with open_snapshot(path) as before, open_snapshot(edited) as after:
        assert [
            each.value for each in after.operator_state("remember") if each.state == "more"
        ] == [
            0,
            1,
            2,
            3,
            4,
        ]
        kept = [each for each in after.operator_state("remember") if each.state == "values"]
        assert kept == list(before.operator_state("remember"))
        assert len({each.subtask for each in kept}) > 1
    narrow = SavepointWriter.from_existing_savepoint(path).set_max_parallelism(1)
    assert key_groups_of(narrow.write(str(tmp_path / "edited")), "count") == [(0, 0)]


class Alarmed(KeyedProcessFunction):
    def process_element(self, value: int, context: Any) -> Any:
        return ()

    def on_timer(self, timestamp: int, context: Any) -> Any:
        yield context.get_current_key(), timestamp


def test_timers_are_made(tmp_path: Path) -> None:
    """Bootstrapped for three subtasks; the end of the input fires all event-time timers."""
    timers = [(key, 10 * key) for key in range(KEYS)]
    path = (
        SavepointWriter.new_savepoint(parallelism=3)
        .with_timers("alarms", iter(timers))
        .with_timers("alarms", [(1, 5)], processing_time=True)
        .write(str(tmp_path))
    )
    assert key_groups_of(path, "alarms") == [(0, 42), (43, 85), (86, 127)]
    with SavepointReader.read(path) as snapshot:
        found = [(row.kind, row.key, row.value) for row in snapshot.read_timers("alarms")]
    same(found, [("processing_timer", 1, 5), *(("event_timer", *each) for each in timers)])
    env = environment(tmp_path, 2, {"execution.state-recovery.path": path})
    alarms = env.from_collection([1]).key_by(lambda value: value).process(Alarmed()).uid("alarms")
    alarms.add_sink(Visible("out")).uid("sink")
    env.execute("alarms")
    same([each for each in Visible.all() if each != (1, 5)], timers)


class Stamped(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 100


def windowed(directory: Path, trigger: Trigger, options: dict[str, str]) -> Any:
    """Sums of the numbers of each second, whenever the trigger says."""
    env = environment(directory, 2, {"penstock.state.allow-pickle": "false", **options})
    env.set_max_parallelism(128)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamped())
    numbers = env.add_source(Numbers()).uid("numbers")
    stamped = numbers.assign_timestamps_and_watermarks(strategy).uid("times")
    windows = stamped.key_by(lambda value: value % 2).window(
        TumblingEventTimeWindows.of(Time.seconds(1))
    )
    sums = windows.trigger(trigger).reduce(lambda one, other: one + other).uid("sums")
    sums.map(lambda value: (value,)).uid("pairs").add_sink(Visible("out")).uid("sink")
    return env


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_without_pickles(tmp_path: Path, backend: str) -> None:
    """What built-in operators keep is data too where pickles are forbidden, and comes back.

    The window from 0 s holds 0 to 9: the first three even numbers make 6, the odd ones 9.
    """
    options = {"state.backend.type": backend}
    Tap.limit = 0
    client = windowed(tmp_path / "one", CountTrigger.of(3), options).execute_async()
    Tap.limit = 4
    wait_for(lambda: client._job.records_read >= 4, "0 to 3")
    path = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    assert Visible.all() == []
    held = b"".join(file.read_bytes() for file in tmp_path.joinpath(path).iterdir())
    assert b"\x80\x05\x95" not in held
    with SavepointReader.read(path) as snapshot:
        rows = [(row.namespace, row.key, row.value) for row in snapshot.read_keyed_state("sums")]
    window = TimeWindow(0, 1_000)
    same(rows, [(window, key, value) for key, value in ((0, 2), (0, 2), (1, 4), (1, 2))])
    options["execution.state-recovery.path"] = path
    client = windowed(tmp_path / "two", CountTrigger.of(3), options).execute_async()
    Tap.limit = 6
    wait_for(lambda: len(Visible.all()) == 2, "one result for each key")
    same(Visible.all(), [(6,), (9,)])
    client.cancel()
    client._wait_quietly()
