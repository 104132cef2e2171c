"""Decides about one job: when its driver process is started, killed, or done. Pure.

It is asked again and again what follows from what is seen: whether the process lives, what its
driver says, what is to be done with the job. It holds no clock, process or file.

    process gone without an end    restart strategy: start again after a delay, or give up
    end FINISHED, FAILED           the job has ended so
    end SUSPENDED                  a later leader has taken over; this manager is done with the job
    cancellation wanted            the driver is told; killed when it takes too long; the job ends
                                   CANCELED whatever its driver said, and never starts again

The driver restarts failed attempts itself, in its process. What is counted here are processes that
died: killed, crashed, or out of memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.core.job import JobStatus
from penstock.jobmanager.restart_strategies import GiveUp, RestartStrategy

KILL_AFTER_END_MS: Final = 30_000
"""How long a process may live on after it has said how its job ended."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, as its driver says."""

    status: JobStatus  # FINISHED, CANCELED, FAILED or SUSPENDED.
    error: str | None = None  # What people read.
    error_type: str | None = None  # Name of the exception.
    ended_ms: int | None = None  # Wall time; None for now.
    # Whether the process could not clean up, as it is dead, or did so for another ending.
    is_left_to_us: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen of the present attempt."""

    is_alive: bool  # Whether its process lives.
    # Status that its driver reports; None before it has said anything.
    reported: JobStatus | None = None
    reported_ms: int = 0  # Wall time since which that is so.
    restarts: int = 0  # Restarts that the driver made itself.
    ending: Ending | None = None  # How the attempt ended; None while the driver has not said so.
    died_how: str = ""  # For people: signal or exit status of a process that is gone.


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Start the process of this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True)
class KillDriver:
    """Kill the process."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """The job has ended for good, or for this job manager."""

    ending: Ending


Instruction = StartDriver | KillDriver | EndJob


class JobSupervisor:
    """Supervises one job.

    Args:
        life: State of the job; changed here and nowhere else.
        attempt: The last attempt that was started; 0 before the first.
        strategy: Makes the restart strategy when a process has died: the program's own settings
            are known by then, and the failures that its driver has seen.
        cancellation_timeout_ms: Gives the time that a driver has to obey a cancellation.
        cancel_requested: Whether a cancellation was asked for before, perhaps of another manager.
        is_recovered: Whether the job was found by a job manager that has just started. A process
            that died meanwhile is no failure of the job, so its restart strategy is not asked.
    """

    def __init__(  # noqa: PLR0913 - what is known of a job at the start
        self,
        life: JobLifeCycle,
        *,
        attempt: int = 0,
        strategy: Callable[[], RestartStrategy],
        cancellation_timeout_ms: Callable[[], int],
        cancel_requested: bool = False,
        is_recovered: bool = False,
    ) -> None:
        self.life = life
        self.attempt = attempt
        self.cancel_requested = cancel_requested
        self.has_ended = False
        self.process_restarts = 0
        self.strategy: RestartStrategy | None = None
        """The one that was asked last."""
        self._make_strategy = strategy
        self._timeout_ms = cancellation_timeout_ms
        self._cancelling_since_ms: int | None = None
        self._ended_since_ms: int | None = None
        self._start_at_ms: int | None = None
        self._is_recovered = is_recovered
        self._seen_restarts = 0

    def cancel(self) -> None:
        """The job is to end; nothing takes that back."""
        self.cancel_requested = True

    def observe(
        self, seen: Observation, monotonic_ms: int, wall_ms: int, random: float
    ) -> list[Instruction]:
        """Returns what to do.

        Args:
            seen: What is seen of the present attempt.
            monotonic_ms: Time for delays.
            wall_ms: Time for people.
            random: From 0 to 1, for the jitter of delays.
        """
        if self.has_ended:
            return self._lingering(seen, monotonic_ms)
        if self.cancel_requested:
            return self._cancelling(seen, monotonic_ms, wall_ms)
        if seen.ending is not None:
            return self._ended(seen.ending, monotonic_ms, wall_ms)
        return self._going_on(seen, monotonic_ms, wall_ms, random)

    # -- one function per case ------------------------------------------------------------------

    def _going_on(
        self, seen: Observation, monotonic_ms: int, wall_ms: int, random: float
    ) -> list[Instruction]:
        is_recovered, self._is_recovered = self._is_recovered, False
        if self.attempt == 0 or (is_recovered and not seen.is_alive):
            return self._start(wall_ms)
        if self._start_at_ms is not None:
            return self._start(wall_ms) if monotonic_ms >= self._start_at_ms else []
        if not seen.is_alive:
            return self._died(seen, monotonic_ms, wall_ms, random)
        self._follow(seen, wall_ms)
        return []

    def _start(self, wall_ms: int) -> list[Instruction]:
        self._start_at_ms = None
        self._seen_restarts = 0
        self.attempt += 1
        self.enter(JobStatus.CREATED, wall_ms)
        return [StartDriver(self.attempt)]

    def _follow(self, seen: Observation, wall_ms: int) -> None:
        """Moves to what the driver reports, through the states in between."""
        if self.life.status is JobStatus.RECONCILING:
            # It ran on without a job manager, so what it reports has been so for a while.
            self._seen_restarts = seen.restarts
            wall_ms = seen.reported_ms or wall_ms
        if seen.restarts > self._seen_restarts and seen.reported is not JobStatus.RESTARTING:
            # It happened between two looks.
            self.enter(JobStatus.RESTARTING, wall_ms)
        self._seen_restarts = max(seen.restarts, self._seen_restarts)
        if seen.reported in (JobStatus.RUNNING, JobStatus.RESTARTING):
            self.enter(seen.reported, wall_ms)

    def _died(
        self, seen: Observation, monotonic_ms: int, wall_ms: int, random: float
    ) -> list[Instruction]:
        how = f"the job's process ended {seen.died_how or 'without a word'}"
        self.strategy = self._make_strategy()
        self.enter(JobStatus.FAILING, wall_ms)
        decision = self.strategy.failed(monotonic_ms, random)
        if isinstance(decision, GiveUp):
            error = f"{how}; the job is not started again: {decision.reason}."
            ending = Ending(JobStatus.FAILED, error, "JobExecutionError", is_left_to_us=True)
            return self._ended(ending, monotonic_ms, wall_ms)
        self.enter(JobStatus.RESTARTING, wall_ms)
        self.process_restarts += 1
        self._start_at_ms = monotonic_ms + decision.delay_ms
        return []

    def _ended(self, ending: Ending, monotonic_ms: int, wall_ms: int) -> list[Instruction]:
        self.enter(ending.status, ending.ended_ms or wall_ms)
        self.has_ended = True
        self._ended_since_ms = monotonic_ms
        return [EndJob(ending)]

    def _cancelling(self, seen: Observation, monotonic_ms: int, wall_ms: int) -> list[Instruction]:
        if self._cancelling_since_ms is None:
            self._cancelling_since_ms = monotonic_ms
        if seen.ending is not None and seen.ending.status is JobStatus.SUSPENDED:
            return self._ended(seen.ending, monotonic_ms, wall_ms)
        if self.life.status is not JobStatus.CANCELLING:
            self.enter(JobStatus.CANCELLING, wall_ms)
        if seen.ending is not None or not seen.is_alive:
            has_cleaned = seen.ending is not None and seen.ending.status is JobStatus.CANCELED
            ending = Ending(JobStatus.CANCELED, is_left_to_us=not has_cleaned)
            return self._ended(ending, monotonic_ms, wall_ms)
        timeout_ms = self._timeout_ms()
        if monotonic_ms - self._cancelling_since_ms >= timeout_ms:
            return [
                KillDriver(f"it did not end within {timeout_ms / 1000:g} s of its cancellation")
            ]
        return []

    def _lingering(self, seen: Observation, monotonic_ms: int) -> list[Instruction]:
        if not seen.is_alive or self._ended_since_ms is None:
            return []
        if monotonic_ms - self._ended_since_ms < KILL_AFTER_END_MS:
            return []
        return [KillDriver("its job has ended, and the process has not")]

    def enter(self, target: JobStatus, wall_ms: int) -> None:
        """Goes to a state on the shortest legal way; stays when there is none."""
        for status in path_to(self.life.status, target):
            self.life.move(status, wall_ms)


def path_to(start: JobStatus, target: JobStatus) -> list[JobStatus]:
    """Returns the states from `start`, without it, to `target`; empty when there is no way."""
    ways: deque[list[JobStatus]] = deque([[start]])
    seen = {start}
    while ways:
        way = ways.popleft()
        if way[-1] is target:
            return way[1:]
        for status in sorted(TRANSITIONS[way[-1]], key=lambda each: each.value):
            if status not in seen:
                seen.add(status)
                ways.append([*way, status])
    return []


_NEXT: Final = {
    # A process went on without a job manager, or has brought its job to the end.
    "RECONCILING": "CREATED RUNNING RESTARTING FINISHED FAILING CANCELLING SUSPENDED",
    "INITIALIZING": "CREATED RECONCILING FAILED CANCELLING SUSPENDED",
    "CREATED": "RUNNING FAILING CANCELLING SUSPENDED",
    "RUNNING": "FINISHED FAILING CANCELLING SUSPENDED",
    "FAILING": "FAILED RESTARTING CANCELLING SUSPENDED",
    "RESTARTING": "CREATED FAILING CANCELLING SUSPENDED",
    "CANCELLING": "CANCELED SUSPENDED",
}
TRANSITIONS: Final = {
    status: frozenset(map(JobStatus.__getitem__, _NEXT.get(status.name, "").split()))
    for status in JobStatus
}
"""Every legal change."""


class IllegalTransitionError(AssertionError):
    """A bug: the job was to go from one state to another that cannot follow."""


class JobLifeCycle:
    """State of one job on one job manager, with the time of every entry."""

    def __init__(self, now_ms: int, status: JobStatus = JobStatus.INITIALIZING) -> None:
        self.status = status
        self.entered: dict[JobStatus, int] = {status: now_ms}
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
        self.entered[status] = now_ms
        self._history.append((now_ms, status))

    def story(self) -> list[str]:
        return [f"{time_ms} {status.name}" for time_ms, status in self._history]
