"""Flink's own command line against a job manager of ours, where the client is installed.

`make bench` installs it with PyFlink; `FLINK_HOME` may name another one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from service_kit import PROGRAM, Job, Manager

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


def client() -> Path | None:
    """Returns the script of Flink's client."""
    homes = [Path(os.environ["FLINK_HOME"])] if os.environ.get("FLINK_HOME") else []
    homes += (ROOT / ".bench" / "pyflink").glob("lib/python*/site-packages/pyflink")
    found = (home / "bin" / "flink" for home in homes)
    return next((script for script in found if script.is_file()), None)


def java_home() -> str | None:
    java = shutil.which("java")
    if os.environ.get("JAVA_HOME"):
        return os.environ["JAVA_HOME"]
    return None if java is None else str(Path(java).resolve().parents[1])


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        client() is None or java_home() is None, reason="Flink's client is not installed"
    ),
]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    managing = Manager(tmp_path / "jobs")
    yield managing
    managing.kill_all()


def flink(manager: Manager, *arguments: str, expect: int = 0) -> str:
    """Runs the client; returns what it printed without warnings of its virtual machine."""
    script = client()
    assert script is not None
    address = manager.url.removeprefix("http://")
    done = subprocess.run(
        [str(script), arguments[0], "-m", address, *arguments[1:]],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={
            **os.environ,
            "JAVA_HOME": java_home() or "",
            "FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {manager.token}",
        },
    )
    assert done.returncode == expect, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("WARNING")]
    return "\n".join(lines)


def started(manager: Manager, data: Path) -> Job:
    """Submits a job that reads some numbers and waits for more."""
    data.mkdir()
    (data / "gate").write_text("1000")
    job = manager.submit(PROGRAM, data, 1_000_000)
    job.wait_for_state("RUNNING")
    return job


def test_flinks_client_lists_saves_and_stops(manager: Manager, tmp_path: Path) -> None:
    running = started(manager, tmp_path / "data")
    job = running.job_id

    listed = flink(manager, "list")
    assert re.search(rf"^\d\d\.\d\d\.\d{{4}} [\d:]+ : {job} : .+ \(RUNNING\)$", listed, re.M)
    assert "No scheduled jobs." in listed

    saved = flink(manager, "savepoint", job, str(tmp_path / "savepoints"))
    assert saved.splitlines()[:2] == [
        f"Triggering savepoint for job {job}.",
        "Waiting for response...",
    ]
    place = re.search(r"^Savepoint completed\. Path: (.+)$", saved, re.M)
    assert place is not None
    assert (Path(place[1].removeprefix("file:")) / "_metadata").is_file()

    assert re.search(
        rf"^Checkpoint \d+ for job {job} completed\.$", flink(manager, "checkpoint", job), re.M
    )
    # A failure is told and ends the client, instead of leaving it waiting.
    refused = flink(manager, "savepoint", job, "/proc/nowhere", expect=1)
    assert "Triggering savepoint" in refused

    stopped = flink(manager, "stop", "-p", str(tmp_path / "savepoints"), job)
    assert f'Suspending job "{job}" with a CANONICAL savepoint.' in stopped
    assert "Savepoint completed. Path: " in stopped
    running.wait_for_state("FINISHED")


def test_flinks_client_cancels(manager: Manager, tmp_path: Path) -> None:
    running = started(manager, tmp_path / "data")
    job = running.job_id
    assert flink(manager, "cancel", job).splitlines() == [
        f"Cancelling job {job}.",
        f"Cancelled job {job}.",
    ]
    running.wait_for_state("CANCELED")
