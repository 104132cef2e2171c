"""Steering a running job: savepoints, stops, cancels, restarts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from recovery_kit import Faults, environment, same
from restore_kit import Numbers, Tap, Visible, build, cancel, counts, run_to, wait_for

from penstock.common import JobStatus, Time, WatermarkStrategy
from penstock.core.errors import PenstockError, UserFunctionError
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.runtime.state_files import file_names

CHECKPOINTING = "execution.checkpointing."


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Visible.rows.clear()
    Tap.limit = 0


def test_savepoint_of_an_idle_job(tmp_path: Path) -> None:
    client = build(tmp_path, options={CHECKPOINTING + "interval": "1 h"}).execute_async()
    wait_for(lambda: client.last_epoch > 0, "an epoch")
    path = Path(client.trigger_savepoint().result(200))
    assert (path / "_metadata").is_file()
    assert path.parent == tmp_path / "savepoints"
    assert path.name.startswith(f"savepoint-{client.get_job_id()}"[:16])
    assert client.get_job_status().result() is JobStatus.RUNNING
    cancel(client)


def test_who_waits_for_a_cancelled_job_sees_its_end_and_no_failure(tmp_path: Path) -> None:
    client = build(tmp_path).execute_async()
    assert not client.await_termination(0.001)
    client.cancel()
    assert client.await_termination(60)
    assert client.exception() is None
    with pytest.raises(PenstockError, match="was cancelled"):
        client.get_job_execution_result().result(200)


def test_two_savepoints_at_once(tmp_path: Path) -> None:
    client = build(tmp_path).execute_async()
    run_to(client, 200)
    futures = [client.trigger_savepoint(str(tmp_path / f"at-{n}")) for n in range(5)]
    paths = {Path(future.result(200)) for future in futures}
    assert {path.parent.name for path in paths} == {f"at-{n}" for n in range(5)}
    records = [record for record in client.checkpoints() if record.is_savepoint]
    assert len(records) == 5
    assert {record.status for record in records} == {"COMPLETED"}
    assert all(record.figures.state_bytes > 0 for record in records)
    cancel(client)


def test_savepoint_without_a_directory(tmp_path: Path) -> None:
    client = build(tmp_path, options={CHECKPOINTING + "savepoint-dir": ""}).execute_async()
    with pytest.raises(PenstockError, match="savepoint-dir"):
        client.trigger_savepoint().result(200)
    with pytest.raises(PenstockError, match="savepoint-dir"):
        client.stop_with_savepoint(False).result(200)
    cancel(client)


def test_savepoint_that_cannot_be_written(tmp_path: Path) -> None:
    """It fails for whoever asked; the job runs on."""
    (tmp_path / "file").write_text("not a directory")
    client = build(tmp_path).execute_async()
    with pytest.raises(PenstockError):
        client.trigger_savepoint(str(tmp_path / "file")).result(200)
    run_to(client, 100)
    same(Visible.all(), counts(100))
    assert client.get_job_status().result() is JobStatus.RUNNING
    cancel(client)


def test_checkpointing_switched_off(tmp_path: Path) -> None:
    """Savepoints and checkpoints can be asked for all the same."""
    client = build(tmp_path, options={CHECKPOINTING + "interval": ""}).execute_async()
    run_to(client, 100)
    assert client.trigger_checkpoint().result(200) == 1
    path = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    client = build(tmp_path, 1, {"execution.state-recovery.path": path}).execute_async()
    run_to(client, 150)
    same(Visible.all(), counts(150))
    cancel(client)


@pytest.mark.parametrize("checkpointing", ["10 ms", "1 h", ""])
def test_stop_shows_everything_that_was_read(tmp_path: Path, checkpointing: str) -> None:
    client = build(tmp_path, options={CHECKPOINTING + "interval": checkpointing}).execute_async()
    Tap.limit = 400
    wait_for(lambda: client._job.records_read >= 400, "400 records")
    path = Path(client.stop_with_savepoint(False).result(200))
    client.get_job_execution_result().result(200)
    assert client.get_job_status().result() is JobStatus.FINISHED
    same(Visible.all(), counts(400))
    assert (path / "_metadata").is_file()
    with pytest.raises(PenstockError, match="FINISHED"):
        client.trigger_savepoint().result(200)


def test_drain_ends_event_time(tmp_path: Path) -> None:
    def job(options: dict[str, str]) -> Any:
        env = environment(tmp_path, 2, options)
        numbers = env.add_source(Numbers()).uid("numbers")
        numbers.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
                lambda value, _: value
            )
        ).key_by(lambda value: value % 2).window(
            TumblingEventTimeWindows.of(Time.milliseconds(100))
        ).reduce(lambda a, b: a + b).uid("sums").map(lambda total: (total,)).add_sink(
            Visible("out")
        ).uid("sink")
        return env.execute_async()

    client = job({})
    Tap.limit = 250
    wait_for(lambda: client._job.records_read >= 250, "250 records")
    path = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    full = [(sum(range(at + odd, at + 100, 2)),) for at in (0, 100) for odd in (0, 1)]
    same(Visible.all(), full)
    client = job({"execution.state-recovery.path": path})
    wait_for(lambda: client.last_epoch > 0, "an epoch")
    client.stop_with_savepoint(True).result(200)
    client.get_job_execution_result().result(200)
    same(Visible.all(), [*full, *[(sum(range(200 + odd, 250, 2)),) for odd in (0, 1)]])


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", False),
        ("DELETE_ON_CANCELLATION", False),
        ("RETAIN_ON_CANCELLATION", True),
    ],
)
def test_cancel_keeps_what_the_policy_says(tmp_path: Path, policy: str, kept: bool) -> None:
    options = {CHECKPOINTING + "externalized-checkpoint-retention": policy}
    client = build(tmp_path, options=options).execute_async()
    run_to(client, 100)
    client.trigger_checkpoint().result(200)
    savepoint = Path(client.trigger_savepoint().result(200))
    cancel(client)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert bool([*tmp_path.glob("checkpoints/*/chk-*/_metadata")]) == kept
    assert (savepoint / "_metadata").is_file()
    assert not [*tmp_path.glob("tmp/*")]


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", False),
        ("DELETE_ON_CANCELLATION", True),
        ("RETAIN_ON_CANCELLATION", True),
    ],
)
def test_failure_keeps_what_the_policy_says(tmp_path: Path, policy: str, kept: bool) -> None:
    options = {
        CHECKPOINTING + "externalized-checkpoint-retention": policy,
        "restart-strategy.type": "none",
    }

    def breaking(stream: Any) -> Any:
        return stream.map(lambda value: value if value < 150 else 1 // 0).uid("breaking")

    client = build(tmp_path, options=options, change=breaking).execute_async()
    run_to(client, 100)
    client.trigger_checkpoint().result(200)
    Tap.limit = 200
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        client.get_job_execution_result().result(200)
    assert client.get_job_status().result() is JobStatus.FAILED
    assert bool([*tmp_path.glob("checkpoints/*/chk-*/_metadata")]) == kept


def test_num_retained(tmp_path: Path) -> None:
    client = build(tmp_path, options={CHECKPOINTING + "num-retained": "3"}).execute_async()
    for end in range(50, 400, 50):
        run_to(client, end)
    newest = client.trigger_checkpoint().result(200)
    found = sorted(int(p.name[4:]) for p in tmp_path.glob("checkpoints/*/chk-*"))
    assert len(found) in (3, 4) and newest in found
    cancel(client)
    found = sorted(int(p.name[4:]) for p in tmp_path.glob("checkpoints/*/chk-*"))
    assert len(found) == 3


# -- restarts ------------------------------------------------------------------------------------


def broken(stream: Any) -> Any:
    return stream.map(lambda value: value if value < 100 else 1 // 0).uid("broken")


def test_fixed_delay_gives_up_with_the_users_error(tmp_path: Path) -> None:
    options = {"restart-strategy.fixed-delay.attempts": "3"}
    client = build(tmp_path, options=options, change=broken).execute_async()
    Tap.limit = 300
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        client.get_job_execution_result().result(200)
    assert client._job.restarts == 3
    same([row for row in Visible.all() if row not in counts(100)], [])


@pytest.mark.parametrize(
    ("interval", "strategy", "restarts"),
    [("10 ms", "none", False), ("10 ms", "", True), ("", "", False)],
)
def test_default_strategy(tmp_path: Path, interval: str, strategy: str, restarts: bool) -> None:
    """With checkpointing exponential delay, of 1 s at first; without it, none."""
    options = {CHECKPOINTING + "interval": interval, "restart-strategy.type": strategy}
    client = build(tmp_path, options=options, change=broken).execute_async()
    Tap.limit = 300
    if not restarts:
        with pytest.raises(UserFunctionError):
            client.get_job_execution_result().result(200)
        return
    wait_for(lambda: client.get_job_status().result() is JobStatus.RESTARTING, "a restart")
    # While it waits for the delay it can be cancelled at once, and takes no savepoint.
    with pytest.raises(PenstockError):
        client.trigger_savepoint().result(200)
    cancel(client)
    assert client.get_job_status().result() is JobStatus.CANCELED


# -- leaks ---------------------------------------------------------------------------------------


def unnamed_files(directory: Path, client: Any) -> set[str]:
    """Files of the state directory that the job's state does not name (any more, or yet)."""
    versions = client._job._driver.state.versions.values()
    names = file_names(versions)
    found = [path for path in directory.glob("tmp/*/state/*") if path.is_file()]
    return {path.name for path in found} - names


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_local_files_do_not_grow(tmp_path: Path, backend: str) -> None:
    options = {
        "state.backend.type": backend,
        CHECKPOINTING + "incremental": "true",
        CHECKPOINTING + "data-inline-threshold": "0",
    }
    client = build(tmp_path, options=options).execute_async()
    most = 0
    for end in range(100, 2_000, 100):
        run_to(client, end)
        files = [path for path in tmp_path.glob("tmp/*/state/*") if path.is_file()]
        most = max(most, len(files))
    old = unnamed_files(tmp_path, client)
    wait_for(lambda: not old & unnamed_files(tmp_path, client), "the deletion of old state files")
    shared = [*tmp_path.glob("checkpoints/*/shared/*")]
    assert most < 120, most
    assert len(shared) < 60, len(shared)
    cancel(client)
    same(Visible.all(), counts(1_900))
    assert not [*tmp_path.glob("tmp/*")]


def test_restarts_leave_no_files(tmp_path: Path) -> None:
    options = {CHECKPOINTING + "data-inline-threshold": "0"}

    def check(value: int) -> int:
        if value % 100 == 99:
            Faults.once(f"leak-{value}")
        return value

    client = build(
        tmp_path, options=options, change=lambda s: s.map(check).uid("c")
    ).execute_async()
    for end in range(100, 1_600, 100):
        run_to(client, end)
    assert client._job.restarts >= 15
    old = unnamed_files(tmp_path, client)
    wait_for(lambda: not old & unnamed_files(tmp_path, client), "the deletion of old state files")
    same(Visible.all(), counts(1_500))
    cancel(client)


def test_no_threads_are_left(tmp_path: Path) -> None:
    def run() -> None:
        Visible.rows.clear()
        Tap.limit = 0
        client = build(tmp_path).execute_async()
        run_to(client, 20)
        client.trigger_savepoint().result(200)
        cancel(client)

    run()
    before = {thread.name for thread in threading.enumerate()}
    for _ in range(10):
        run()

    def left() -> set[str]:
        return {thread.name for thread in threading.enumerate()} - before

    wait_for(lambda: not left(), f"the end of {left()}")
    assert not [*tmp_path.glob("tmp/*")]
