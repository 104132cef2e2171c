"""When a checkpoint may be triggered: period, pause, concurrency and queue.

1. Periodic requests become due one period after the previous trigger; others arrive at any time.
2. All wait in one queue: savepoints first, then users' checkpoints before periodic, then oldest.
3. `choose` gives the first one if there is room, or declines a periodic one that comes too early.

Invariants:
* At most one periodic request waits; the next one becomes due only after it has left the queue.
* The queue never exceeds its limit.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from penstock.checkpoint.coordination.checkpoints import (
    CheckpointFailure,
    FailureReason,
    TriggerRequest,
)
from penstock.checkpoint.coordination.instructions import DeclineTrigger
from penstock.core.times import format_millis

if TYPE_CHECKING:
    from penstock.checkpoint.settings import CheckpointSettings


class Triggering:
    """Queue and timetable."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self._settings = settings
        self._period_ms = settings.period_ms
        self._arrivals = 0
        self.queue: list[TriggerRequest] = []
        self.next_periodic_ms: int | None = None
        self.last_completion_ms: int | None = None

    def start(self, now_ms: int, first_delay_ms: int) -> None:
        """Starts the timetable; nothing happens when checkpointing is off."""
        if self._period_ms is not None:
            self.next_periodic_ms = now_ms + first_delay_ms

    def stop(self) -> list[TriggerRequest]:
        waiting, self.queue = self.queue, []
        self.next_periodic_ms = None
        return waiting

    def set_backlog(self, now_ms: int, *, backlog: bool) -> None:
        """Switches to the period for backlog, or back."""
        runs = self.next_periodic_ms is not None or self._period_ms is None
        settings = self._settings
        self._period_ms = settings.backlog_period_ms if backlog else settings.period_ms
        if self._period_ms is None:
            self.next_periodic_ms = None
            self.queue = [request for request in self.queue if not request.is_periodic]
        elif runs:
            latest = now_ms + self._period_ms
            self.next_periodic_ms = min(self.next_periodic_ms or latest, latest)

    def next_number(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def add(self, request: TriggerRequest) -> DeclineTrigger | None:
        """Queues a request; returns the one that had to give way, if any."""
        limit = self._settings.max_queued_requests
        last = None
        if len(self.queue) >= limit:
            last = request if not self.queue[-1].is_periodic else self.queue.pop()
        if last is not request:
            insort(self.queue, request, key=lambda waiting: waiting.rank)
        if last is None:
            return None
        if last.is_periodic:
            self.next_periodic_ms = request.arrived_ms + (self._period_ms or 0)
        message = f"{limit} requests wait already; wait for some to finish"
        return DeclineTrigger(
            last, CheckpointFailure(FailureReason.TOO_MANY_CHECKPOINT_REQUESTS, message)
        )

    def add_periodic(self, now_ms: int) -> DeclineTrigger | None:
        if self.next_periodic_ms is None or now_ms < self.next_periodic_ms:
            return None
        self.next_periodic_ms = None
        return self.add(TriggerRequest(self.next_number(), now_ms))

    def choose(
        self, now_ms: int, *, pending: int, deleting: int
    ) -> TriggerRequest | DeclineTrigger | None:
        """Takes the next request that may be triggered now from the queue.

        Args:
            now_ms: The time.
            pending: Checkpoints and savepoints that have an id and are not finished.
            deleting: Old checkpoints whose deletion is not finished.
        """
        if not self.queue or deleting > self._settings.concurrency:
            return None
        first = self.queue[0]
        if first.is_periodic and pending >= self._settings.concurrency:
            return None
        del self.queue[0]
        if not first.is_periodic:
            return first
        early_ms = self._pause_left(now_ms)
        if early_ms > 0:
            self.next_periodic_ms = now_ms + early_ms
            message = f"{format_millis(early_ms)} of the pause are left"
            reason = FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
            return DeclineTrigger(first, CheckpointFailure(reason, message))
        if self._period_ms is not None:
            self.next_periodic_ms = now_ms + self._period_ms
        return first

    def _pause_left(self, now_ms: int) -> int:
        if self.last_completion_ms is None:
            return 0
        return self.last_completion_ms + self._settings.min_pause_ms - now_ms

    def validate(self) -> None:
        assert len(self.queue) <= self._settings.max_queued_requests
        assert self.queue == sorted(self.queue, key=lambda request: request.rank)
        periodic = sum(request.is_periodic for request in self.queue)
        assert periodic + (self.next_periodic_ms is not None) <= 1
