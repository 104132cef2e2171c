"""Job managers come and go, also killed; jobs go on, exactly, and ended ones stay ended."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from service_kit import (
    PROGRAM,
    Job,
    Manager,
    expected,
    is_alive,
    lines,
    open_gate,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e
END = 6_000


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[list[Manager]]:
    started: list[Manager] = []
    yield started
    for manager in started:
        manager.kill_all()


def another(managers: list[Manager], tmp_path: Path) -> Manager:
    managers.append(Manager(tmp_path / "state"))
    return managers[-1]


def start(manager: Manager, directory: Path, gate: int) -> Job:
    directory.mkdir(exist_ok=True)
    open_gate(directory, gate)
    job = manager.submit(PROGRAM, directory, END)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    return job


def test_a_killed_job_manager_is_followed_by_one_that_finds_everything(
    managers: list[Manager], tmp_path: Path
) -> None:
    """One job lives on, one dies while nobody looks, one was cancelled, one finished."""
    first = another(managers, tmp_path)
    living = start(first, tmp_path / "living", 1_000)
    dying = start(first, tmp_path / "dying", 1_000)
    cancelled = start(first, tmp_path / "cancelled", 1_000)
    cancelled.cancel()
    cancelled.wait_for_state("CANCELED")
    pid = living.pid()
    entered = living.document()["timestamps"]
    first.kill()
    os.kill(dying.pid(), signal.SIGKILL)
    wait_for(lambda: not is_alive(dying.pid()), dying.trouble)

    # Nobody looks after it, and it goes on.
    assert is_alive(pid)
    open_gate(tmp_path / "living", 3_000)

    second = another(managers, tmp_path)
    living, dying, cancelled = (job.on(second) for job in (living, dying, cancelled))
    living.wait_for_state("RUNNING")
    assert living.pid() == pid, "it was taken over, not started again"
    after = living.document()["timestamps"]
    assert after.pop("RECONCILING") > entered.pop("RECONCILING"), "and has been running all along"
    assert after == entered
    dying.wait_for_state("RUNNING")
    assert cancelled.state == "CANCELED"
    living.wait_for_checkpoint()
    assert living.operation("checkpoints", {})["checkpointId"] > 0

    for directory in ("living", "dying"):
        open_gate(tmp_path / directory, END)
    for job, directory in ((living, "living"), (dying, "dying")):
        job.wait_for_state("FINISHED")
        assert lines(tmp_path / directory) == expected(END)
    assert living.document()["restarts"] == 0
    assert sum(lines(tmp_path / "cancelled").values()) <= 1_000

    second.stop()
    third = another(managers, tmp_path)
    found = third.call("/jobs/overview")["jobs"]
    assert {job["jid"]: job["state"] for job in found} == {
        living.job_id: "FINISHED",
        dying.job_id: "FINISHED",
        cancelled.job_id: "CANCELED",
    }
    # Their documents outlive two job managers.
    assert living.on(third).document("/checkpoints")["counts"]["completed"] > 0
    assert living.on(third).document()["vertices"]


def test_a_job_manager_that_is_stopped_leaves_jobs_running_and_says_so(
    managers: list[Manager], tmp_path: Path
) -> None:
    first = another(managers, tmp_path)
    job = start(first, tmp_path / "job", 1_000)
    said = first.stop()
    assert f"{job.job_id}  process {job.pid()}" in said
    assert "takes them over" in said
    assert is_alive(job.pid())
    # It ends while there is no job manager; the next one learns of it.
    pid = job.pid()
    open_gate(tmp_path / "job", END)
    wait_for(lambda: (job.directory / "end.json").exists(), job.trouble)
    wait_for(lambda: not is_alive(pid), job.trouble)
    second = another(managers, tmp_path)
    job.on(second).wait_for_state("FINISHED")
    assert lines(tmp_path / "job") == expected(END)
    assert "no job was running" in second.stop()


def test_a_job_is_killed_while_and_after_it_is_rescaled(
    managers: list[Manager], tmp_path: Path
) -> None:
    """Each record counts once; what a checkpoint wanted is what the next process runs."""
    manager = another(managers, tmp_path)
    job = start(manager, tmp_path / "job", 1_000)

    def rescale(parallelism: int) -> str:
        path = f"/jobs/{job.job_id}/rescaling?parallelism={parallelism}"
        return str(manager.call(path, {}, "PATCH")["request-id"])

    def is_done(trigger: str) -> bool:
        answer = manager.call(f"/jobs/{job.job_id}/rescaling/{trigger}")
        return bool(answer["status"]["id"] == "COMPLETED")

    def kill() -> None:
        pid = job.pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(pid), job.trouble)
        wait_for(lambda: job.pid() != pid, job.trouble)
        job.wait_for_state("RUNNING")

    gate = 1_000
    for parallelism, when in ((2, "asked"), (3, "checkpoint"), (4, "done")):
        before = job.checkpoints()
        trigger = rescale(parallelism)
        gate += 500
        open_gate(tmp_path / "job", gate)
        if when == "checkpoint":
            wait_for(lambda before=before: job.checkpoints() > before, job.trouble)
        elif when == "done":
            wait_for(lambda trigger=trigger: is_done(trigger), job.trouble)
        kill()
        job.wait_for_checkpoint()
    shown = {vertex["parallelism"] for vertex in job.document()["vertices"]}
    assert shown == {4}
    open_gate(tmp_path / "job", END)
    job.wait_for_state("FINISHED")
    assert lines(tmp_path / "job") == expected(END)
