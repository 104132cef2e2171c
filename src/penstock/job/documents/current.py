"""Documents as of now: what a driver wrote, completed from the record of its job.

A driver that was killed writes nothing any more, and one that has not begun has written nothing
yet. The record says what the job manager knows: where the job stands, and how it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobStatus, application_status
from penstock.core.redaction import without_secrets
from penstock.job.record import TASK_STATES

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import JobRecord

_ENDED_AS: Final = {
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
    JobStatus.SUSPENDED: "CANCELED",
    JobStatus.RESTARTING: "SCHEDULED",
}
_TASK_ENDS: Final = ("FINISHED", "FAILED", "CANCELED")


def overview_row(record: JobRecord, now_ms: int) -> dict[str, Any]:
    """Returns a job as `/jobs/overview` shows it."""
    tasks = dict.fromkeys(("total", *(state.lower() for state in TASK_STATES)), 0) | record.tasks
    if "total" not in record.tasks:
        tasks["total"] = sum(tasks.values())
    return {
        "jid": record.job_id,
        "name": without_secrets(record.name),
        "start-time": record.submitted_ms,
        "end-time": -1 if record.ended_ms is None else record.ended_ms,
        "duration": until(record, now_ms) - record.submitted_ms,
        "state": record.status.name,
        "last-modification": record.changed_ms or record.submitted_ms,
        "schedulerType": "Default",
        "job-type": "STREAMING",
        "pending-operators": 0,
        "tasks": tasks,
        # Ours.
        "restarts": record.restarts,
        "last-checkpoint-timestamp": (
            -1 if record.last_checkpoint_ms is None else record.last_checkpoint_ms
        ),
    }


def until(record: JobRecord, now_ms: int) -> int:
    """Returns when a job ended, or now."""
    return now_ms if record.ended_ms is None else record.ended_ms


def job_head(record: JobRecord, now_ms: int) -> dict[str, Any]:
    """Returns the part of a job's document that the record knows."""
    head = overview_row(record, now_ms)
    del head["last-modification"]
    entered = record.timestamps | {
        record.status: record.timestamps.get(record.status)
        or record.changed_ms
        or record.submitted_ms
    }
    return head | {
        "isStoppable": False,
        "now": now_ms,
        "timestamps": {status.name: entered.get(status, 0) for status in JobStatus},
        "stream-graph": {},
        "attempt": record.restarts,
    }


def current_job(written: dict[str, Any] | None, record: JobRecord, now_ms: int) -> dict[str, Any]:
    """Returns the document of a job.

    Args:
        written: By its driver; None while its graph is not known.
        record: The job.
        now_ms: Wall time.
    """
    head = job_head(record, now_ms)
    if written is None:
        return head | {
            "maxParallelism": -1,
            "vertices": [],
            "status-counts": dict.fromkeys(TASK_STATES, 0),
            "plan": {"jid": record.job_id, "name": head["name"], "type": "STREAMING", "nodes": []},
            "epoch": 0,
            "backlog": False,
            "engine": {"name": "", "executors": 0, "cores": 0},
        }
    is_dead = written["state"] != head["state"]
    forced = _ENDED_AS.get(record.status) if is_dead else None
    vertices = [_vertex(vertex, forced, record, now_ms) for vertex in written["vertices"]]
    states = [vertex["status"] for vertex in vertices]
    entered, said = head["timestamps"], written["timestamps"]
    return (
        written
        | head
        | {
            "tasks": written["tasks"],
            "last-checkpoint-timestamp": written["last-checkpoint-timestamp"],
            "restarts": max(record.restarts, written["restarts"]),
            "timestamps": {name: max(at, said.get(name, 0)) for name, at in entered.items()},
            "vertices": vertices,
            "status-counts": {state: states.count(state) for state in TASK_STATES},
        }
    )


def _vertex(
    vertex: dict[str, Any], forced: str | None, record: JobRecord, now_ms: int
) -> dict[str, Any]:
    started = vertex["start-time"]
    current = vertex | {
        "end-time": -1 if record.ended_ms is None else record.ended_ms,
        "duration": -1 if started < 0 else max(until(record, now_ms) - started, 0),
    }
    if forced is not None and vertex["status"] not in _TASK_ENDS:
        count = sum(vertex["tasks"].values())
        current["status"] = forced
        current["tasks"] = dict.fromkeys(TASK_STATES, 0) | {forced: count}
    return current


def failure_history(entries: Sequence[dict[str, Any]], *, truncated: bool) -> dict[str, Any]:
    """Returns the document of failures, in today's and in the older shape.

    Args:
        entries: The failures, newest first.
        truncated: Whether older ones were forgotten.
    """
    newest = entries[0] if entries else None
    return {
        "exceptionHistory": {"entries": list(entries), "truncated": truncated},
        # The older shape, which scripts still read.
        "root-exception": None if newest is None else newest["stacktrace"],
        "timestamp": None if newest is None else newest["timestamp"],
        "all-exceptions": [],
        "truncated": truncated,
    }


def failure_entry(
    name: str, text: str, time_ms: int, place: tuple[str, str, str] | None = None, **ours: Any
) -> dict[str, Any]:
    """Returns a failure as the history shows it.

    Args:
        name: Class of the exception.
        text: What people read.
        time_ms: Wall time.
        place: Task, host and engine, if one task failed.
        ours: What only Penstock shows.
    """
    task, host, engine = place or (None, None, None)
    return {
        "exceptionName": name,
        "stacktrace": text,
        "timestamp": time_ms,
        "taskName": task,
        "endpoint": host,
        "taskManagerId": engine,
        "failureLabels": {},
        "concurrentExceptions": [],
        **ours,
    }


def current_exceptions(written: dict[str, Any] | None, record: JobRecord) -> dict[str, Any]:
    """Returns the document of failures, with the one that the driver could not write."""
    nothing: dict[str, Any] = {"entries": [], "truncated": False}
    history = nothing if written is None else written["exceptionHistory"]
    entries = history["entries"]
    if record.error is not None and not (entries and entries[0]["stacktrace"] == record.error):
        last = failure_entry(
            record.error_type or "JobExecutionError",
            record.error,
            record.ended_ms or record.changed_ms,
            attempt=record.attempt,
            **{"restored-checkpoint": None},
        )
        entries = [last, *entries]
    return failure_history(entries, truncated=history["truncated"])


def execution_result(
    record: JobRecord, failure: tuple[str, str] | None, runtime_ms: int | None = None
) -> dict[str, Any]:
    """Returns the result of a job that has ended, or that it has not.

    Args:
        record: The job.
        failure: Class and text of its last failure.
        runtime_ms: How long it ran; None for the time from its submission to its end.
    """
    if not record.status.is_globally_terminal_state():
        return {"status": {"id": "IN_PROGRESS"}}
    if runtime_ms is None:
        runtime_ms = (record.ended_ms or record.submitted_ms) - record.submitted_ms
    outcome: dict[str, Any] = {
        "id": record.job_id,
        "application-status": application_status(record.status),
        "accumulator-results": {},
        "net-runtime": runtime_ms,
    }
    if record.status is JobStatus.FAILED and failure is not None:
        outcome["failure-cause"] = {"class": failure[0], "stack-trace": failure[1]}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": outcome}


def current_result(
    written: dict[str, Any] | None, record: JobRecord, exceptions: dict[str, Any]
) -> dict[str, Any]:
    """Returns the result of a job, also if its driver died before it could say so.

    Args:
        written: By its driver.
        record: The job.
        exceptions: Its document of failures.
    """
    if not record.status.is_globally_terminal_state():
        return execution_result(record, None)
    if written is None or written["status"]["id"] != "COMPLETED":
        entries = exceptions["exceptionHistory"]["entries"]
        last = entries[0] if entries else None
        failure = None if last is None else (last["exceptionName"], last["stacktrace"])
        written = execution_result(record, failure)
    if record.status is JobStatus.FINISHED and record.error is not None:
        # The job has finished, and its program failed after that.
        written["job-execution-result"]["program-failure"] = record.error
    return written
