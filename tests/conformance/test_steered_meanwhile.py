"""Cancelled and stopped in the middle of a checkpoint, a savepoint or a restore."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import Faults, same
from restore_kit import Tap, Visible, build, counts, run_to, wait_for

from penstock.checkpoint.files import CheckpointFiles
from penstock.common import JobStatus
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOURLY = {"execution.checkpointing.interval": "1 h"}
SECONDS = 200


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Visible.rows.clear()
    Tap.limit = 0


class Gate:
    """Holds whoever comes by until the test opens it."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        inner = getattr(CheckpointFiles, name)

        def held(effects: Any, *arguments: Any, **rest: Any) -> Any:
            self.reached.set()
            assert self.opened.wait(SECONDS)
            return inner(effects, *arguments, **rest)

        patch.setattr(CheckpointFiles, name, held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Gate]]:
    gates: list[Gate] = []

    def make(name: str) -> Gate:
        gates.append(Gate(monkeypatch, name))
        return gates[-1]

    yield make
    for each in gates:
        each.opened.set()


def ended(client: Any) -> JobStatus:
    futures.wait([client._job.result], SECONDS)
    assert client._job.result.done(), "the job did not end"
    status: JobStatus = client.get_job_status().result()
    return status


def failed(future: Any) -> bool:
    """Waits for the answer that everybody gets."""
    try:
        future.result(SECONDS)
    except PenstockError:
        return True
    return False


@pytest.mark.parametrize("step", ["upload", "write_metadata", "publish"])
@pytest.mark.parametrize("what", ["checkpoint", "savepoint"])
def test_cancelled_in_a_snapshot(
    tmp_path: Path, gate: Callable[[str], Gate], step: str, what: str
) -> None:
    """Terminal, whoever waits is told, and nothing half-written is left."""
    if (what, step) == ("savepoint", "publish"):
        # A savepoint ends with its metadata; nothing is published.
        step = "write_metadata"
    held = gate(step)
    client = build(tmp_path, options=HOURLY).execute_async()
    Tap.limit = 50
    wait_for(lambda: client._job.records_read >= 50, "50 records")
    asked = client.trigger_checkpoint() if what == "checkpoint" else client.trigger_savepoint()
    assert held.reached.wait(SECONDS)
    client.cancel()
    client.cancel()
    held.opened.set()
    assert ended(client) is JobStatus.CANCELED
    if what == "checkpoint" and step == "publish":
        # It was past the point of no return, and counts: the policy keeps it.
        assert asked.result(SECONDS) == 1
        same(Visible.all(), counts(50))
    elif failed(asked):
        assert not [*tmp_path.glob("checkpoints/*/chk-*")], "an aborted checkpoint is left"
        assert not [*tmp_path.glob("savepoints/*")], "an aborted savepoint is left"
    with pytest.raises(PenstockError, match="CANCELED"):
        client.trigger_checkpoint()


def test_cancelled_in_a_restore(tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    first = build(tmp_path).execute_async()
    run_to(first, 100)
    path = first.stop_with_savepoint(False).result(SECONDS)
    assert ended(first) is JobStatus.FINISHED
    held = gate("fetch")
    client = build(tmp_path, options={"execution.state-recovery.path": path}).execute_async()
    assert held.reached.wait(SECONDS)
    client.cancel()
    held.opened.set()
    assert ended(client) is JobStatus.CANCELED
    assert client._job.records_read == 0
    # The savepoint is as good as before.
    Tap.limit = 0
    third = build(tmp_path, options={"execution.state-recovery.path": path}).execute_async()
    run_to(third, 150)
    same(Visible.all(), counts(150))
    third.cancel()
    assert ended(third) is JobStatus.CANCELED


def test_stopped_twice(tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    """The second wish is refused, or gets its own answer; the job stops once."""
    held = gate("upload")
    client = build(tmp_path, options=HOURLY).execute_async()
    Tap.limit = 50
    wait_for(lambda: client._job.records_read >= 50, "50 records")
    first = client.stop_with_savepoint(False)
    assert held.reached.wait(SECONDS)
    second = client.stop_with_savepoint(False)
    held.opened.set()
    path = first.result(SECONDS)
    assert failed(second)
    assert ended(client) is JobStatus.FINISHED
    assert [str(each) for each in tmp_path.glob("savepoints/*")] == [path]
    same(Visible.all(), counts(50))


def test_cancelled_while_it_stops(tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    held = gate("upload")
    client = build(tmp_path, options=HOURLY).execute_async()
    Tap.limit = 50
    wait_for(lambda: client._job.records_read >= 50, "50 records")
    stop = client.stop_with_savepoint(False)
    assert held.reached.wait(SECONDS)
    client.cancel()
    held.opened.set()
    assert ended(client) in (JobStatus.CANCELED, JobStatus.FINISHED)
    failed(stop)


def test_twenty_savepoints_at_once_and_a_checkpoint(
    tmp_path: Path, gate: Callable[[str], Gate]
) -> None:
    """Each has its own result; one whose target is a file fails alone."""
    held = gate("upload")
    client = build(tmp_path, options=HOURLY).execute_async()
    Tap.limit = 100
    wait_for(lambda: client._job.records_read >= 100, "100 records")
    checkpoint = client.trigger_checkpoint()
    assert held.reached.wait(SECONDS)
    (tmp_path / "file").write_text("")
    bad = client.trigger_savepoint(str(tmp_path / "file"))
    asked = [client.trigger_savepoint() for _ in range(20)]
    held.opened.set()
    assert len({future.result(SECONDS) for future in asked}) == 20
    assert failed(bad)
    assert checkpoint.result(SECONDS) == 1
    assert (tmp_path / "file").read_text() == ""
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    # Any of them holds everything.
    restored = {"execution.state-recovery.path": asked[-1].result()}
    last = build(tmp_path, options=restored).execute_async()
    run_to(last, 150)
    same(Visible.all(), counts(150))
    last.cancel()
    ended(last)
