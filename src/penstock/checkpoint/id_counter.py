"""The counter of checkpoint ids: they rise for ever, over failures, restarts and restores."""

from __future__ import annotations

from collections.abc import Callable

from penstock.checkpoint.errors import FencedError
from penstock.core.envelope import DamagedError
from penstock.core.versioned import Outcome, Rejected, Unknown, VersionedRecord
from penstock.files.errors import UnknownOutcomeError


class CheckpointIdCounter:
    """P0: reserves ids. A reserved id is used up, whatever becomes of its checkpoint."""

    def __init__(
        self, record: VersionedRecord, leader_epoch: int, new_write_id: Callable[[], str]
    ) -> None:
        self._record = record
        self._leader_epoch = leader_epoch
        self._new_write_id = new_write_id

    @property
    def place(self) -> str:
        return self._record.place

    def take_over(self) -> Outcome:
        """Locks older leaders out; the highest id stays."""
        return self._record.fence(leader_epoch=self._leader_epoch, write_id=self._new_write_id())

    def last(self) -> int:
        """Returns the highest id that was ever reserved; 0 before the first."""
        version = self._record.read()
        return self._number(None if version is None else version.value)

    def reserve(self, at_least: int = 1) -> int:
        """Returns a new id, not below `at_least` (one above a restored snapshot's).

        Raises:
            FencedError: Another leader counts now.
            UnknownOutcomeError: The record cannot be written at present. Trying again may skip an
                id, and never repeats one.
        """
        chosen = 0

        def next_id(value: bytes | None) -> bytes:
            nonlocal chosen
            chosen = max(self._number(value) + 1, at_least)
            return b"%d" % chosen

        outcome = self._record.update(
            next_id, leader_epoch=self._leader_epoch, new_write_id=self._new_write_id
        )
        if isinstance(outcome, Unknown):
            outcome = self._record.settle(outcome)
        if isinstance(outcome, Unknown):
            raise UnknownOutcomeError(f"no checkpoint id could be reserved: {outcome.reason}")
        if isinstance(outcome, Rejected):
            text = f"no checkpoint id could be reserved in {self._record.place}"
            if outcome.current is None or not outcome.fenced:
                what = "is gone" if outcome.current is None else "was written by somebody else"
                raise UnknownOutcomeError(f"{text}: the record {what} meanwhile.")
            raise FencedError(
                f"{text}: the leader of epoch {outcome.current.leader_epoch} has taken over from "
                f"epoch {self._leader_epoch}."
            )
        # Not what the record says now: it may have moved on since our write.
        return chosen

    def _number(self, value: bytes | None) -> int:
        if value is None or value == b"":
            return 0
        if not value.isdigit():
            raise DamagedError(f"the counter {self._record.place} holds {value!r}, not a number.")
        return int(value)
