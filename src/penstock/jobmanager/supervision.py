"""Decides about one job: when its driver process is started, killed, or done. Pure.

It is asked again and again what follows from what is seen: whether the process lives, what its
driver says, what is to be done with the job. It takes the job's record from state to state, and
holds no clock, process or file.

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
from typing import Any, Final

from msgspec.structs import replace

from penstock.core.job import JobStatus
from penstock.jobmanager.job_records import JobRecord, counted, restarted
from penstock.jobmanager.restart_strategies import GiveUp, RestartStrategy

KILL_AFTER_END_MS: Final = 30_000
"""How long a process may live on after it has said how its job ended."""
_UNSEEN: Final = "The job's process ended while no job manager looked after it."


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen of the present attempt."""

    is_alive: bool  # Whether its process lives.
    said: JobRecord | None = None  # The job as its driver said last; None before it said anything.
    end: JobRecord | None = None  # How the attempt ended; None while the driver has not said so.
    died_how: str = ""  # For people: signal or exit status of a process that is gone.


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Start the process of the attempt that the record names."""

    previous_death: str | None  # How the process before it died, if one did.


@dataclass(frozen=True, slots=True)
class KillDriver:
    """Kill the process."""

    reason: str


Instruction = StartDriver | KillDriver


class JobSupervisor:
    """Supervises one job.

    Args:
        record: What is known of the job.
        strategy: Makes the restart strategy when a process has died: the program's own settings
            are known by then.
        cancellation_timeout_ms: Gives the time that a driver has to obey a cancellation.
        wall_ahead_ms: By how much wall time is ahead of the clock of delays.

    Attributes:
        record: As it became; to be kept before anything is done.
        has_ended: Whether the job has ended, for good or for this job manager.
        death: How the last process died, until the next one starts.
    """

    def __init__(
        self,
        record: JobRecord,
        *,
        strategy: Callable[[], RestartStrategy],
        cancellation_timeout_ms: Callable[[], int],
        wall_ahead_ms: int = 0,
    ) -> None:
        self.record = record
        self.has_ended = record.status.is_globally_terminal_state()
        # It may be dead when we first look.
        self.death: str | None = _UNSEEN if record.attempt else None
        self._make_strategy = strategy
        self._timeout_ms = cancellation_timeout_ms
        self._wall_ahead_ms = wall_ahead_ms
        self._cancelling_since_ms: int | None = None
        self._ended_since_ms: int | None = None
        self._start_at_ms: int | None = None
        self._is_recovered = False
        self._seen_restarts = 0

    def recover(self, wall_ms: int) -> None:
        """The job was found by a job manager that has just started, or has just come to lead.

        A process that died meanwhile is no failure of the job: no restart strategy is asked.
        """
        self._is_recovered = True
        self.record = _in_state(self.record, JobStatus.RECONCILING, wall_ms)

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
        if seen.said is not None and seen.said.name:
            self.record = replace(self.record, name=seen.said.name)
        if self.has_ended:
            return self._lingering(seen, monotonic_ms)
        if self.record.cancel_requested_ms is not None:
            return self._cancelling(seen, monotonic_ms, wall_ms)
        if seen.end is not None:
            self._ended(seen.end, monotonic_ms, wall_ms)
            return []
        return self._going_on(seen, monotonic_ms, wall_ms, random)

    # -- one function per case ------------------------------------------------------------------

    def _going_on(
        self, seen: Observation, monotonic_ms: int, wall_ms: int, random: float
    ) -> list[Instruction]:
        is_recovered, self._is_recovered = self._is_recovered, False
        if self.record.attempt == 0 or (is_recovered and not seen.is_alive):
            return self._start(seen, wall_ms)
        if self._start_at_ms is not None:
            return self._start(seen, wall_ms) if monotonic_ms >= self._start_at_ms else []
        if seen.is_alive:
            self._follow(seen.said, wall_ms)
        else:
            self._died(seen, monotonic_ms, wall_ms, random)
        return []

    def _start(self, seen: Observation, wall_ms: int) -> list[Instruction]:
        death, self.death = self.death, None
        self._start_at_ms = None
        self._seen_restarts = 0
        record = counted(self.record, seen.said)
        self.record = replace(record, attempt=record.attempt + 1)
        self._enter(JobStatus.CREATED, wall_ms)
        return [StartDriver(death)]

    def _follow(self, said: JobRecord | None, wall_ms: int) -> None:
        """Moves to what the driver reports, through the states in between."""
        if said is None:
            return
        if self.record.status is JobStatus.RECONCILING:
            # It ran on without a job manager, so what it reports has been so for a while.
            self._seen_restarts = said.restarts
            wall_ms = said.changed_ms or wall_ms
        if said.restarts > self._seen_restarts and said.status is not JobStatus.RESTARTING:
            # It happened between two looks.
            self._enter(JobStatus.RESTARTING, wall_ms)
        self._seen_restarts = max(said.restarts, self._seen_restarts)
        if said.status in (JobStatus.RUNNING, JobStatus.RESTARTING):
            self._enter(said.status, wall_ms)

    def _died(self, seen: Observation, monotonic_ms: int, wall_ms: int, random: float) -> None:
        how = f"job's process ended {seen.died_how or 'without a word'}"
        strategy = self._make_strategy()
        failures = counted(self.record, seen.said).failures
        strategy.memory = failures.moved(-self._wall_ahead_ms)
        self._enter(JobStatus.FAILING, wall_ms)
        decision = strategy.failed(monotonic_ms, random)
        if isinstance(decision, GiveUp):
            error = f"the {how}; the job is not started again: {decision.reason}."
            self._end(
                JobStatus.FAILED,
                monotonic_ms,
                wall_ms,
                error=error,
                error_type="JobExecutionError",
                leftover=1,
            )
            return
        self._enter(JobStatus.RESTARTING, wall_ms)
        self.record = restarted(self.record, seen.said, strategy.memory.moved(self._wall_ahead_ms))
        self.death = f"The {how}."
        self._start_at_ms = monotonic_ms + decision.delay_ms

    def _ended(self, end: JobRecord, monotonic_ms: int, wall_ms: int) -> None:
        """The job ends as its driver says."""
        ended_ms = end.ended_ms or wall_ms
        error, error_type = end.error, end.error_type
        self._end(end.status, monotonic_ms, ended_ms, error=error, error_type=error_type)

    def _end(self, status: JobStatus, monotonic_ms: int, ended_ms: int, **known: Any) -> None:
        self._enter(status, ended_ms)
        self.record = replace(self.record, ended_ms=ended_ms, **known)
        self.has_ended = True
        self._ended_since_ms = monotonic_ms

    def _cancelling(self, seen: Observation, monotonic_ms: int, wall_ms: int) -> list[Instruction]:
        if self._cancelling_since_ms is None:
            self._cancelling_since_ms = monotonic_ms
        if seen.end is not None and seen.end.status is JobStatus.SUSPENDED:
            self._ended(seen.end, monotonic_ms, wall_ms)
            return []
        self._enter(JobStatus.CANCELLING, wall_ms)
        if seen.end is not None or not seen.is_alive:
            # A dead process could not clean up, and one that ended otherwise did not.
            has_cleaned = seen.end is not None and seen.end.status is JobStatus.CANCELED
            is_left = self.record.attempt > 0 and not has_cleaned
            self._end(JobStatus.CANCELED, monotonic_ms, wall_ms, leftover=int(is_left))
            return []
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

    def _enter(self, target: JobStatus, wall_ms: int) -> None:
        """Goes to a state on the shortest legal way; stays when there is none."""
        for status in path_to(self.record.status, target):
            self.record = _in_state(self.record, status, wall_ms)


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


def _in_state(record: JobRecord, status: JobStatus, wall_ms: int) -> JobRecord:
    others = {each: at for each, at in record.timestamps.items() if each is not status}
    entered_ms = max(wall_ms, record.timestamps.get(status, 0))
    timestamps = {**others, status: entered_ms}
    return replace(record, status=status, changed_ms=entered_ms, timestamps=timestamps)
