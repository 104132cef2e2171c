"""Restarts and failures of a job, over all of its processes and job managers.

A driver counts within its process, and begins with what its job manager remembers. When the process
has died, what it said last is added to the job's record, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import JobRecord, StatusRecord
    from penstock.jobmanager.restart_strategies import FailureMemory


def counted(record: JobRecord, status: StatusRecord | None) -> JobRecord:
    """Returns the record with what the present process has counted.

    Args:
        record: Of the job.
        status: What a process has said last; one of an earlier attempt says nothing new.
    """
    done = record.counted_attempt == record.attempt
    if status is None or done or status.attempt != record.attempt:
        return record
    return msgspec.structs.replace(
        record,
        restarts=record.restarts + status.restarts,
        failures=record.failures if status.failures is None else status.failures,
        counted_attempt=record.attempt,
    )


def restarted(record: JobRecord, status: StatusRecord | None, failures: FailureMemory) -> JobRecord:
    """Returns the record after a death of the process that a restart follows.

    Args:
        record: Of the job.
        status: What the process has said last.
        failures: What the restart strategy remembers now, in wall time.
    """
    return msgspec.structs.replace(
        record,
        restarts=counted(record, status).restarts + 1,
        failures=failures,
        counted_attempt=record.attempt,
    )
