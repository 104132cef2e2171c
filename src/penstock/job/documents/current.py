"""Documents as of now: what a driver wrote, with what the job manager knows better.

A driver that was killed writes nothing any more. Where its job stands says the manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobStatus
from penstock.core.redaction import without_secrets
from penstock.job.facts import TASK_STATES

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import JobSummary

_OVERVIEW_STATES: Final = tuple(state.lower() for state in TASK_STATES)
_ENDED_AS: Final = {
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
    JobStatus.SUSPENDED: "CANCELED",
    JobStatus.RESTARTING: "SCHEDULED",
}
_TASK_ENDS: Final = ("FINISHED", "FAILED", "CANCELED")


def overview_row(summary: JobSummary, now_ms: int) -> dict[str, Any]:
    """Returns a job as `/jobs/overview` shows it."""
    ended_ms = summary.ended_ms
    tasks = dict.fromkeys(("total", *_OVERVIEW_STATES), 0) | {
        state.lower(): count for state, count in summary.tasks.items()
    }
    if "total" not in {state.lower() for state in summary.tasks}:
        tasks["total"] = sum(tasks.values())
    return {
        "jid": summary.job_id,
        "name": without_secrets(summary.name),
        "start-time": summary.started_ms,
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": (now_ms if ended_ms is None else ended_ms) - summary.started_ms,
        "state": summary.status.name,
        "last-modification": summary.changed_ms or summary.started_ms,
        "schedulerType": "Default",
        "job-type": "STREAMING",
        "pending-operators": 0,
        "tasks": tasks,
        # Ours.
        "restarts": summary.restarts,
        "last-checkpoint-timestamp": (
            -1 if summary.last_checkpoint_ms is None else summary.last_checkpoint_ms
        ),
    }


def stub_job(summary: JobSummary, now_ms: int) -> dict[str, Any]:
    """Returns the document of a job whose graph is not known yet, or never was."""
    row = overview_row(summary, now_ms)
    timestamps = {status.name: 0 for status in JobStatus}
    timestamps["INITIALIZING"] = summary.started_ms
    timestamps[summary.status.name] = summary.changed_ms or summary.started_ms
    return {
        "jid": summary.job_id,
        "name": without_secrets(summary.name),
        "isStoppable": False,
        "state": summary.status.name,
        "job-type": "STREAMING",
        "start-time": row["start-time"],
        "end-time": row["end-time"],
        "duration": row["duration"],
        "maxParallelism": -1,
        "now": now_ms,
        "timestamps": timestamps,
        "vertices": [],
        "status-counts": dict.fromkeys(TASK_STATES, 0),
        "plan": {
            "jid": summary.job_id,
            "name": without_secrets(summary.name),
            "type": "STREAMING",
            "nodes": [],
        },
        "stream-graph": {},
        "pending-operators": 0,
        "schedulerType": "Default",
        "attempt": summary.restarts,
        "restarts": summary.restarts,
        "last-checkpoint-timestamp": row["last-checkpoint-timestamp"],
        "epoch": 0,
        "backlog": False,
        "tasks": row["tasks"],
        "engine": {"name": "", "executors": 0, "cores": 0},
    }


def current_job(document: dict[str, Any], summary: JobSummary, now_ms: int) -> dict[str, Any]:
    """Returns a driver's document as of now."""
    ended_ms = summary.ended_ms
    state = summary.status.name
    until_ms = now_ms if ended_ms is None else ended_ms
    current = document | {
        "now": now_ms,
        "state": state,
        "start-time": summary.started_ms,
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": until_ms - summary.started_ms,
        "restarts": max(summary.restarts, document.get("restarts", 0)),
    }
    forced = None if document["state"] == state else _ENDED_AS.get(summary.status)
    current["vertices"] = [
        _vertex(vertex, forced, ended_ms, until_ms) for vertex in document["vertices"]
    ]
    if forced is not None:
        current["timestamps"] = document["timestamps"] | {state: summary.changed_ms or until_ms}
        states = [vertex["status"] for vertex in current["vertices"]]
        current["status-counts"] = {each: states.count(each) for each in TASK_STATES}
    return current


def _vertex(
    vertex: dict[str, Any], forced: str | None, ended_ms: int | None, until_ms: int
) -> dict[str, Any]:
    started = vertex["start-time"]
    current = vertex | {
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": -1 if started < 0 else max(until_ms - started, 0),
    }
    if forced is not None and vertex["status"] not in _TASK_ENDS:
        count = sum(vertex["tasks"].values())
        current["status"] = forced
        current["tasks"] = dict.fromkeys(TASK_STATES, 0) | {forced: count}
    return current
