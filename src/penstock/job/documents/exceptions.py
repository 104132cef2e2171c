"""`/jobs/:jobid/exceptions`: why the job failed, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.job.facts import FailureRecord, JobFacts


def exceptions_view(facts: JobFacts) -> dict[str, Any]:
    """Returns the history of failures, in today's and in the older shape."""
    latest = facts.failures[0] if facts.failures else None
    return {
        "exceptionHistory": {
            "entries": [_entry(facts, failure) for failure in facts.failures],
            "truncated": facts.failures_dropped,
        },
        # The older shape, which scripts still read.
        "root-exception": None if latest is None else latest.text,
        "timestamp": None if latest is None else latest.time_ms,
        "all-exceptions": [],
        "truncated": facts.failures_dropped,
    }


def _entry(facts: JobFacts, failure: FailureRecord) -> dict[str, Any]:
    task = failure.task
    if task is not None and failure.subtask is not None:
        stage = next((each for each in facts.graph.stages if each.name == task), None)
        of = f"/{stage.parallelism}" if stage is not None else ""
        task = f"{task} ({failure.subtask + 1}{of})"
    return {
        "exceptionName": failure.name,
        "stacktrace": failure.text,
        "timestamp": failure.time_ms,
        "taskName": task,
        "endpoint": facts.engine.host if task is not None else None,
        "taskManagerId": facts.engine.name if task is not None else None,
        "failureLabels": {},
        "concurrentExceptions": [],
        # Ours.
        "attempt": failure.attempt,
        "restored-checkpoint": failure.restored_id,
    }
