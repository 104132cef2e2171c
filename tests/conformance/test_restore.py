"""Starting from snapshots: rescaled, moved, changed programs, claimed or not, damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from recovery_kit import Faults, environment, failing_at, same
from restore_kit import (
    KEYS,
    RETAIN,
    Count,
    Numbers,
    Tap,
    Visible,
    build,
    cancel,
    counts,
    run_to,
    wait_for,
)

from penstock.common import Encoder, Time
from penstock.core.errors import PenstockError
from penstock.datastream.connectors import FileSink
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

BACKENDS = ["hashmap", "rocksdb"]

# A job in this process is cancelled by an exception in its thread, which may meet a finalizer.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Visible.rows.clear()
    Tap.limit = 0


def first_run(directory: Path, parallelism: int = 2, options: Any = None, **how: Any) -> Path:
    """Runs to 600, then leaves a retained checkpoint; returns its directory."""
    client = build(directory, parallelism, options, **how).execute_async()
    run_to(client, 600)
    number = client.trigger_checkpoint().result(200)
    cancel(client)
    (found,) = (directory / "checkpoints").glob("*/chk-*")
    assert int(found.name.removeprefix("chk-")) >= number
    return found


def restore(path: Any) -> dict[str, str]:
    return {"execution.state-recovery.path": str(path)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("incremental", ["true", "false"])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_from_a_retained_checkpoint(
    tmp_path: Path, parallelism: int, incremental: str, backend: str
) -> None:
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.incremental": incremental,
        "execution.checkpointing.data-inline-threshold": "100",
    }
    retained = first_run(tmp_path, 2, options)
    same(Visible.all(), counts(600))
    path = retained if parallelism % 2 else retained / "_metadata"
    client = build(tmp_path, parallelism, {**options, **restore(path)}).execute_async()
    run_to(client, 1_000)
    same(Visible.all(), counts(1_000))
    number = int(retained.name.removeprefix("chk-"))
    assert min(r.checkpoint_id for r in client.checkpoints()) > number
    assert client.trigger_checkpoint().result(200) > number
    cancel(client)
    # Without a claim, what the user named is the user's.
    assert (retained / "_metadata").exists()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_from_a_moved_savepoint_with_another_backend(
    tmp_path: Path, parallelism: int, backend: str
) -> None:
    client = build(tmp_path, 2, {"state.backend.type": backend}).execute_async()
    run_to(client, 600)
    savepoint = Path(client.stop_with_savepoint(False).result(200))
    client.get_job_execution_result().result(200)
    same(Visible.all(), counts(600))
    moved = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(savepoint, moved)
    shutil.rmtree(savepoint)
    (other,) = set(BACKENDS) - {backend}
    options = {"state.backend.type": other, **restore(moved)}
    client = build(tmp_path, parallelism, options).execute_async()
    run_to(client, 900)
    same(Visible.all(), counts(900))
    cancel(client)
    assert (moved / "_metadata").exists()


@pytest.mark.parametrize("other", BACKENDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [2, 3])
def test_state_that_gets_a_time_to_live(
    tmp_path: Path, parallelism: int, backend: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as accessed when it is restored, not before all time."""

    def with_a_time_to_live(self: Count, context: Any) -> None:
        descriptor = ValueStateDescriptor("count")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(9)).build())
        self.count = context.get_state(descriptor)

    path = first_run(tmp_path, 2, {"state.backend.type": backend})
    monkeypatch.setattr(Count, "open", with_a_time_to_live)
    options = {"state.backend.type": other, **restore(path)}
    client = build(tmp_path, parallelism, options).execute_async()
    run_to(client, 900)
    same(Visible.all(), counts(900))
    cancel(client)


def test_from_an_intermediate_savepoint(tmp_path: Path) -> None:
    """The job goes on behind it; a second one starts from it and repeats only what came after."""
    client = build(tmp_path).execute_async()
    run_to(client, 300)
    savepoint = client.trigger_savepoint().result(200)
    run_to(client, 500)
    cancel(client)
    same(Visible.all(), counts(500))
    Visible.rows.clear()
    client = build(tmp_path, 3, restore(savepoint)).execute_async()
    Tap.limit = 700
    new = set(counts(700)) - set(counts(300))
    wait_for(lambda: len(set(Visible.all()) & new) == len(new), "the rest")
    cancel(client)
    assert set(Visible.all()) - new <= set(counts(300))


def test_output_that_a_savepoint_owes_survives_a_restart(tmp_path: Path) -> None:
    """A savepoint is taken, then the job falls back behind it; what the savepoint owes stays."""
    out = tmp_path / "files"

    def job(options: dict[str, str]) -> Any:
        env = environment(tmp_path, 1, {"execution.checkpointing.interval": "1 h", **options})
        numbers = env.add_source(Numbers()).uid("numbers")
        lines = numbers.map(failing_at([250], "fall")).map(str)
        encoder = Encoder.simple_string_encoder()
        lines.sink_to(FileSink.for_row_format(str(out), encoder).build()).uid("files")
        return env.execute_async()

    client = job({})
    Tap.limit = 200
    wait_for(lambda: client._job.records_read >= 200, "200 records")
    savepoint = client.trigger_savepoint().result(200)
    # No checkpoint has completed: the job begins anew, and none of its output is visible yet.
    Tap.limit = 300
    wait_for(lambda: client._job.records_read >= 500, "the second attempt")
    client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    same(read(out), range(300))
    # Another future of the savepoint: it shows what the savepoint owes, then goes its own way.
    for path in [path for path in out.rglob("*") if path.is_file() and path.name[0] != "."]:
        path.unlink()
    client = job(restore(savepoint))
    Tap.limit = 400
    wait_for(lambda: client._job.records_read >= 200, "the rest")
    client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    same(read(out), range(400))


def read(directory: Path) -> list[int]:
    return [
        int(line)
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    ]


def start_fails(directory: Path, options: dict[str, str], **how: Any) -> str:
    client = build(directory, 2, options, **how).execute_async()
    with pytest.raises(PenstockError) as caught:
        client.get_job_execution_result().result(200)
    assert client.last_epoch == 0
    return str(caught.value)


def test_state_is_found_by_uid(tmp_path: Path) -> None:
    retained = first_run(tmp_path)
    text = start_fails(tmp_path, restore(retained), uid="tally", source_uid="digits")
    assert "uid 'count'" in text and "uid 'numbers'" in text
    assert "ignore-unclaimed-state" in text
    Visible.rows.clear()
    ignore = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    client = build(tmp_path, 2, {**restore(retained), **ignore}, uid="tally").execute_async()
    Tap.limit = 700
    # The source goes on at 600, the counts begin anew.
    wait_for(lambda: len(Visible.all()) >= 100, "100 records")
    same(Visible.all(), [(key, n) for key, n in counts_from(600, 700)])
    cancel(client)


def counts_from(start: int, end: int) -> list[tuple[int, int]]:
    seen: dict[int, int] = {}
    rows = []
    for value in range(start, end):
        seen[value % 11] = seen.get(value % 11, 0) + 1
        rows.append((value % 11, seen[value % 11]))
    return rows


def test_operators_may_be_added(tmp_path: Path) -> None:
    retained = first_run(tmp_path)

    def longer(stream: Any) -> Any:
        return stream.filter(lambda value: True).rebalance().map(lambda value: value).uid("new")

    client = build(tmp_path, 2, restore(retained), change=longer).execute_async()
    run_to(client, 800)
    same(Visible.all(), counts(800))
    cancel(client)


def test_all_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    retained = first_run(tmp_path)
    text = start_fails(tmp_path, restore(retained), max_parallelism=64, source_uid="digits")
    assert "max parallelism 64 in the program and 128" in text
    assert "uid 'numbers'" in text


def test_damage_is_found_before_the_start(tmp_path: Path) -> None:
    options = {"execution.checkpointing.data-inline-threshold": "0"}
    retained = first_run(tmp_path, options=options)
    data = sorted(path for path in retained.iterdir() if path.name != "_metadata")
    assert len(data) > 2
    data[0].write_bytes(data[0].read_bytes()[:-1] + b"\0\1")
    data[1].unlink()
    text = start_fails(tmp_path, {**options, **restore(retained)})
    assert data[0].name in text and data[1].name in text
    metadata = retained / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-40])
    assert "_metadata" in start_fails(tmp_path, restore(retained))
    assert "no _metadata" in start_fails(tmp_path, restore(tmp_path / "nowhere"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_claimed_checkpoint_is_deleted_when_it_is_subsumed(tmp_path: Path, backend: str) -> None:
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    retained = first_run(tmp_path, 2, options)
    claim = {"execution.state-recovery.claim-mode": "CLAIM"}
    client = build(tmp_path, 2, {**options, **restore(retained), **claim}).execute_async()
    run_to(client, 800)
    wait_for(lambda: not retained.exists(), "the deletion of the claimed checkpoint")
    same(Visible.all(), counts(800))
    cancel(client)
    (newer,) = (tmp_path / "checkpoints").glob("*/chk-*")
    # What the new one shares with the claimed one is still there.
    client = build(tmp_path, 3, {**options, **restore(newer)}).execute_async()
    run_to(client, 900)
    same(Visible.all(), counts(900))
    cancel(client)


def test_only_one_job_claims_a_snapshot(tmp_path: Path) -> None:
    client = build(tmp_path).execute_async()
    run_to(client, 100)
    savepoint = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    claim = {
        **restore(savepoint),
        "execution.state-recovery.claim-mode": "CLAIM",
        "execution.checkpointing.interval": "1 h",
    }
    client = build(tmp_path, 2, claim).execute_async()
    run_to_without_commit(client)
    assert "claimed by job" in start_fails(tmp_path, claim)
    cancel(client)


def run_to_without_commit(client: Any) -> None:
    wait_for(lambda: client.last_epoch > 0, "an epoch")


def test_unclaimed_files_are_not_needed_after_the_first_checkpoint(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    retained = first_run(tmp_path, 2, options)
    again = tmp_path / "again"
    client = build(again, 2, {**options, **restore(retained)}).execute_async()
    run_to(client, 700)
    client.trigger_checkpoint().result(200)
    shutil.rmtree(retained.parent)
    run_to(client, 800)
    cancel(client)
    (newer,) = (again / "checkpoints").glob("*/chk-*")
    client = build(again, 1, {**options, **restore(newer)}).execute_async()
    run_to(client, 900)
    same(Visible.all(), counts(900))
    cancel(client)


def test_operator_state_and_owed_output_are_not_dropped_silently(tmp_path: Path) -> None:
    client = build(tmp_path).execute_async()
    run_to(client, 100)
    Tap.limit = 200
    savepoint = client.trigger_savepoint().result(200)
    cancel(client)
    env = environment(tmp_path, 1, restore(savepoint))
    numbers = env.add_source(Numbers()).uid("numbers")
    numbers.key_by(lambda value: value % KEYS).process(Count()).uid("count").print()
    client = env.execute_async()
    with pytest.raises(PenstockError) as caught:
        client.get_job_execution_result().result(200)
    assert "uid 'remember') has state" in str(caught.value)


def test_a_print_may_go_and_a_sink_that_owes_output_may_not(tmp_path: Path) -> None:
    """What `print()` showed nobody else can show; it must not keep a program from going on."""
    rare = {**RETAIN, "execution.checkpointing.interval": "1 h"}  # All output waits for it.

    def start(*sinks: str, **options: str) -> Any:
        env = environment(tmp_path, 1, {**rare, **options})
        numbers = env.add_source(Numbers()).uid("numbers")
        if "print" in sinks:
            numbers.print().uid("print")
        if "visible" in sinks:
            numbers.add_sink(Visible("out")).uid("visible")
        numbers.key_by(lambda value: value % KEYS).process(Count()).uid("count").add_sink(
            Visible("counts")
        ).uid("counts")
        return env.execute_async()

    def read(client: Any, records: int) -> None:
        metrics = client.metrics
        wait_for(lambda: metrics()["numbers"].records_out >= records, f"{records} records")

    Tap.limit = 100
    client = start("print", "visible")
    read(client, 100)
    number = client.trigger_checkpoint().result(200)
    cancel(client)
    (retained,) = (tmp_path / "checkpoints").glob(f"*/chk-{number}")
    Tap.limit = 200
    client = start("visible", **restore(retained))
    read(client, 100)
    cancel(client)
    client = start("print", **restore(retained))
    with pytest.raises(PenstockError, match="uid 'visible'\\) has output that may not be visible"):
        client.get_job_execution_result().result(200)
