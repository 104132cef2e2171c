"""The one durable primitive: a versioned record that changes by compare-and-set, with a fence.

Pointers to checkpoints, counters and leases are records of this kind. A change has three outcomes:

    Committed   the record holds our value, or later ones that were built upon it
    Rejected    it does not and never will: another writer changed it first, or leads now
    Unknown     a request got lost; `settle` reads again until one of the others is known

Invariants:
* A version is written once; versions rise by one.
* Each version carries the leader epoch of its writer, and epochs never fall. A new leader calls
  `fence` first: from then on every change of an older leader is rejected.
* Each version carries the ids of the writes that led to it, so a writer whose reply was lost
  recognises its own write even when others have written since.
* `Committed` is only said after reading the record back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from penstock.core.codec import DamagedError, seal, unseal
from penstock.core.errors import PenstockError, StateError

RECORD_MAGIC: Final = b"\x93PENSREC"
RECORD_VERSION: Final = 1
LINEAGE: Final = 64
"""How many earlier writes a version remembers. A writer that comes later than that lost anyway."""


class SwapRejectedError(PenstockError):
    """The cell did not hold what was expected; nothing was changed by this request."""


class SwapUnknownError(PenstockError):
    """The request may have changed the cell or not."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Content of a store's cell."""

    data: bytes  # The bytes.
    token: Any  # What the store wants back to replace exactly this content.


class RecordStore(Protocol):
    """A durable cell: files, an object, a node in ZooKeeper.

    Any exception except the two above means that the request failed and changed nothing.
    """

    @property
    def place(self) -> str:
        """Where it is, for errors."""

    def load(self) -> Cell | None:
        """Returns the content, or None before the first write."""

    def swap(self, expected: Cell | None, data: bytes) -> None:
        """Replaces `expected` by `data`, durably.

        Raises:
            SwapRejectedError: The cell holds something else.
            SwapUnknownError: The outcome is unknown.
        """


class RecordVersion(msgspec.Struct, frozen=True):
    """One version of a record."""

    version: int  # From 1.
    leader_epoch: int  # Epoch of the leader that wrote it.
    write_id: str  # Never used again.
    value: bytes  # What it says.
    lineage: tuple[str, ...] = ()  # Ids of earlier writes, newest first.

    def holds(self, write_id: str) -> bool:
        """Whether this version is, or was built upon, the write."""
        return write_id == self.write_id or write_id in self.lineage


@dataclass(frozen=True, slots=True)
class Committed:
    """The change counts."""

    # What was read back: our version, or a later one that was built upon it. Its leader epoch is
    # above ours if another leader has taken over since.
    current: RecordVersion


@dataclass(frozen=True, slots=True)
class Rejected:
    """The change does not count."""

    current: RecordVersion | None  # What the record says instead; None when it vanished.
    fenced: bool  # A newer leader has written: stop, and touch nothing that it may own.


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outcome is unknown; hand it to `settle`."""

    expected: RecordVersion | None  # Version the change was built upon.
    intended: RecordVersion  # Version it would make.
    reason: str  # What went wrong.


Outcome = Committed | Rejected | Unknown


def encode_record(record: RecordVersion) -> bytes:
    """Returns the stored form of a version."""
    return seal(RECORD_MAGIC, RECORD_VERSION, msgspec.msgpack.encode(record))


def decode_record(data: bytes, place: str) -> RecordVersion:
    """Reads the stored form of a version.

    Raises:
        DamagedError: It is not what was written.
        NewerFormatError: A newer Penstock wrote it.
    """
    what = f"the record {place}"
    advice = "put a copy of it back, or start a new job from a snapshot by its path"
    _, view = unseal(data, magic=RECORD_MAGIC, newest=RECORD_VERSION, what=what, advice=advice)
    try:
        return msgspec.msgpack.decode(view, type=RecordVersion)
    except msgspec.DecodeError as error:
        raise DamagedError(f"{what} is whole but malformed: {error}.") from error


class VersionedRecord:
    """A record in a store."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    @property
    def place(self) -> str:
        """Where it is, for errors and for people."""
        return self._store.place

    def read(self) -> RecordVersion | None:
        """Returns the current version, or None before the first write."""
        return self._read()[0]

    def compare_and_set(
        self, expected: RecordVersion | None, value: bytes, *, leader_epoch: int, write_id: str
    ) -> Outcome:
        """Makes `value` the successor of `expected`.

        Args:
            expected: What `read` returned; None when the record must not exist yet.
            value: The new value.
            leader_epoch: Epoch in which the caller leads.
            write_id: Never used again; says "this was us" when a reply is lost.
        """
        intended = RecordVersion(
            version=1 if expected is None else expected.version + 1,
            leader_epoch=leader_epoch,
            write_id=write_id,
            value=value,
            lineage=() if expected is None else (expected.write_id, *expected.lineage)[:LINEAGE],
        )
        return self._attempt(expected, intended)

    def settle(self, unknown: Unknown) -> Outcome:
        """Finds out the outcome of a change: reads, and repeats the very same write if need be.

        A lost request may still be on its way. Repeating it, under its own write id, is what makes
        the answer final: whichever of the two arrives, the record changes once. A store that does
        not answer leaves it unknown.
        """
        try:
            return self._attempt(unknown.expected, unknown.intended)
        except StateError:
            raise
        except PenstockError as error:
            return Unknown(unknown.expected, unknown.intended, str(error))

    def fence(self, *, leader_epoch: int, write_id: str, initial: bytes = b"") -> Outcome:
        """Rewrites the current value under a new epoch, so that older leaders are locked out."""
        current = self.read()
        value = initial if current is None else current.value
        return self.compare_and_set(current, value, leader_epoch=leader_epoch, write_id=write_id)

    def update(
        self,
        change: Callable[[bytes | None], bytes],
        *,
        leader_epoch: int,
        new_write_id: Callable[[], str],
    ) -> Outcome:
        """Applies a pure change to whatever the record says, until it sticks or we are fenced.

        For values that several writers share, such as a counter; never for the pointer, where a
        rejection means that another process leads.
        """
        while True:
            current = self.read()
            outcome = self.compare_and_set(
                current,
                change(None if current is None else current.value),
                leader_epoch=leader_epoch,
                write_id=new_write_id(),
            )
            if not isinstance(outcome, Rejected) or outcome.fenced:
                return outcome

    def _attempt(self, expected: RecordVersion | None, intended: RecordVersion) -> Outcome:
        current, cell = self._read()
        known = _known(expected, intended, current)
        if known is not None:
            return known
        try:
            self._store.swap(cell, encode_record(intended))
        except SwapRejectedError:
            # Perhaps by our own earlier request, of which the reply was lost: read on.
            pass
        except SwapUnknownError as error:
            return Unknown(expected, intended, str(error))
        try:
            current, _ = self._read()
        except StateError:
            raise
        except PenstockError as error:
            return Unknown(expected, intended, f"written, but not read back: {error}")
        known = _known(expected, intended, current)
        if known is None:
            # Refused, yet no other process has written: such a store is asked again later.
            return Unknown(expected, intended, f"{self.place} refused a write and kept its value")
        return known

    def _read(self) -> tuple[RecordVersion | None, Cell | None]:
        cell = self._store.load()
        return (None if cell is None else decode_record(cell.data, self.place)), cell


def _known(
    expected: RecordVersion | None, intended: RecordVersion, current: RecordVersion | None
) -> Outcome | None:
    """Says what `current` proves about a change; None when it can still succeed."""
    if current is not None and current.holds(intended.write_id):
        return Committed(current)
    if current is not None and current.leader_epoch > intended.leader_epoch:
        return Rejected(current, fenced=True)
    if (current is None) != (expected is None):
        return Rejected(current, fenced=False)
    if current is None or expected is None or current.write_id == expected.write_id:
        return None
    return Rejected(current, fenced=False)
