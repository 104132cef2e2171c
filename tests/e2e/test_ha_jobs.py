"""Job managers on one directory: one leads; killed, stopped or ended, another one goes on.

What the jobs wrote is read by plain code: nothing is lost, nothing is there twice.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from ha_kit import Member, finish_job, results, start_job
from service_kit import expected, is_alive, lines, open_gate, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.fixture
def members() -> Iterator[list[Member]]:
    started: list[Member] = []
    yield started
    for member in started:
        if member.process.poll() is None:
            member.process.send_signal(signal.SIGCONT)
        member.kill_all()


def test_leaders_that_are_killed_stopped_and_ended(members: list[Member], tmp_path: Path) -> None:
    """One story, because job managers take seconds to start; each step goes on from the last."""
    first = Member(tmp_path / "a")
    members.append(first)
    wait_for(first.leads, first.said)
    second = Member(tmp_path / "b")
    members.append(second)
    wait_for(second.is_standby, second.said)
    job = start_job(first, tmp_path / "job")
    other = start_job(first, tmp_path / "other")
    cancelled = start_job(first, tmp_path / "cancelled")
    cancelled.cancel()
    cancelled.wait_for_state("CANCELED")
    # The standby passes questions on.
    assert len(second.call("/jobs/overview")["jobs"]) == 3

    # The leader is killed. Its drivers were not told anything: they are fenced, and end.
    driver = job.pid()
    first.kill()
    wait_for(second.leads, second.said)
    job, other, cancelled = job.on(second), other.on(second), cancelled.on(second)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    wait_for(lambda: not is_alive(driver), job.trouble)
    assert cancelled.state == "CANCELED"
    assert lines(tmp_path / "job") <= expected(1_000)

    # The leader and a driver sleep beyond the lease, as if the whole machine did.
    third = Member(tmp_path / "c")
    members.append(third)
    wait_for(third.is_standby, third.said)
    driver = job.pid()
    os.kill(driver, signal.SIGSTOP)
    second.process.send_signal(signal.SIGSTOP)
    wait_for(third.leads, third.said)
    job, other = job.on(third), other.on(third)
    job.wait_for_state("RUNNING")
    open_gate(tmp_path / "job", 3_000)
    job.wait_for_checkpoint()
    os.kill(driver, signal.SIGCONT)
    second.process.send_signal(signal.SIGCONT)
    wait_for(second.is_standby, second.said)
    assert "The leadership of epoch 2 has ended" in second.said()
    wait_for(lambda: not is_alive(driver), second.said)
    job.wait_for_checkpoint()
    other.wait_for_state("RUNNING")
    other.cancel()
    other.wait_for_state("CANCELED")

    # The leader ends in order: its drivers end, and the one that led before leads again. It knew
    # one of the jobs as a running one, and that has been cancelled elsewhere since.
    driver = job.pid()
    assert "another one goes on with its jobs" in third.stop()
    assert not is_alive(driver)
    wait_for(second.leads, second.said)
    job, other = job.on(second), other.on(second)
    job.wait_for_state("RUNNING")
    assert other.state == "CANCELED"
    finish_job(job, tmp_path / "job")
    wait_for(lambda: len(results(tmp_path)) == 3, second.said)
    assert results(tmp_path) == {
        job.job_id: "SUCCEEDED",
        other.job_id: "CANCELED",
        cancelled.job_id: "CANCELED",
    }

    # Whoever comes next starts none of them again, and still knows of all.
    second.kill()
    last = Member(tmp_path / "d")
    members.append(last)
    wait_for(last.leads, last.said)
    assert job.on(last).state == "FINISHED"
    assert cancelled.on(last).state == "CANCELED"
    assert not list((last.directory / "jobs").glob("*/process.json"))
