"""A job manager whose jobs run on Spark: killed with its JVM, the job gives what it should."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from service_kit import PROGRAM, Manager, expected, is_alive, lines, open_gate, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
END = 4_000


def children(pid: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(path.parent.name)
            found += [child, *children(child)]
    return found


@pytest.mark.timeout(900)
def test_a_driver_on_spark_is_killed_and_its_job_goes_on(tmp_path: Path) -> None:
    manager = Manager(
        tmp_path / "state",
        **{"penstock.spark.master": "local[2]", "execution.checkpointing.interval": "200 ms"},
    )
    try:
        open_gate(tmp_path, 1_500)
        job = manager.submit(PROGRAM, tmp_path, END)
        job.wait_for_state("RUNNING")
        job.wait_for_checkpoint()
        first = job.pid()
        started = children(first)
        assert started, "Spark's JVM"
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: job.pid() != first, job.trouble)
        # Neither the JVM nor Python workers outlive their driver.
        wait_for(lambda: not any(map(is_alive, started)), job.trouble)
        job.wait_for_state("RUNNING")
        last = [job.pid(), *children(job.pid())]
        open_gate(tmp_path, END)
        job.wait_for_state("FINISHED")
        assert lines(tmp_path) == expected(END)
        wait_for(lambda: not any(map(is_alive, last)), job.trouble)
    finally:
        manager.kill_all()
