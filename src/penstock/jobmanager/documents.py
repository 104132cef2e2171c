"""A job's documents: their names, and what the job manager completes in them.

The answer to `GET /jobs/<id>/checkpoints` is the document `checkpoints`, and so on. The driver
writes what it knows of its own attempt (`job.documents`). The job manager knows more about the job
as a whole: when it was submitted, that its process died, how it has ended.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobStatus
from penstock.jobmanager.dispatching import JobSummary
from penstock.jobmanager.job_records import counted

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import JobRecord, StatusRecord


JOB: Final = "job"
PLAN: Final = "plan"
CONFIG: Final = "config"
EFFECTIVE_CONFIG: Final = "effective-config"
EXCEPTIONS: Final = "exceptions"
METRICS: Final = "metrics"
ACCUMULATORS: Final = "accumulators"
EXECUTION_RESULT: Final = "execution-result"
CHECKPOINTS: Final = "checkpoints"
CHECKPOINT_CONFIG: Final = "checkpoint-config"

VERTEX: Final = "vertices/{vertex}"
"""Subtasks of one vertex, with records, watermark, state size and busy share."""

CHECKPOINT: Final = "checkpoints/{checkpoint}"
"""Details of one checkpoint, its tasks and their subtasks."""


def summary_of(record: JobRecord, said: StatusRecord | None, status: JobStatus) -> JobSummary:
    """Returns a job as lists show it.

    Args:
        record: What is known of it.
        said: What its driver has said last.
        status: Where it stands.
    """
    return JobSummary(
        record.job_id,
        record.name,
        status,
        record.submitted_ms,
        record.ended_ms,
        record.changed_ms,
        {} if said is None else said.tasks,
        counted(record, said).restarts,
        None if said is None else said.last_checkpoint_ms,
    )


def job_document(
    written: bytes | None, summary: JobSummary, timestamps: dict[str, int], now_ms: int
) -> bytes:
    """Returns the document `job`.

    Args:
        written: What the driver has written; None before its first word.
        summary: The job as this job manager sees it.
        timestamps: Wall time at which each state was last entered, by name.
        now_ms: Wall time.
    """
    document: dict[str, Any] = _empty(summary) if written is None else json.loads(written)
    said = document.get("state")
    entered = {**document.get("timestamps", {})}
    for name, at_ms in timestamps.items():
        entered[name] = max(at_ms, entered.get(name, 0))
    ended_ms = summary.ended_ms
    document |= {
        "state": summary.status.name,
        "start-time": summary.started_ms,
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": (now_ms if ended_ms is None else ended_ms) - summary.started_ms,
        "now": now_ms,
        "timestamps": {status.name: entered.get(status.name, 0) for status in JobStatus},
        "restarts": summary.restarts,
    }
    if ended_ms is not None and said != summary.status.name:
        _end_vertices(document, summary.status.name, ended_ms)
    return json.dumps(document).encode()


def exceptions_document(written: bytes | None, record: JobRecord) -> bytes | None:
    """Returns the document `exceptions`, with the failure that the driver could not write."""
    if record.error is None:
        return written if written is not None else json.dumps(_no_exceptions()).encode()
    document: dict[str, Any] = _no_exceptions() if written is None else json.loads(written)
    entries = document["exceptionHistory"]["entries"]
    if not entries or entries[0]["stacktrace"] != record.error:
        entry = {
            "exceptionName": record.error_type or "JobExecutionError",
            "stacktrace": record.error,
            "timestamp": record.ended_ms or record.changed_ms,
            "taskName": None,
            "endpoint": None,
            "taskManagerId": None,
            "failureLabels": {},
            "concurrentExceptions": [],
            "attempt": record.attempt,
            "restored-checkpoint": None,
        }
        document["exceptionHistory"]["entries"] = [entry, *entries]
        document["root-exception"] = record.error
        document["timestamp"] = entry["timestamp"]
    return json.dumps(document).encode()


def result_document(written: bytes | None, record: JobRecord) -> bytes | None:
    """Returns the document `execution-result`; a finished job may be that of a failed program."""
    if written is None or record.error is None or record.status != JobStatus.FINISHED.name:
        return written
    document: dict[str, Any] = json.loads(written)
    document.get("job-execution-result", {})["program-failure"] = record.error
    return json.dumps(document).encode()


def _no_exceptions() -> dict[str, Any]:
    return {
        "exceptionHistory": {"entries": [], "truncated": False},
        "root-exception": None,
        "timestamp": None,
        "all-exceptions": [],
        "truncated": False,
    }


def _empty(summary: JobSummary) -> dict[str, Any]:
    """Returns the document of a job whose program has not called `execute()` yet."""
    return {
        "jid": summary.job_id,
        "name": summary.name,
        "isStoppable": False,
        "job-type": "STREAMING",
        "maxParallelism": -1,
        "vertices": [],
        "status-counts": {},
        "plan": {"jid": summary.job_id, "name": summary.name, "type": "STREAMING", "nodes": []},
        "stream-graph": {},
        "pending-operators": 0,
        "schedulerType": "Default",
        "tasks": {"total": 0},
        "last-checkpoint-timestamp": -1,
    }


def _end_vertices(document: dict[str, Any], status: str, ended_ms: int) -> None:
    """The process died before it could say that its subtasks have ended."""
    for vertex in document.get("vertices", []):
        vertex["status"] = status
        vertex["end-time"] = ended_ms
        if vertex.get("start-time", -1) >= 0:
            vertex["duration"] = ended_ms - vertex["start-time"]
