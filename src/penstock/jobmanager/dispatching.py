"""What the service can do, as REST, the web page and the tests see it: one protocol, plain records.

The dispatcher owns jobs; each job runs in a driver process of its own. Long operations are
*triggered* and then asked about by their trigger id, which the caller may choose: the same id twice
is the same operation. Documents are JSON; a driver writes them while its job runs, and they stay
when it has ended. REST completes them from the record of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import JobRecord, Submission


class UnknownJobError(PenstockError):
    """There is no such job."""


class RefusedError(PenstockError):
    """What was asked cannot be done now; the text says why and what to do."""


class NotLeaderError(PenstockError):
    """Another job manager leads, or none does."""

    def __init__(self, message: str, leader_url: str | None = None) -> None:
        super().__init__(message)
        self.leader_url = leader_url


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
class Leadership:
    """Who leads."""

    is_leader: bool  # Whether this process does.
    epoch: int  # Its leader epoch; 0 without high availability.
    # Where the leader's REST interface is; None when there is none or it is unknown.
    leader_url: str | None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A part of what a program printed."""

    # Whole lines, as long as the job has not ended and they are not longer than was asked.
    data: bytes
    cursor: str  # Where the next part begins.


class Dispatcher(Protocol):
    """Runs jobs. Every method may be called from any thread; none blocks for long."""

    def leadership(self) -> Leadership:
        """Says who leads. All other methods raise `NotLeaderError` on a standby."""

    def jobs(self) -> list[JobRecord]:
        """Returns all jobs that are remembered, newest first."""

    def job(self, job_id: str) -> JobRecord:
        """Returns a job. Raises `UnknownJobError`."""

    def document(self, job_id: str, name: str) -> bytes | None:
        """Returns a JSON document as the driver has written it last; names: `job.documents`.

        None while there is no such document. Raises `UnknownJobError`.
        """

    def submit(self, submission: Submission, package: bytes) -> str:
        """Stores a job and starts it; returns its id. Raises `RefusedError`."""

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        """Hands a command to a running job; returns the trigger id."""

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        """Returns the operation of a command; None if it is unknown."""

    def dispose_savepoint(self, path: str, trigger_id: str | None = None) -> str:
        """Deletes a savepoint: only the files that its valid `_metadata` names."""

    def disposal(self, trigger_id: str) -> Operation | None:
        """Returns the operation of a disposal; None if it is unknown."""

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        """Returns the end of a job's log, or of the job manager's own."""

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        """Returns what a job's program printed on its standard output, from a cursor on."""

    def events(self, job_id: str) -> Iterator[str]:
        """Yields the name of a document each time it has changed; ends with the job."""
