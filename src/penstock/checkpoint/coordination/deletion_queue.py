"""Deletions under way: never while a publication is open, private files first, shared ones last."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.checkpoint.coordination.instructions import (
    DeleteCheckpoint,
    DiscardPending,
    Instruction,
    ReleaseSharedFiles,
)

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.completed import CompletedCheckpoint


class DeletionQueue:
    """What is to be deleted and what is being deleted."""

    def __init__(self) -> None:
        self._waiting: deque[DiscardPending | DeleteCheckpoint] = deque()
        self._in_flight: set[int] = set()
        self._subsumed: set[int] = set()
        self._released_below = 0
        self._is_releasing = False
        self.forgotten: tuple[int, ...] = ()
        """Subsumed checkpoints whose files are gone, until the pointer has been told."""

    @property
    def unfinished(self) -> int:
        """How many checkpoints are still to be deleted."""
        return len(self._waiting) + len(self._in_flight)

    def discard(self, checkpoint_id: int) -> None:
        """Queues the private files of an aborted checkpoint."""
        self._waiting.append(DiscardPending(checkpoint_id))

    def delete(self, checkpoint: CompletedCheckpoint) -> None:
        """Queues a checkpoint that the pointer does not name."""
        self._subsumed.add(checkpoint.checkpoint_id)
        self._waiting.append(DeleteCheckpoint(checkpoint))

    def start(self) -> list[Instruction]:
        """Returns the deletions that may begin. Call it only while no publication is open."""
        started: list[Instruction] = list(self._waiting)
        for deletion in self._waiting:
            self._in_flight.add(
                deletion.checkpoint_id
                if isinstance(deletion, DiscardPending)
                else deletion.checkpoint.checkpoint_id
            )
        self._waiting.clear()
        return started

    def release(self, lowest_id: int) -> list[Instruction]:
        """Returns the release of shared files, once the private files before it are gone."""
        if self.unfinished or self._is_releasing or lowest_id <= self._released_below:
            return []
        self._released_below = lowest_id
        self._is_releasing = True
        return [ReleaseSharedFiles(lowest_id)]

    def released(self) -> None:
        """The release under way is over."""
        self._is_releasing = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being deleted or waits for it."""
        return not self.unfinished and not self._is_releasing

    def finished(self, checkpoint_id: int, *, succeeded: bool) -> None:
        """Takes note of an answer."""
        self._in_flight.discard(checkpoint_id)
        if succeeded and checkpoint_id in self._subsumed:
            self._subsumed.discard(checkpoint_id)
            self.forgotten = (*self.forgotten, checkpoint_id)

    def pointer_forgot(self, checkpoint_ids: tuple[int, ...]) -> None:
        """The pointer lists these as subsumed no more."""
        self.forgotten = tuple(id_ for id_ in self.forgotten if id_ not in checkpoint_ids)

    @property
    def ids(self) -> set[int]:
        """Checkpoints being or to be deleted; for tests."""
        waiting = {
            deletion.checkpoint_id
            if isinstance(deletion, DiscardPending)
            else deletion.checkpoint.checkpoint_id
            for deletion in self._waiting
        }
        return waiting | self._in_flight
