"""Job managers of one cluster, each a process with a directory of its own."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

from service_kit import PROGRAM, Job, Manager, expected, lines, open_gate

if TYPE_CHECKING:
    from pathlib import Path

END = 6_000
LEASE = "9 s"
"""A leader without two thirds of it steps down; a busy machine takes less from it."""


class Member(Manager):
    """A job manager among others."""

    def __init__(self, directory: Path, **settings: str) -> None:
        shared = directory.parent
        token = shared / "token"
        if not token.exists():
            token.touch(mode=0o600)
            token.write_text("one-for-all-members")
        super().__init__(
            directory,
            **{
                "high-availability.type": "filesystem",
                "high-availability.storageDir": str(shared / "ha"),
                "penstock.high-availability.lease-timeout": LEASE,
                "execution.checkpointing.dir": str(shared / "checkpoints"),
                # What a standby passes on has to be accepted by the leader.
                "penstock.rest.token-file": str(token),
                **settings,
            },
        )
        self.directory = directory / "candidate-0"
        known = self.home / "penstock" / f"rest-{self.url.rpartition(':')[2]}.token"
        known.parent.mkdir(exist_ok=True)
        known.write_text(token.read_text())

    def role(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=10) as reply:
                return str(json.load(reply)["role"])
        except OSError:
            return None

    def leads(self) -> bool:
        return self.role() == "leader"

    def is_standby(self) -> bool:
        return self.role() == "standby"


def start_job(manager: Manager, directory: Path) -> Job:
    """Starts a job that has read a sixth of its input when it has its first checkpoint."""
    directory.mkdir(exist_ok=True)
    open_gate(directory, END // 6)
    job = manager.submit(PROGRAM, directory, END)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    return job


def finish_job(job: Job, directory: Path) -> None:
    """Lets a job read to the end; what it wrote is compared with a calculation by hand."""
    open_gate(directory, END)
    job.wait_for_state("FINISHED")
    assert lines(directory) == expected(END)


def results(shared: Path) -> dict[str, str]:
    """What the job result store says, read as Flink's files are."""
    found = {}
    for path in shared.glob("ha/job-result-store/*/*.json"):
        result: dict[str, Any] = json.loads(path.read_text())["result"]
        found[result["id"]] = str(result["application-status"])
    return found
