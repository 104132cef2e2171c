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

import msgspec

from penstock.jobmanager.restart_strategies import FailureMemory


class SubmissionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was submitted, except the package itself.

    Attributes:
        program: File name of the program inside the package, or None with `module`.
        module: Module to run.
        arguments: Arguments of the program.
        configuration: Settings of the command line, by key.
        package_sha256: Checksum of the package.
    """

    program: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    configuration: dict[str, str] = {}
    package_sha256: str


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A driver process.

    Attributes:
        pid: Its number; 0 while it is being started.
        start_time: When the system says that it began, so that a reused number is noticed.
        attempt: From 1; a later attempt overrules an earlier one.
        leader_epoch: Epoch of the attempt's writes: rises with each attempt and each leader.
        previous_death: How the process before it died, for the history of failures.
        restarts: How often the job was restarted before.
        failures: What the restart strategy is to know of failures before, in wall time.
    """

    pid: int = 0
    start_time: str = ""
    attempt: int
    leader_epoch: int
    previous_death: str | None = None
    restarts: int = 0
    failures: FailureMemory = FailureMemory()


class StatusRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an attempt stands, as its driver says.

    Attributes:
        attempt: Which attempt.
        status: Name of a `JobStatus`.
        entered_ms: Wall time since which it is so.
        name: Name of the job.
        restarts: Restarts within the process.
        failures: What the restart strategy remembers, in wall time; None for nothing new.
        tasks: Number of subtasks by state name in lower case.
        last_checkpoint_ms: Wall time of the latest completed checkpoint.
        restart_settings: The program's settings of the restart strategy, by key.
        is_checkpointing: Whether checkpoints are taken.
        cancellation_timeout_ms: How long a cancellation may take.
    """

    attempt: int
    status: str
    entered_ms: int = 0
    name: str = ""
    restarts: int = 0
    failures: FailureMemory | None = None
    tasks: dict[str, int] = {}
    last_checkpoint_ms: int | None = None
    restart_settings: dict[str, str] = {}
    is_checkpointing: bool = False
    cancellation_timeout_ms: int | None = None


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt ended.

    Attributes:
        attempt: Which attempt.
        status: FINISHED, CANCELED, FAILED, or SUSPENDED when another leader has taken over.
        ended_ms: Wall time.
        error: What people read; the user's frames first.
        error_type: Name of the exception.
    """

    attempt: int
    status: str
    ended_ms: int
    error: str | None = None
    error_type: str | None = None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the job manager must know about a job after a restart of its own.

    Attributes:
        job_id: 32 hex digits.
        name: For people.
        submitted_ms: Wall time of the submission.
        status: Name of a `JobStatus`.
        changed_ms: Wall time of the last change of status.
        timestamps: Wall time at which each state was last entered, by name.
        attempt: Number of the last attempt that was started.
        restarts: How often the job was restarted, up to the end of `counted_attempt`.
        failures: What the restart strategy remembers of that time, in wall time.
        counted_attempt: The last attempt that these two contain.
        cancel_requested_ms: Wall time at which somebody asked for the end; never taken back.
        ended_ms: Wall time of the end.
        leftover: Above 0 while what its dead processes left is to be removed: which try is next.
        error: Why it failed.
        error_type: Name of the exception.
    """

    job_id: str
    name: str = ""
    submitted_ms: int
    status: str = "INITIALIZING"
    changed_ms: int = 0
    timestamps: dict[str, int] = {}
    attempt: int = 0
    restarts: int = 0
    failures: FailureMemory = FailureMemory()
    counted_attempt: int = 0
    cancel_requested_ms: int | None = None
    ended_ms: int | None = None
    leftover: int = 0
    error: str | None = None
    error_type: str | None = None


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command; the attributes are those of `dispatching.Command`.

    Attributes:
        attempt: The attempt that was asked; a later one does not obey, except to a cancellation.
    """

    attempt: int
    kind: str
    directory: str | None = None
    drain: bool = False
    native: bool = False
    full: bool = False
    cancel_job: bool = False


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a command.

    Attributes:
        status: COMPLETED or FAILED; there is no record while it goes on.
        location: Place of a savepoint.
        checkpoint_id: Number of a checkpoint.
        error: What went wrong.
    """

    status: str
    location: str | None = None
    checkpoint_id: int | None = None
    error: str | None = None
