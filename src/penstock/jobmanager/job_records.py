"""Records in a job's directory: what job manager and driver process tell each other, as JSON.

job.json         manager    the job so far
submission.json  manager    program, arguments, settings, checksum of the package
process.json     manager    the attempt that counts
status.json      driver     the job in this attempt
end.json         driver     the job at the end of its attempt
settings.json    driver     its settings, the program's included
commands/<id>    manager    a `Command`
results/<id>     driver     the `Operation` that it has become

One record, `JobRecord`, says what is known of a job: in three of these files, in lists of jobs, and
where job managers share jobs. Documents are made from it (`job.documents`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.jobmanager.restart_strategies import FailureMemory


class RefusedError(PenstockError):
    """What was asked cannot be done now; the text says why and what to do."""


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job to be run, except its package: a zip file with the program and its Python files."""

    # File name of the program inside the package, or None with `module`.
    program: str | None = None
    module: str | None = None  # Module to run, as `python -m` would.
    arguments: tuple[str, ...] = ()  # Arguments of the program.
    configuration: dict[str, str] = {}  # Settings of the command line, by key.
    package_sha256: str = ""  # Checksum of the package, once it is stored.


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A driver process."""

    pid: int = 0  # Its number; 0 while it is being started.
    start_time: str = ""  # When the system says that it began, so that a reused number is noticed.
    attempt: int  # From 1; a later attempt overrules an earlier one.
    leader_epoch: int  # Epoch of the attempt's writes: rises with each attempt and each leader.
    # How the process before it died, for the history of failures.
    previous_death: str | None = None
    restarts: int = 0  # How often the job was restarted before.
    # What the restart strategy is to know of failures before, in wall time.
    failures: FailureMemory = FailureMemory()


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job in a few facts; times are wall times. A status is written as PyFlink's number."""

    job_id: str  # 32 hex digits.
    name: str = ""  # For people; that of the program until the program has named the job.
    submitted_ms: int = 0  # Time of the submission.
    status: JobStatus = JobStatus.INITIALIZING
    changed_ms: int = 0  # Time of the last change of status.
    timestamps: dict[JobStatus, int] = {}  # When each state was last entered, in that order.
    ended_ms: int | None = None  # Time of the end.
    error: str | None = None  # Why it failed, for people; the user's frames first.
    error_type: str | None = None  # Name of the exception.
    # Number of subtasks by state in lower case; the driver says it, and job.json does not.
    tasks: dict[str, int] = {}
    last_checkpoint_ms: int | None = None  # Of the latest completed checkpoint; as `tasks`.
    attempt: int = 0  # Number of the last process that was started.
    # How often it was restarted: in status.json by this process, in job.json up to the end of
    # `counted_attempt`, in lists altogether.
    restarts: int = 0
    # What the restart strategy remembers of that time.
    failures: FailureMemory = FailureMemory()
    counted_attempt: int = 0  # The last attempt that these two contain.
    cancel_requested_ms: int | None = None  # When a cancellation was requested; never taken back.
    # Above 0 while what its dead processes left is to be removed: which try is next.
    leftover: int = 0


class CommandKind(Enum):
    """What a running job can be asked for."""

    CANCEL = "cancel"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    CHECKPOINT = "checkpoint"
    RESCALE = "rescale"


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something asked of a running job."""

    kind: CommandKind
    directory: str | None = None  # Target of a savepoint; None for the configured one.
    drain: bool = False  # For a stop: end event time first.
    native: bool = False  # Format of a savepoint: native instead of canonical.
    full: bool = False  # For a checkpoint: build on no earlier one.
    parallelism: int = 0  # For a rescale: of all operators that follow the job's.
    vertices: dict[str, int] = {}  # For a rescale, instead: parallelism by vertex id.
    # For a savepoint: cancel the job once it is there (deprecated by Flink).
    cancel_job: bool = False
    # The attempt that was asked; a later one does not obey, except to a cancellation.
    attempt: int = 0


class OperationStatus(Enum):
    """Where a triggered operation stands."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A triggered operation."""

    trigger_id: str  # 32 hex digits.
    status: OperationStatus
    location: str | None = None  # Where the savepoint is.
    checkpoint_id: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A part of what a program printed."""

    # Whole lines, as long as the job has not ended and they are not longer than was asked.
    data: bytes
    cursor: str  # Where the next part begins.


def counted(record: JobRecord, said: JobRecord | None) -> JobRecord:
    """Returns the record with what the present process has counted.

    Args:
        record: Of the job.
        said: What a process has said last; one of an earlier attempt says nothing new.
    """
    done = record.counted_attempt == record.attempt
    if said is None or done or said.attempt != record.attempt:
        return record
    return msgspec.structs.replace(
        record,
        restarts=record.restarts + said.restarts,
        failures=said.failures,
        counted_attempt=record.attempt,
    )


def restarted(record: JobRecord, said: JobRecord | None, failures: FailureMemory) -> JobRecord:
    """Returns the record after a death of the process that a restart follows.

    Args:
        record: Of the job.
        said: What the process has said last.
        failures: What the restart strategy remembers now, in wall time.
    """
    return msgspec.structs.replace(
        record,
        restarts=counted(record, said).restarts + 1,
        failures=failures,
        counted_attempt=record.attempt,
    )


ATTEMPT_BITS: Final = 20


def attempt_epoch(leader_epoch: int, attempt: int) -> int:
    """Returns the epoch in which an attempt writes its checkpoints.

    It rises with every attempt of a leader, and every attempt of a later leader is above it.
    """
    if attempt >= 1 << ATTEMPT_BITS:
        raise PenstockError(f"attempt {attempt} is beyond the {1 << ATTEMPT_BITS} that there are.")
    return (leader_epoch << ATTEMPT_BITS) + attempt
