"""The command line against a real job manager: every action on a job, from submission to its end.

The job and the reader of its output are the job manager's; results are compared with what a hand
computes for the numbers that the job was given.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ha_kit import Member, start_job
from service_kit import PROGRAM, Manager, expected, lines, open_gate, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


class Client:
    """Runs command lines as the user of a job manager, in a directory of its own."""

    def __init__(self, manager: Manager, directory: Path) -> None:
        self.manager = manager
        self.directory = directory
        self.address = manager.url.removeprefix("http://")
        self.environment = manager.environment

    def start(self, action: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            # Where the tests themselves run in the background, SIGINT is ignored, and inherited so.
            ["env", "--default-signal=INT", PENSTOCK, action, "-m", self.address, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, action: str, *arguments: str, code: int = 0) -> str:
        """Runs a command line to its end; returns what it printed."""
        process = self.start(action, *arguments)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, f"{out}\n{err}\n{self.manager.said()[-4000:]}"
        return out if code == 0 else out + err

    def wait_for_state(self, job_id: str, state: str) -> None:
        def reached() -> bool:
            jobs = json.loads(self.run("list", "-a", "--json"))["jobs"]
            return any(job["id"] == job_id and job["state"] == state for job in jobs)

        wait_for(reached, self.manager.said)


def submitted_id(process: subprocess.Popen[str]) -> str:
    """Reads the line that an attached `run` begins with."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.fullmatch(r"Job has been submitted with JobID ([0-9a-f]{32})\n", line)
    assert match is not None, f"{line!r} {process.stderr and process.stderr.read()}"
    return match[1]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    manager = Manager(tmp_path / "work")
    try:
        yield Client(manager, tmp_path)
    finally:
        manager.kill_all()


def test_a_job_from_its_submission_to_its_end(client: Client, tmp_path: Path) -> None:
    """Submitted, seen, saved, stopped; started again from the savepoint, it misses nothing."""
    open_gate(tmp_path, 5_000)
    program, end = str(PROGRAM), "12000"
    job_id = client.run("run", "-d", "--quiet", program, str(tmp_path), end).strip()
    client.wait_for_state(job_id, "RUNNING")
    assert f" : {job_id} : numbers (RUNNING)\n" in client.run("list")
    assert re.search(
        rf"\nCheckpoint \d+ for job {job_id} completed\.\n", client.run("checkpoint", job_id[:8])
    )
    kept = client.run("savepoint", "--quiet", job_id, "kept").strip()
    assert Path(kept).parent == tmp_path / "kept", "relative to the user, not to the manager"
    open_gate(tmp_path, 9_000)
    stopped = client.run("stop", "-p", str(tmp_path / "stopped"), job_id)
    path = re.search(r"^Savepoint completed\. Path: (\S+)$", stopped, re.MULTILINE)
    assert path is not None
    client.wait_for_state(job_id, "FINISHED")
    assert "No running jobs." in client.run("list")

    open_gate(tmp_path, int(end))
    ran = client.run("run", "-s", path[1], program, str(tmp_path), end)
    second = re.fullmatch(
        r"Job has been submitted with JobID (\w+)\ncounting\ncounted\nProgram execution finished\n"
        r"Job with JobID \1 has finished\.\nJob Runtime: \d+ ms\n",
        ran,
    )
    assert second is not None, ran
    assert lines(tmp_path) == expected(int(end)), "lost or doubled"

    assert client.run("savepoint", "-d", kept).splitlines()[-1] == f"Savepoint '{kept}' disposed."
    assert not (Path(kept) / "_metadata").exists()
    listed = client.run("list", "-a")
    assert f" : {job_id} : numbers (FINISHED)\n" in listed
    assert f" : {second[1]} : numbers (FINISHED)\n" in listed


def test_an_attached_run_outlives_its_job_manager(client: Client, tmp_path: Path) -> None:
    """The manager is killed; its successor at the same address adopts the job, `run` goes on."""
    open_gate(tmp_path, 2_000)
    attached = client.start("run", str(PROGRAM), str(tmp_path), "4000")
    job_id = submitted_id(attached)
    client.wait_for_state(job_id, "RUNNING")
    client.manager.kill()
    port = client.address.rpartition(":")[2]
    command = client.manager.command
    command[command.index("--port") + 1] = port
    log = (tmp_path / "successor.txt").open("wb")
    with (
        log,
        subprocess.Popen(
            command, stdout=log, stderr=log, env=client.environment, start_new_session=True
        ) as successor,
    ):
        try:
            open_gate(tmp_path, 4_000)
            out, err = attached.communicate(timeout=240)
            assert attached.returncode == 0, out + err
            # The first line may have been read together with the id.
            assert out.count("counting\n") <= 1
            assert out.count("counted\nProgram execution finished\n") == out.count("counted") == 1
            assert f"Job with JobID {job_id} has finished.\n" in out
        finally:
            successor.terminate()
    assert lines(tmp_path) == expected(4_000)


@pytest.mark.parametrize(
    ("options", "number", "state"),
    [((), signal.SIGINT, "RUNNING"), (("-sae",), signal.SIGTERM, "CANCELED")],
    ids=["goes-on", "sae"],
)
def test_an_interrupted_run(
    client: Client, tmp_path: Path, options: tuple[str, ...], number: int, state: str
) -> None:
    open_gate(tmp_path, 1_000)
    attached = client.start("run", *options, str(PROGRAM), str(tmp_path), "9000")
    job_id = submitted_id(attached)
    client.wait_for_state(job_id, "RUNNING")
    attached.send_signal(number)
    _, err = attached.communicate(timeout=240)
    assert attached.returncode == 130, err
    client.wait_for_state(job_id, state)
    cancelling = f"Cancelling job {job_id}.\nCancelled job {job_id}.\n"
    if state == "RUNNING":
        assert f"Job {job_id} goes on." in err
        assert client.run("cancel", job_id) == cancelling
        assert f"{job_id} : numbers (CANCELED)" in client.run("list", "-a")
    else:
        assert err.endswith(cancelling)


def test_the_leader_is_found_by_its_lease(tmp_path: Path) -> None:
    """No address is given: the lease names the leader, and after its death the next one."""
    first = Member(tmp_path / "a")
    second = None
    found = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "ha"),
        "penstock.rest.token-file": str(tmp_path / "token"),
    }
    options = [option for key, value in found.items() for option in ("-D", f"{key}={value}")]
    command = [PENSTOCK, "list", "--quiet", "-a", *options]

    def listed() -> str:
        done = subprocess.run(
            command, env=first.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    try:
        wait_for(first.leads, first.said)
        job_id = start_job(first, tmp_path / "job").job_id
        assert listed() == job_id
        second = Member(tmp_path / "b")
        wait_for(second.is_standby, second.said)
        first.kill()
        assert listed() == job_id, "waits for the successor"
    finally:
        for member in (first, second):
            if member is not None:
                member.kill_all()


def test_failures_are_told(client: Client, tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text(
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 0]).map(lambda x: 1 / x).print()\n"
        "env.execute('failing')\n"
    )
    said = client.run("run", "-Drestart-strategy.type=none", str(failing), code=1)
    assert "ZeroDivisionError: division by zero" in said
    assert 'failing.py", line 3' in said
    assert "CliFrontend" not in said
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no input')\n")
    assert "no input" in client.run("run", str(broken), code=1)
    stranger = {**client.environment, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    client.environment = stranger
    said = client.run("run", "-d", str(failing), code=1)
    assert "token" in said, "who cannot read the manager's token may not run code"
    os.kill(client.manager.process.pid, signal.SIGTERM)
    client.manager.process.wait(240)
    assert "No job manager answers" in client.run("list", code=4)
