"""Records in a job's directory: what job manager and driver process tell each other, as JSON.

job.json         manager    what became of the job so far
submission.json  manager    program, arguments, settings, checksum of the package
process.json     manager    the attempt that counts
status.json      driver     where its attempt stands
end.json         driver     how its attempt ended
commands/<id>    manager    what is asked of the job
results/<id>     driver     what came of it
"""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.core.errors import PenstockError
from penstock.jobmanager.restart_strategies import FailureMemory


class SubmissionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was submitted, except the package itself."""

    # File name of the program inside the package, or None with `module`.
    program: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()  # Arguments of the program.
    configuration: dict[str, str] = {}  # Settings of the command line, by key.
    package_sha256: str  # Checksum of the package.


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


class StatusRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an attempt stands, as its driver says."""

    attempt: int
    status: str  # Name of a `JobStatus`.
    entered_ms: int = 0  # Wall time since which it is so.
    name: str = ""  # Name of the job.
    restarts: int = 0  # Restarts within the process.
    # What the restart strategy remembers, in wall time; None for nothing new.
    failures: FailureMemory | None = None
    tasks: dict[str, int] = {}  # Number of subtasks by state name in lower case.
    last_checkpoint_ms: int | None = None  # Wall time of the latest completed checkpoint.
    restart_settings: dict[str, str] = {}  # The program's settings of the restart strategy, by key.
    is_checkpointing: bool = False  # Whether checkpoints are taken.
    cancellation_timeout_ms: int | None = None  # How long a cancellation may take.


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt ended."""

    attempt: int
    status: str  # FINISHED, CANCELED, FAILED, or SUSPENDED when another leader has taken over.
    ended_ms: int  # Wall time.
    error: str | None = None  # What people read; the user's frames first.
    error_type: str | None = None  # Name of the exception.


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the job manager must know about a job after a restart of its own."""

    job_id: str  # 32 hex digits.
    name: str = ""  # For people.
    submitted_ms: int  # Wall time of the submission.
    status: str = "INITIALIZING"  # Name of a `JobStatus`.
    changed_ms: int = 0  # Wall time of the last change of status.
    timestamps: dict[str, int] = {}  # Wall time at which each state was last entered, by name.
    attempt: int = 0  # Number of the last attempt that was started.
    restarts: int = 0  # How often the job was restarted, up to the end of `counted_attempt`.
    # What the restart strategy remembers of that time, in wall time.
    failures: FailureMemory = FailureMemory()
    counted_attempt: int = 0  # The last attempt that these two contain.
    # Wall time at which somebody asked for the end; never taken back.
    cancel_requested_ms: int | None = None
    ended_ms: int | None = None  # Wall time of the end.
    # Above 0 while what its dead processes left is to be removed: which try is next.
    leftover: int = 0
    error: str | None = None
    error_type: str | None = None  # Name of the exception.


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command; the attributes are those of `dispatching.Command`."""

    attempt: int  # The attempt that was asked; a later one does not obey, except to a cancellation.
    kind: str
    directory: str | None = None
    drain: bool = False
    native: bool = False
    full: bool = False
    cancel_job: bool = False


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a command."""

    status: str  # COMPLETED or FAILED; there is no record while it goes on.
    location: str | None = None  # Place of a savepoint.
    checkpoint_id: int | None = None
    error: str | None = None


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


ATTEMPT_BITS: Final = 20


def attempt_epoch(leader_epoch: int, attempt: int) -> int:
    """Returns the epoch in which an attempt writes its checkpoints.

    It rises with every attempt of a leader, and every attempt of a later leader is above it.
    """
    if attempt >= 1 << ATTEMPT_BITS:
        raise PenstockError(f"attempt {attempt} is beyond the {1 << ATTEMPT_BITS} that there are.")
    return (leader_epoch << ATTEMPT_BITS) + attempt
