"""Jobs and snapshots as users name them.

A job is 32 hex digits, or the first six or more. A snapshot is a path, or `<job id>` and
`<job id>:chk-N` through the service.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.cli.failures import RequestFailedError, WrongUsageError
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient


T = TypeVar("T")

_MOST_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.1
_OF_JOB: Final = re.compile(r"(?P<job>[0-9a-fA-F]{6,32})(?::(?:chk-)?(?P<number>\d{1,18}))?")


def snapshot_path(text: str, client: Callable[[], RestClient]) -> str:
    """Returns the path of a snapshot; asks the job manager only when a job's is meant."""
    found = _OF_JOB.fullmatch(text)
    if found is None or Path(text).exists():
        return absolute(text) or text
    opened = client()
    job_id = resolve_job_id(opened, found["job"])
    checkpoints = opened.get(f"/jobs/{job_id}/checkpoints")
    if found["number"] is None:
        return _latest(job_id, checkpoints)
    number = int(found["number"])
    for record in checkpoints["history"]:
        if record["id"] == number:
            return _path_of(record, job_id)
    known = ", ".join(str(record["id"]) for record in checkpoints["history"]) or "none"
    raise RequestFailedError(
        f"Job {job_id} has no checkpoint {number} in its history, which holds: {known}."
    )


def read_snapshot(
    text: str, client: Callable[[], RestClient], read: Callable[[str], T], *, tries: int = 5
) -> T:
    """Reads a snapshot; the latest one of a job is looked up again when the job has replaced it."""
    path = snapshot_path(text, client)
    for _ in range(tries):
        try:
            return read(path)
        except PenstockError:
            successor = None
            if _OF_JOB.fullmatch(text) and may_be_gone(path):
                successor = _successor(text, client, path)
            if successor is None:
                raise
            path = successor
    raise RequestFailedError(
        f"The checkpoints of job {text} are replaced faster than they can be read. Take a "
        f"savepoint with `penstock savepoint {text}`, or retain more checkpoints: "
        "execution.checkpointing.num-retained."
    )


def may_be_gone(path: str) -> bool:
    """Whether a job may have deleted a snapshot; on other machines' storage that is not asked."""
    is_remote = "://" in path and not path.startswith("file://")
    return is_remote or not Path(path.removeprefix("file://"), "_metadata").exists()


def _successor(text: str, client: Callable[[], RestClient], path: str) -> str | None:
    """Waits for the snapshot that has replaced another one; the job says so a moment later."""
    opened = client()
    for _ in range(_MOST_LOOKS):
        found = snapshot_path(text, lambda: opened)
        if found != path:
            return found
        opened.sleep(_LOOK_SECONDS)
    return None


def _latest(job_id: str, checkpoints: dict[str, Any]) -> str:
    records = [record for record in checkpoints["history"] if _is_there(record)]
    latest = checkpoints["latest"].get("completed")
    if latest is not None and _is_there(latest):
        records.append(latest)
    if not records:
        raise RequestFailedError(
            f"Job {job_id} has no checkpoint that is still there. While it runs, "
            f"`penstock savepoint {job_id}` takes a snapshot that stays."
        )
    return str(max(records, key=lambda record: record["id"])["external_path"])


def _path_of(record: dict[str, Any], job_id: str) -> str:
    if not _is_there(record):
        gone = "was deleted by its job" if record.get("discarded") else f"is {record['status']}"
        raise RequestFailedError(f"Checkpoint {record['id']} of job {job_id} {gone}.")
    return str(record["external_path"])


def _is_there(record: dict[str, Any]) -> bool:
    return bool(record.get("external_path")) and not record.get("discarded")


_DIGITS: Final = 32
_FEWEST: Final = 6


def checked_job_id(text: str) -> str:
    """Returns an id or the beginning of one, in lower case.

    Raises:
        WrongUsageError: It is neither.
    """
    if re.fullmatch(rf"[0-9a-fA-F]{{{_FEWEST},{_DIGITS}}}", text):
        return text.lower()
    raise WrongUsageError(
        f'Cannot parse JobID from "{text}". The expected format is [0-9a-fA-F]{{32}}, e.g. '
        f"fd72014d4c864993a2e5a9287b4a9c5d, or its first {_FEWEST} or more digits."
    )


def resolve_job_id(client: RestClient, text: str) -> str:
    """Returns the whole id; asks the job manager only for the beginning of one."""
    given = checked_job_id(text)
    if len(given) == _DIGITS:
        return given
    jobs = client.get("/jobs/overview")["jobs"]
    found = sorted(job["jid"] for job in jobs if job["jid"].startswith(given))
    if not found:
        raise RequestFailedError(
            f"No job's id begins with {given}. See `penstock list -a` for the jobs that there are."
        )
    if len(found) > 1:
        raise RequestFailedError(
            f"{len(found)} jobs' ids begin with {given}: {', '.join(found)}. Give more digits."
        )
    return str(found[0])


def absolute(path: str | None) -> str | None:
    """Returns a path that means the same to the job manager, whose directory is another one."""
    if path is not None and not path.strip():
        raise WrongUsageError("A path is empty. Is it a variable that is not set?")
    if path is None or "://" in path or path.startswith("file:"):
        return path
    return os.path.normpath(Path.cwd() / Path(path).expanduser())
