"""The pointer of one job, as its process follows it: read once, then known from its own changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.checkpoint.take_over import fence
from penstock.core.errors import PenstockError
from penstock.core.versioned import Committed, Unknown

if TYPE_CHECKING:
    from penstock.checkpoint.pointer import Pointer, PointerRecord, ReadPointer
    from penstock.core.versioned import Outcome


class JobPointer:
    """Changes the pointer by compare-and-set.

    Args:
        record: Where it is kept.
        job_id: 32 hex digits.
        make_directory: Makes the directory that the record lies in.

    Attributes:
        ending: How the job ends, once it does.
    """

    def __init__(
        self, record: PointerRecord, job_id: str, make_directory: Callable[[], None]
    ) -> None:
        self._record = record
        self._job_id = job_id
        self._make_directory = make_directory
        self._known: ReadPointer | None = None
        self.ending = ""

    @property
    def place(self) -> str:
        return self._record.place

    def take_over(self) -> Pointer:
        """Locks lower leader epochs out; returns what the pointer says."""
        self._make_directory()
        fence(self._record.take_over, self._record.place)
        self._known = self._record.read()
        return self._known.pointer

    def publish(self, change: Callable[[Pointer], Pointer]) -> Outcome:
        """Makes the pointer say something else: the commit point."""
        if self._known is None:
            self._make_directory()
            self._known = self._record.read()
        known = self._known
        return self._settled(self._record.publish(change(known.pointer), known.version))

    def settle(self, unknown: Unknown) -> Outcome:
        """Asks what became of a publication without a reply."""
        return self._settled(self._record.settle(unknown))

    def end(self, checkpoint_ids: tuple[int, ...]) -> Outcome | None:
        """Makes the pointer name none of these; None when it never named anything."""
        if self._known is None:
            self._known = self._record.read()
        known = self._known
        if known.version is None:
            return None
        pointer = known.pointer.ended(checkpoint_ids, self._job_id, self.ending)
        outcome = self._record.publish(pointer, known.version)
        if isinstance(outcome, Unknown):
            outcome = self._record.settle(outcome)
        if not isinstance(outcome, Committed):
            # It is tried again, from what the record says then.
            self._known = None
        return self._settled(outcome)

    def _settled(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Committed):
            # What cannot be read now is read before the next change: this one has happened.
            self._known = None
            with contextlib.suppress(PenstockError):
                self._known = self._record.read()
        return outcome
