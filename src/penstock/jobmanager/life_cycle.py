"""The life of a job: its states, which may follow which, and when each was entered.

    INITIALIZING ─> CREATED ─> RUNNING ─> FINISHED
                       ↑          ├─> FAILING ─> FAILED
                       │          │      └────> RESTARTING ─> CREATED
                       │          ├─> CANCELLING ─> CANCELED
                       └──────────┴─> SUSPENDED ─> (another job manager) RECONCILING

A cancelled job stays cancelled: no state leads from CANCELLING to one in which it runs. Any change
that the table does not list is a bug and crashes.
"""

from __future__ import annotations

from typing import Final

from penstock.core.job import JobStatus

TRANSITIONS: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.INITIALIZING: frozenset(
        {
            JobStatus.CREATED,
            JobStatus.RECONCILING,
            JobStatus.FAILED,
            JobStatus.CANCELLING,
            JobStatus.SUSPENDED,
        }
    ),
    JobStatus.RECONCILING: frozenset(
        {
            JobStatus.CREATED,
            # Its process went on meanwhile, or has brought it to its end.
            JobStatus.RUNNING,
            JobStatus.RESTARTING,
            JobStatus.FINISHED,
            JobStatus.FAILING,
            JobStatus.CANCELLING,
            JobStatus.SUSPENDED,
        }
    ),
    JobStatus.CREATED: frozenset(
        {JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.RUNNING: frozenset(
        {JobStatus.FINISHED, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.FAILING: frozenset(
        {JobStatus.FAILED, JobStatus.RESTARTING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.RESTARTING: frozenset(
        {JobStatus.CREATED, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.CANCELLING: frozenset({JobStatus.CANCELED, JobStatus.SUSPENDED}),
    JobStatus.FINISHED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.SUSPENDED: frozenset(),
}
"""Every legal change."""


class IllegalTransitionError(AssertionError):
    """A bug: the job was to go from one state to another that cannot follow."""


class JobLifeCycle:
    """State of one job on one job manager, with the time of every entry."""

    def __init__(self, now_ms: int, status: JobStatus = JobStatus.INITIALIZING) -> None:
        self.status = status
        self._entered: dict[JobStatus, int] = {status: now_ms}
        self._history: list[tuple[int, JobStatus]] = [(now_ms, status)]

    def may_move(self, status: JobStatus) -> bool:
        """Whether `status` may follow; lets a cancellation that came too late be refused."""
        return status in TRANSITIONS[self.status]

    def move(self, status: JobStatus, now_ms: int) -> None:
        """Enters a state.

        Raises:
            IllegalTransitionError: It cannot follow the present one.
        """
        if not self.may_move(status):
            legal = ", ".join(sorted(each.name for each in TRANSITIONS[self.status])) or "none"
            raise IllegalTransitionError(
                f"a job cannot go from {self.status.name} to {status.name}; from "
                f"{self.status.name} it may go to: {legal}."
            )
        self.status = status
        self._entered[status] = now_ms
        self._history.append((now_ms, status))

    @property
    def timestamps(self) -> dict[str, int]:
        """When each state was last entered; 0 for those that were not, as REST shows them."""
        return {status.name: self._entered.get(status, 0) for status in JobStatus}

    def story(self) -> list[str]:
        """Returns the states in their order."""
        return [f"{time_ms} {status.name}" for time_ms, status in self._history]
