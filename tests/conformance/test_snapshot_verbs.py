"""Snapshots as plain data: what the verbs of the command line return."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import restore_kit
from restore_kit import KEYS, Tap, Visible, build, run_to

from penstock.checkpoint.errors import CheckpointError
from penstock.common import Types
from penstock.core.configuration import Configuration
from penstock.core.errors import ProgramError, StateError
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.inspection.contents import list_states, read_state
from penstock.inspection.diff import diff_snapshots
from penstock.inspection.pages import SnapshotPages
from penstock.inspection.verify import verify_snapshots
from penstock.snapshots import SavepointReader, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = ValueStateDescriptor("count", Types.LONG())


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


class Everything(KeyedProcessFunction):
    """Counts, and keeps state of all kinds, one of them hostile."""

    def __init__(self, trace: Path) -> None:
        self.trace = str(trace)

    def open(self, context: Any) -> None:
        self.count = context.get_state(COUNT)
        self.seen = context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.STRING()))
        self.last = context.get_list_state(ListStateDescriptor("last", Types.LONG()))
        self.evil = context.get_state(ValueStateDescriptor("evil"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count <= 2:
            self.seen.put(value, f"number {value}")
        self.last.update([value, count])
        if context.get_current_key() == 3 and count == 1:
            self.evil.update(Evil(Path(self.trace)))
        context.timer_service().register_event_time_timer(10_000 + context.get_current_key())
        yield context.get_current_key(), count


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace") / "ran"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, trace: Path) -> Iterator[tuple[str, str]]:
    """Two savepoints of one job, at 22 and at 33 numbers."""
    directory = tmp_path_factory.mktemp("job")
    kept = restore_kit.Count
    restore_kit.Count = lambda: Everything(trace)  # type: ignore[assignment, misc]
    Visible.rows.clear()
    Tap.limit = 0
    try:
        # A copy of the hostile value would run it in the job itself, which may do what it likes.
        options = {
            "execution.checkpointing.data-inline-threshold": "0",
            "pipeline.object-reuse": "true",
        }
        client = build(directory, 2, options).execute_async()
        run_to(client, 22)
        first = client.trigger_savepoint(None).result(200)
        run_to(client, 33)
        second = client.stop_with_savepoint(False).result(200)
        client.get_job_execution_result().result(200)
    finally:
        restore_kit.Count = kept  # type: ignore[misc]
    yield first, second
    assert not trace.exists(), "no verb has run a pickle"


def test_list(paths: tuple[str, str]) -> None:
    found = list_states(paths[1])
    assert json.loads(json.dumps(found)) == found
    assert found["kind"] == "savepoint-canonical"
    assert [operator["uid"] for operator in found["operators"]] == [
        "numbers", "remember", "count", "sink"
    ]  # fmt: skip
    numbers, remember, count, _ = found["operators"]
    assert numbers["has_source_position"] is True
    assert [(s["name"], s["kind"], s["codec"], s["entries"]) for s in remember["states"]] == [
        ("values", "operator-list", "pickle", 33)
    ]
    assert (count["parallelism"], count["max_parallelism"]) == (2, 128)
    assert count["event_timers"] == KEYS
    assert count["files"] > 0
    assert count["file_bytes"] > 0
    states = {
        state["name"]: (state["kind"], state["codec"], state["type"], state["entries"])
        for state in count["states"]
    }
    assert states == {
        "count": ("value", "msgpack", "LONG", KEYS),
        "seen": ("map", "msgpack", "MAP(LONG, STRING)", 2 * KEYS),
        "last": ("list", "msgpack", "LIST(LONG)", 2 * KEYS),
        "evil": ("value", "pickle", "", 1),
    }
    assert list_states(f"{paths[1]}/_metadata", count=False)["operators"][2]["event_timers"] is None


def test_read(paths: tuple[str, str]) -> None:
    found = read_state(paths[1], "count", key="3")
    assert json.loads(json.dumps(found)) == found
    common = {"key": 3, "namespace": None}
    by_state: dict[str, list[Any]] = {}
    for entry in found["entries"]:
        assert common.items() <= entry.items()
        by_state.setdefault(entry["state"], []).append(entry)
    assert [entry["value"] for entry in by_state["count"]] == [3]
    assert sorted((e["map_key"], e["value"]) for e in by_state["seen"]) == [
        (3, "number 3"), (14, "number 14")
    ]  # fmt: skip
    assert [entry["value"] for entry in by_state["last"]] == [[25, 3]]
    assert list(by_state["evil"][0]["value"]) == ["$pickle"]
    assert [(entry["kind"], entry["value"]) for entry in by_state[""]] == [("event_timer", 10_003)]


def test_read_a_part(paths: tuple[str, str]) -> None:
    found = read_state(paths[1], "count", "count", limit=4)
    assert (len(found["entries"]), found["is_truncated"]) == (4, True)
    found = read_state(paths[1], "count", "count", limit=KEYS)
    assert (len(found["entries"]), found["is_truncated"]) == (KEYS, False)
    assert read_state(paths[1], "count", "count", key="nobody")["entries"] == []
    own = read_state(paths[1], "remember", unpickle=True)["entries"]
    assert sorted(entry["value"] for entry in own) == list(range(33))
    assert {entry["subtask"] for entry in own} == {0, 1}
    with pytest.raises(CheckpointError, match="has no operator with uid 'tally'; it has 'numbers'"):
        read_state(paths[1], "tally")
    with pytest.raises(CheckpointError, match=r"has no state 'total' .* 'count', 'evil', 'last'"):
        read_state(paths[1], "count", "total")


def test_diff(paths: tuple[str, str]) -> None:
    found = diff_snapshots(*paths, limit=3)
    assert json.loads(json.dumps(found)) == found
    assert found["is_same"] is False
    by_uid = {operator["uid"]: operator for operator in found["operators"]}
    assert by_uid["sink"]["change"] == "same"
    states = {(state["name"], state["kind"]): state for state in by_uid["count"]["states"]}
    counted = ("added", "removed", "changed", "same", "unknown")
    assert {name: tuple(state[each] for each in counted) for name, state in states.items()} == {
        ("count", "value"): (0, 0, KEYS, 0, 0),
        ("last", "list"): (0, 0, KEYS, 0, 0),
        ("seen", "map"): (0, 0, 0, 2 * KEYS, 0),
        ("evil", "value"): (0, 0, 0, 1, 0),
        ("", "event_timer"): (0, 0, 0, KEYS, 0),
    }
    assert len(states["count", "value"]["keys"]["changed"]) == 3
    assert diff_snapshots(paths[0], paths[0])["is_same"] is True


def test_diff_of_operators(paths: tuple[str, str], tmp_path: Path) -> None:
    other = (
        SavepointWriter.from_existing_savepoint(paths[0])
        .change_operator_identifier("count", "tally")
        .write(str(tmp_path))
    )
    changes = {each["uid"]: each["change"] for each in diff_snapshots(paths[0], other)["operators"]}
    assert (changes["count"], changes["tally"], changes["numbers"]) == ("removed", "added", "same")


def test_verify(paths: tuple[str, str], tmp_path: Path) -> None:
    import shutil

    whole = verify_snapshots(str(Path(paths[0]).parent))
    assert whole["is_whole"] is True
    assert {each["path"] for each in whole["snapshots"]} == set(paths)
    broken = shutil.copytree(paths[0], tmp_path / "broken")
    victim = next(path for path in broken.iterdir() if path.name != "_metadata")
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    found = verify_snapshots(str(broken))
    assert found["is_whole"] is False
    (problem,) = found["snapshots"][0]["problems"]
    assert problem["place"] == str(victim)
    assert "SHA-256" in problem["text"]
    assert problem["used_by"]
    assert verify_snapshots(str(tmp_path / "nothing"))["is_whole"] is False


def test_orphans(tmp_path: Path) -> None:
    Visible.rows.clear()
    Tap.limit = 0
    client = build(tmp_path, 2).execute_async()
    run_to(client, 22)
    client.trigger_checkpoint().result(200)
    client.cancel()
    client._wait_quietly()
    (metadata,) = tmp_path.glob("checkpoints/*/chk-*/_metadata")
    orphan = metadata.parent / f"{'0' * 64}-1-writer"
    orphan.write_bytes(b"left behind")
    found = verify_snapshots(str(tmp_path / "checkpoints"), orphans=True)
    assert found["is_whole"] is True
    assert [(each["path"], each["size_bytes"]) for each in found["orphans"]] == [(str(orphan), 11)]
    assert orphan.exists()


def test_writing_needs_types_and_reads_no_pickles(paths: tuple[str, str], tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(paths[0])
    with pytest.raises(StateError, match=r"'count' cannot be written again: state 'evil' is pick"):
        writer.with_keyed_state("count", COUNT, []).write(str(tmp_path))
    with pytest.raises(ProgramError, match="'total' has no declared type"):
        writer.with_keyed_state("count", ValueStateDescriptor("total"), [])
    with pytest.raises(CheckpointError, match="has no operator tally"):
        SavepointWriter.from_existing_savepoint(paths[0]).remove_operator("tally").write(
            str(tmp_path)
        )
    assert list(tmp_path.iterdir()) == []
    # Replacing the hostile state itself needs no look at it.
    text = ValueStateDescriptor("evil", Types.STRING())
    path = (
        SavepointWriter.from_existing_savepoint(paths[0])
        .with_keyed_state("count", text, [(3, "good")])
        .set_max_parallelism(512)
        .write(str(tmp_path))
    )
    before = {s["name"]: s["entries"] for s in list_states(paths[0])["operators"][2]["states"]}
    (count,) = [each for each in list_states(path)["operators"] if each["uid"] == "count"]
    assert count["max_parallelism"] == 512
    assert {state["name"]: state["entries"] for state in count["states"]} == before
    assert count["event_timers"] == KEYS
    assert read_state(path, "count", "evil")["entries"][0]["value"] == "good"


def test_frames(paths: tuple[str, str]) -> None:
    pytest.importorskip("pandas")
    with SavepointReader.read(paths[1]) as snapshot:
        counts = snapshot.to_pandas("count", "count")
        seen = snapshot.to_pandas("count", "seen")
        assert [row.value for row in snapshot.read_timers("count") if row.key == 3] == [10_003]
    assert sorted(counts.itertuples(index=False, name=None)) == [(key, 3) for key in range(KEYS)]
    assert list(seen.columns) == ["key", "map_key", "value"]
    assert len(seen) == 2 * KEYS


def test_rows_for_a_page_hold_no_pickle_that_was_run(paths: tuple[str, str]) -> None:
    found = SnapshotPages(Configuration()).first_rows(paths[1], "count", "evil", 10)
    (row,) = found["rows"]
    assert (row["key"], list(row["value"])) == (3, ["$pickle"])


def test_a_bootstrapped_savepoint(tmp_path: Path) -> None:
    path = (
        SavepointWriter.new_savepoint(256)
        .with_keyed_state("count", COUNT, [("a", 1), ("b", 2)])
        .with_list_state("remember", ListStateDescriptor("values", Types.LONG()), [1, 2, 3])
        .with_broadcast_state("rules", MapStateDescriptor("r", Types.STRING(), Types.LONG()), {})
        .write(str(tmp_path))
    )
    assert verify_snapshots(path)["is_whole"] is True
    with SavepointReader.read(path) as snapshot:
        assert snapshot.uids() == ["count", "remember", "rules"]
        assert {row.key: row.value for row in snapshot.read_keyed_state("count")} == {
            "a": 1, "b": 2
        }  # fmt: skip
        assert snapshot.read_list_state("remember", "values") == [1, 2, 3]
        assert snapshot.read_broadcast_state("rules", "r") == {}
        assert snapshot.states("rules") == [
            {
                "name": "r",
                "kind": "operator-broadcast",
                "codec": "msgpack",
                "type": "MAP(STRING, LONG)",
                "ttl": "",
            }
        ]
