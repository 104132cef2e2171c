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
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from service_kit import Job

pytestmark = pytest.mark.e2e


@pytest.fixture
def members() -> Iterator[list[Member]]:
    started: list[Member] = []
    yield started
    for member in started:
        if member.process.poll() is None:
            member.process.send_signal(signal.SIGCONT)
        member.kill_all()


@pytest.fixture
def join(members: list[Member], tmp_path: Path) -> Callable[[str], Member]:
    """Starts another job manager; the first one leads, others stand by."""

    def start(name: str) -> Member:
        member = Member(tmp_path / name)
        members.append(member)
        wait_for(lambda: member.role() is not None, member.said)
        return member

    return start


def test_leaders_that_are_killed_stopped_and_ended(
    join: Callable[[str], Member], tmp_path: Path
) -> None:
    """One story, because job managers take seconds to start; each step goes on from the last."""
    first, second = join("a"), join("b")
    assert (first.role(), second.role()) == ("leader", "standby")
    job = start_job(first, tmp_path / "job")
    other = start_job(first, tmp_path / "other")
    cancelled = start_job(first, tmp_path / "cancelled")
    cancelled.cancel()
    cancelled.wait_for_state("CANCELED")
    # The standby passes questions on.
    assert len(second.call("/jobs/overview")["jobs"]) == 3

    driver = job.pid()
    first.kill()
    job = goes_on(job, second, driver)
    assert cancelled.on(second).state == "CANCELED"
    assert lines(tmp_path / "job") <= expected(1_000)

    third = join("c")
    job = after_a_long_sleep(job, second, third, tmp_path / "job")
    other = other.on(third)
    other.wait_for_state("RUNNING")
    other.cancel()
    other.wait_for_state("CANCELED")

    # The leader ends in order, and the one that led before leads again. It knew one of the jobs as
    # a running one, and that has been cancelled elsewhere since.
    driver = job.pid()
    assert "another one goes on with its jobs" in third.stop()
    assert not is_alive(driver)
    job = goes_on(job, second, driver)
    assert other.on(second).state == "CANCELED"
    finish_job(job, tmp_path / "job")
    ends = {job.job_id: "SUCCEEDED", other.job_id: "CANCELED", cancelled.job_id: "CANCELED"}
    wait_for(lambda: results(tmp_path) == ends, second.said)

    # Whoever comes next starts none of them again, and still knows of all.
    second.kill()
    last = join("d")
    wait_for(last.leads, last.said)
    assert job.on(last).state == "FINISHED"
    assert cancelled.on(last).state == "CANCELED"
    assert not list((last.directory / "jobs").glob("*/process.json"))


def goes_on(job: Job, successor: Member, driver: int) -> Job:
    """The job runs under another leader, and its former driver does not."""
    wait_for(successor.leads, successor.said)
    job = job.on(successor)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    wait_for(lambda: not is_alive(driver), job.trouble)
    return job


def after_a_long_sleep(job: Job, leader: Member, successor: Member, directory: Path) -> Job:
    """The leader and a driver sleep beyond the lease, as if the whole machine did."""
    driver = job.pid()
    os.kill(driver, signal.SIGSTOP)
    leader.process.send_signal(signal.SIGSTOP)
    wait_for(successor.leads, successor.said)
    job = job.on(successor)
    job.wait_for_state("RUNNING")
    open_gate(directory, 3_000)
    job.wait_for_checkpoint()
    os.kill(driver, signal.SIGCONT)
    leader.process.send_signal(signal.SIGCONT)
    wait_for(leader.is_standby, leader.said)
    assert "The leadership of epoch 2 has ended" in leader.said()
    wait_for(lambda: not is_alive(driver), leader.said)
    job.wait_for_checkpoint()
    return job
