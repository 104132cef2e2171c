"""Commits that the sinks still owe: one at a time, repeated until they are known to be done.

Committing checkpoint n covers all that was prepared before it, so a newer one replaces an older
one that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.checkpoint.backoff import retry_delay_ms

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.completed import CompletedCheckpoint

COMMIT_TRIES: Final = 10
"""So many failed commits in a row, about half a minute of them, count as one failed checkpoint."""


class SinkBacklog:
    """Which checkpoint's output is to be committed, and which is being committed."""

    def __init__(self) -> None:
        self._due: CompletedCheckpoint | None = None
        self._in_flight: CompletedCheckpoint | None = None
        self._retries = 0
        self._failures = 0
        """Failed commits in a row, over all checkpoints; only one that is done ends the row."""
        self._blamed = 0
        """Those of them for which the job has failed already."""
        self.retry_ms: int | None = None
        """When to try again; None unless a commit failed."""

    @property
    def is_clear(self) -> bool:
        """Whether every commit asked for is known to be done."""
        return self._due is None and self._in_flight is None

    def add(self, checkpoint: CompletedCheckpoint) -> None:
        """Asks for the output of a checkpoint."""
        self._due = checkpoint
        self._retries, self.retry_ms = 0, None

    def start(self, now_ms: int) -> CompletedCheckpoint | None:
        """Returns the commit that may begin now, if any."""
        if self._due is None or self._in_flight is not None:
            return None
        if self.retry_ms is not None and now_ms < self.retry_ms:
            return None
        self._in_flight, self._due, self.retry_ms = self._due, None, None
        return self._in_flight

    def finished(self, checkpoint_id: int) -> None:
        """The commit in flight is done."""
        if self._in_flight is not None and self._in_flight.checkpoint_id == checkpoint_id:
            self._in_flight = None
            self._retries = self._failures = self._blamed = 0

    def failed(self, checkpoint_id: int, now_ms: int) -> None:
        """The commit in flight has to be repeated, unless a newer one covers it."""
        if self._in_flight is None or self._in_flight.checkpoint_id != checkpoint_id:
            return
        failed, self._in_flight = self._in_flight, None
        if self._due is None:
            self._due = failed
        self.retry_ms = now_ms + retry_delay_ms(self._retries)
        self._retries += 1
        self._failures += 1

    @property
    def is_stuck(self) -> bool:
        """Whether so many commits in a row have failed that waiting for the next is in vain."""
        return self._failures >= COMMIT_TRIES

    def exceeds(self, tolerable: int) -> bool:
        """Whether more than `tolerable` times `COMMIT_TRIES` have failed; then counts anew."""
        if self._failures - self._blamed < COMMIT_TRIES * (tolerable + 1):
            return False
        self._blamed = self._failures
        return True

    def give_up(self) -> None:
        """Owes nothing any more: whoever starts from the checkpoint commits its output."""
        self._due = self._in_flight = self.retry_ms = None
