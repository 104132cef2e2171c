"""Facts about a submitted job, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.core.errors import ProgramError


class JobID:
    """Names a job: 32 hex digits."""

    __slots__ = ("_hex",)

    def __init__(self, hex_digits: str) -> None:
        self._hex = str(hex_digits)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and other._hex == self._hex

    def __hash__(self) -> int:
        return hash(self._hex)


class JobStatus(Enum):
    """Where a job stands; the numbers are PyFlink's, `INITIALIZING` is Flink's first state."""

    INITIALIZING = -1
    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Whether the job has ended for good, on every job manager."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether this job manager is done with the job; another one may go on with it."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


def application_status(status: JobStatus) -> str:
    """Returns Flink's word for how a job has ended."""
    return {JobStatus.FINISHED: "SUCCEEDED", JobStatus.CANCELED: "CANCELED"}.get(status, "FAILED")


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """What a finished job leaves behind.

    Attributes:
        job_id: The job.
        net_runtime_ms: Time from start to end.
        late_records: Records dropped as late since the last restart, by name of the operator.
    """

    job_id: JobID
    net_runtime_ms: int = 0
    late_records: dict[str, int] = field(default_factory=dict)

    def get_job_id(self) -> JobID:
        return self.job_id

    def is_job_execution_result(self) -> bool:
        """Returns True; a job that was only submitted has no result yet."""
        return True

    def get_net_runtime(self) -> int:
        """Returns the run time in milliseconds."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Fails: programs in Python have no accumulators, as in PyFlink."""
        raise ProgramError(
            f"the job has no accumulator '{accumulator_name}'; its accumulators are: none."
        )

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return {}

    def __str__(self) -> str:
        return (
            "Program execution finished\n"
            f"Job with JobID {self.job_id} has finished.\n"
            f"Job Runtime: {self.net_runtime_ms} ms"
            + "".join(
                f"\n'{name}' dropped {count:,} records as late"
                for name, count in self.late_records.items()
            )
        )


@dataclass(frozen=True, slots=True)
class WantedSnapshot:
    """A snapshot is wanted.

    Attributes:
        stop: Run no further epoch after it.
        drain: End event time first: read nothing more and fire everything.
    """

    stop: bool = False
    drain: bool = False
