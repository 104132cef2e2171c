"""The two records of a job's checkpoints: the pointer, and the counter of their ids.

The pointer is the versioned record that says which checkpoints are complete. It decides.

A checkpoint counts from the moment the pointer names it, and not before; its files are deleted only
after the pointer, read back, names it no more. What was taken out waits in `subsumed` until its
files are gone, so a successor finishes a deletion that its predecessor began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint.errors import FencedError
from penstock.core.codec import DamagedError
from penstock.core.errors import PenstockError
from penstock.core.versioned import Committed, Outcome, Rejected, Unknown, VersionedRecord
from penstock.files.errors import UnknownOutcomeError
from penstock.files.records import open_record

if TYPE_CHECKING:
    from penstock.checkpoint.paths import CheckpointLayout
    from penstock.core.versioned import RecordVersion, VersionedRecord
    from penstock.files.contract import Storage


_TRIES: Final = 20


class PointerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One completed snapshot."""

    checkpoint_id: int
    directory: str  # Absolute place of its directory.
    size_bytes: int  # Length of its `_metadata`.
    sha256: str  # Checksum of its `_metadata`, so that a swapped file is noticed.
    is_savepoint: bool = False  # Whether it is a savepoint (a restored one).
    is_owned: bool = True  # Whether its files are ours to delete.


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Content of the record."""

    # Retained snapshots, oldest first; the last one is where recovery starts.
    completed: tuple[PointerEntry, ...] = ()
    subsumed: tuple[PointerEntry, ...] = ()  # Former ones whose files may not all be deleted yet.
    # Highest restored id that the job does not own. Shared files created at or below it are
    # another job's: also after a restart that finds only later checkpoints here, which
    # may still name them.
    unclaimed_up_to: int = 0
    # The job whose end removed checkpoints from here. Without this a process that dies after that
    # would be followed by one that begins with nothing, and repeats all output.
    ended_job: str = ""
    ended_status: str = ""

    def changed(
        self,
        retained: Iterable[PointerEntry],
        *,
        dropped: Iterable[PointerEntry] = (),
        forgotten: Collection[int] = (),
    ) -> Pointer:
        """Returns the pointer that names other snapshots, in one step with what they subsume.

        Args:
            retained: What it names, oldest first.
            dropped: Former ones; owned ones wait for the deletion of their files.
            forgotten: Subsumed ones whose files are gone.
        """
        left = (entry for entry in self.subsumed if entry.checkpoint_id not in forgotten)
        return Pointer(
            completed=tuple(retained),
            subsumed=(*left, *(entry for entry in dropped if entry.is_owned)),
            unclaimed_up_to=self.unclaimed_up_to,
        )

    def subsuming(self, checkpoint_ids: Collection[int]) -> Pointer:
        """Returns the pointer without some snapshots; owned ones wait for their deletion."""
        gone = [entry for entry in self.completed if entry.checkpoint_id in checkpoint_ids]
        return msgspec.structs.replace(
            self,
            completed=tuple(entry for entry in self.completed if entry not in gone),
            subsumed=(*self.subsumed, *(entry for entry in gone if entry.is_owned)),
        )

    def ended(self, checkpoint_ids: Collection[int], job_id: str, status: str) -> Pointer:
        """Returns the pointer at the end of a job: that is known in one step with the removal."""
        left = self.subsuming(checkpoint_ids)
        if not status:
            return left
        return msgspec.structs.replace(left, ended_job=job_id, ended_status=status)


class _LeadersRecord:
    """A record of one job that its leader writes.

    Args:
        record: The record.
        leader_epoch: Epoch in which the caller leads.
        new_write_id: Gives ids that are never used twice.
    """

    def __init__(
        self, record: VersionedRecord, leader_epoch: int, new_write_id: Callable[[], str]
    ) -> None:
        self._record = record
        self._leader_epoch = leader_epoch
        self._new_write_id = new_write_id

    @property
    def place(self) -> str:
        return self._record.place

    def _fence(self, initial: bytes = b"") -> None:
        def take_over() -> Outcome:
            return self._record.fence(
                leader_epoch=self._leader_epoch, write_id=self._new_write_id(), initial=initial
            )

        fence(take_over, self.place)


class JobPointer(_LeadersRecord):
    """The pointer of one job as its leader follows it: read once, then known from its own changes.

    Attributes:
        job_id: Of the job that ends here, once it does.
        ending: How it ends.
    """

    job_id = ""
    ending = ""
    _known: RecordVersion | None = None
    _is_known = False
    _unknown: Unknown | None = None

    def take_over(self) -> Pointer:
        """Locks older leaders out, the first thing that a new leader does; returns what it says."""
        self._fence(msgspec.msgpack.encode(Pointer()))
        return self.read()

    def read(self) -> Pointer:
        """Returns what the record says; an empty pointer before the first write."""
        self._known, self._is_known = self._record.read(), True
        return self.known

    @property
    def known(self) -> Pointer:
        """What the record says, as far as is known."""
        return Pointer() if self._known is None else decode_pointer(self._known, self.place)

    def confirm_lead(self) -> None:
        """Asked before each deletion: a slow former leader must not delete what others may use.

        Raises:
            FencedError: A later leader has written the pointer.
        """
        version = self._record.read()
        if version is not None and version.leader_epoch > self._leader_epoch:
            raise FencedError(
                f"{self.place} is written by the leader of epoch {version.leader_epoch} now, and "
                f"epoch {self._leader_epoch} is over: nothing is deleted."
            )

    def publish(self, change: Callable[[Pointer], Pointer]) -> Outcome:
        """P7: makes a change the truth, if the record still is as known. The only commit point.

        Returns:
            Committed: It counts. Rejected: it does not; with `fenced` another leader is at work.
            Unknown: call `settle` until known; delete, trigger and abort nothing until then.
        """
        if not self._is_known:
            self.read()
        pointer = change(self.known)
        data = msgspec.msgpack.encode(pointer)
        # Read before it is written: a pointer that cannot be read would stop every recovery.
        assert msgspec.msgpack.decode(data, type=Pointer) == pointer
        return self._settled(
            self._record.compare_and_set(
                self._known, data, leader_epoch=self._leader_epoch, write_id=self._new_write_id()
            )
        )

    def settle(self) -> Outcome:
        """Asks for the outcome of the publication that got no reply."""
        assert self._unknown is not None, "every publication has an outcome"
        return self._settled(self._record.settle(self._unknown))

    def end(self, checkpoint_ids: tuple[int, ...]) -> Outcome | None:
        """Makes the pointer name none of these; None when it never named anything."""
        if not self._is_known:
            self.read()
        if self._known is None:
            return None
        outcome = self.publish(lambda known: known.ended(checkpoint_ids, self.job_id, self.ending))
        if isinstance(outcome, Unknown):
            outcome = self.settle()
        # What did not happen is tried again, from what the record says then.
        self._is_known = isinstance(outcome, Committed)
        return outcome

    def _settled(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Committed):
            self._known = outcome.current
        elif isinstance(outcome, Unknown):
            self._unknown = outcome
        return outcome


def rejection_text(rejected: Rejected, place: str) -> str:
    """Says why a change of the pointer can never count, and what to do."""
    if rejected.current is None:
        return (
            f"its record {place} is gone. The checkpoint directory was deleted, or that part "
            "of it, while the job was running; start the job from a snapshot that is left"
        )
    if rejected.fenced:
        return (
            f"another leader has taken over: it writes {place} in epoch "
            f"{rejected.current.leader_epoch}"
        )
    return (
        f"another job or process writes {place} too. Give each job a checkpoint directory of its "
        "own; execution.checkpointing.create-subdir: true does that"
    )


def decode_pointer(version: RecordVersion, place: str) -> Pointer:
    """Reads the pointer out of a version of its record.

    Raises:
        DamagedError: It is no pointer.
    """
    try:
        return msgspec.msgpack.decode(version.value, type=Pointer)
    except msgspec.DecodeError as error:
        raise DamagedError(f"the pointer {place} is whole but malformed: {error}.") from error


def is_superseded(confirm_lead: Callable[[], None]) -> bool:
    """Whether a later leader is known to have begun; storage without an answer says nothing."""
    try:
        confirm_lead()
    except FencedError:
        return True
    except PenstockError:
        return False
    return False


def fence(take_over: Callable[[], Outcome], place: str) -> None:
    """Repeats `take_over` until it has happened, or never will.

    Between reading and writing, the older leader may still write: then it is tried again. It loses
    that race at last, because from our first write on each of its own is rejected.

    Raises:
        FencedError: A newer leader was there first.
        UnknownOutcomeError: The storage does not say what came of it.
    """
    outcome: Outcome | None = None
    for _ in range(_TRIES):
        outcome = take_over()
        if isinstance(outcome, Committed):
            return
        if isinstance(outcome, Rejected) and outcome.fenced:
            leader = "unknown" if outcome.current is None else outcome.current.leader_epoch
            raise FencedError(f"the leader of epoch {leader} writes {place} now.")
    reason = outcome.reason if isinstance(outcome, Unknown) else "it changes all the time"
    raise UnknownOutcomeError(f"{place} could not be taken over: {reason}.")


@dataclass(frozen=True, slots=True)
class JobRecords:
    """Records of one job's checkpoints."""

    pointer: VersionedRecord  # Completed checkpoints.
    counter: VersionedRecord  # Ids of checkpoints.
    close: Callable[[], None]  # Ends the connection.


def open_records(
    records: JobRecords | None, storage: Storage, layout: CheckpointLayout
) -> tuple[VersionedRecord, VersionedRecord]:
    """Returns pointer and counter of a job: given ones, or those in its checkpoint directory."""
    if records is not None:
        return records.pointer, records.counter
    return open_record(storage, layout.pointer), open_record(storage, layout.counter)


class CheckpointIdCounter(_LeadersRecord):
    """P0: reserves ids. A reserved id is used up, whatever becomes of its checkpoint."""

    def take_over(self) -> int:
        """Locks older leaders out; returns the highest id, which stays."""
        self._fence()
        return self.last()

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
                what = "is gone" if outcome.current is None else "was written by another process"
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
