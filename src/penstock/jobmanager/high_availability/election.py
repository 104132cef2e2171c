"""Who leads: a pure decider over one lease record.

1. A candidate reads the lease again and again. A version that it has seen unchanged for the whole
   timeout, by its own clock, belongs to a leader that is gone; a released one, to no candidate.
2. It writes itself in by compare-and-set, with the next leader epoch. If that is confirmed, it
   leads, counted from the moment at which the write *began*.
3. The leader renews the lease six times in a timeout. Without a confirmed renewal for two thirds of
   it, the leader steps down by its own clock, whether or not anybody tells it anything.

Invariants:
* An epoch is granted once, to one candidate: only the write that made the version with that epoch
  grants it, and only while the time counted from that write has not run out.
* The leader's time runs out before any other candidate may take over, as long as clocks differ in
  speed by less than a third.
* A lease is no fence. What the leader writes elsewhere carries its epoch and is compared there.
* At most one request is under way. The outcome of a lost one is found by reading: the lease
  names its holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from penstock.core.codec import DamagedError
from penstock.core.errors import ConfigurationError
from penstock.core.versioned import Committed, Outcome, RecordVersion, Rejected

LEAST_TIMEOUT_MS: Final = 500
_LONGEST_POLL_MS: Final = 500


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Content of the record."""

    holder: str  # Id of the candidate; never used again.
    address: str  # URL of its REST interface.
    timeout_ms: int  # How long others wait for a sign of life before they take over.
    is_released: bool = False  # The holder has released it; there is no leader.


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Spans of an election, all derived from one timeout."""

    timeout_ms: int  # A lease without a sign of life for this long may be taken over.

    def __post_init__(self) -> None:
        if self.timeout_ms < LEAST_TIMEOUT_MS:
            raise ConfigurationError(
                f"the lease of the leader has a timeout of {self.timeout_ms} ms; it must be at "
                f"least {LEAST_TIMEOUT_MS} ms, since a leader renews it six times in that span."
            )

    @property
    def step_down_ms(self) -> int:
        """A leader without a confirmed renewal for this long leads no more, by its own clock.

        The last third covers clocks that run at different speeds.
        """
        return self.timeout_ms * 2 // 3

    @property
    def renew_ms(self) -> int:
        """From one renewal to the next: four of them fit before the leader steps down."""
        return self.timeout_ms // 6

    @property
    def poll_ms(self) -> int:
        """From one look at the lease to the next, for those who do not lead."""
        return min(_LONGEST_POLL_MS, self.timeout_ms // 10)


def encode_lease(lease: Lease) -> bytes:
    """Returns the stored form."""
    return msgspec.msgpack.encode(lease)


def decode_lease(version: RecordVersion) -> Lease:
    """Reads the lease out of a version of its record.

    Raises:
        DamagedError: It is no lease.
    """
    try:
        return msgspec.msgpack.decode(version.value, type=Lease)
    except msgspec.DecodeError as error:
        raise DamagedError(f"the leader's lease is whole but malformed: {error}.") from error


class Election:
    """One candidate.

    Args:
        candidate: Its id; never used again, so a restarted process is another candidate.
        address: URL of its REST interface.
        times: Spans.
    """

    def __init__(self, candidate: str, address: str, times: LeaseTimes) -> None:
        self.candidate = candidate
        self.address = address
        self.times = times
        self.problem: str | None = None
        """Why the lease cannot be read or written at present."""
        self.is_stopped = False
        self._is_stopping = False
        self._is_releasing = False
        self._is_busy = False
        self._next_ms = 0
        self._writes = 0
        self._seen: RecordVersion | None = None
        self._lease: Lease | None = None
        self._seen_since_ms = 0
        # Set while a claim is under way, and while leading.
        self._claimed: int | None = None
        self._epoch: int | None = None
        self._deadline_ms = 0

    # -- what others ask ----------------------------------------------------------------------

    def leading_epoch(self, now_ms: int) -> int | None:
        """Returns the epoch in which the candidate leads now; None when it does not.

        It looks at the time itself: after a long sleep the answer is right before the first tick.
        """
        return self._epoch if now_ms < self._deadline_ms else None

    def leader_address(self, now_ms: int) -> str | None:
        """Returns where the leader is; None without a leader or when its time has run out."""
        lease = self._lease
        if lease is None or lease.is_released:
            return None
        if lease.holder == self.candidate:
            return self.address if self.leading_epoch(now_ms) is not None else None
        return lease.address if now_ms < self._takeover_ms(lease) else None

    def next_wake_ms(self) -> int | None:
        """Returns when to tick next; None when only an answer can bring something new."""
        times = [] if self._is_busy or self.is_stopped else [self._next_ms]
        if self._epoch is not None:
            times.append(self._deadline_ms)
        return min(times, default=None)

    # -- deciding -----------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Instruction]:
        """Takes in what has happened and says what to do, in this order."""
        found: list[Instruction] = []
        if not isinstance(event, TimePassed | ResignRequested):
            self._is_busy = False
        # An answer that comes after the end of the time changes nothing about that.
        if self._epoch is not None and event.now_ms >= self._deadline_ms:
            late_ms = event.now_ms - self._deadline_ms + self.times.step_down_ms
            found.append(self._revoke(f"the lease was not renewed for {late_ms} ms"))
        match event:
            case LeaseRead(now_ms, current):
                self.problem = None
                found.extend(self._on_read(now_ms, current))
            case LeaseWritten():
                found.extend(self._on_written(event))
            case LeaseUnavailable(now_ms, reason):
                self.problem = reason
                self._claimed = None
                self._next_ms = now_ms + self.times.poll_ms
                self.is_stopped = self._is_stopping
            case ResignRequested():
                self._is_stopping = True
                self._next_ms = event.now_ms
                if self._epoch is not None:
                    found.append(self._revoke("this job manager is stopping"))
            case TimePassed():
                pass
        if not self._is_busy and not self.is_stopped and event.now_ms >= self._next_ms:
            found.append(self._ask())
        return found

    def _ask(self) -> Instruction:
        # The leader knows what the record says, unless its last write had no clear outcome.
        if self._epoch is not None and self._seen is not None and self.problem is None:
            return self._write(self._seen, self._epoch)
        self._is_busy = True
        return ReadLease()

    def _on_read(self, now_ms: int, current: RecordVersion | None) -> list[Instruction]:
        self._see(now_ms, current)
        lease = self._lease
        is_ours = lease is not None and lease.holder == self.candidate
        if self._is_stopping:
            if is_ours and lease is not None and current is not None and not lease.is_released:
                self._is_releasing = True
                return [self._write(current, current.leader_epoch, is_released=True)]
            self.is_stopped = True
            return []
        if self._epoch is not None:
            if current is not None and is_ours and current.leader_epoch == self._epoch:
                return [self._write(current, self._epoch)]
            return [self._revoke(self._describe_other())]
        # A lease of our own with which we no longer lead: no other candidate has taken it since.
        if lease is None or lease.is_released or is_ours or now_ms >= self._takeover_ms(lease):
            self._claimed = 1 if current is None else current.leader_epoch + 1
            return [self._write(current, self._claimed)]
        self._next_ms = min(now_ms + self.times.poll_ms, self._takeover_ms(lease))
        return []

    def _on_written(self, event: LeaseWritten) -> list[Instruction]:
        claimed, self._claimed = self._claimed, None
        now_ms = event.now_ms
        # Read next, unless it is known what the record says.
        self._next_ms = now_ms
        outcome = event.outcome
        if self._is_stopping:
            # A release without a clear outcome is left alone: others wait for the timeout then.
            self.is_stopped = self._is_releasing
            return []
        if isinstance(outcome, Rejected):
            self._see(now_ms, outcome.current)
            return [] if self._epoch is None else self._unless_ours(outcome.current)
        if not isinstance(outcome, Committed):
            self.problem = outcome.reason
            self._next_ms = now_ms + self.times.poll_ms
            return []
        return self._on_confirmed(event, outcome.current, claimed)

    def _on_confirmed(
        self, event: LeaseWritten, current: RecordVersion, claimed: int | None
    ) -> list[Instruction]:
        now_ms = event.now_ms
        self.problem = None
        self._see(now_ms, current)
        epoch = claimed if claimed is not None else self._epoch
        if epoch is None or current.leader_epoch != epoch:
            return [] if self._epoch is None else self._unless_ours(current)
        deadline_ms = event.started_ms + self.times.step_down_ms
        if now_ms >= deadline_ms:
            # Confirmed too late to lead with it: read, and claim the next epoch.
            return []
        self._deadline_ms = deadline_ms
        self._next_ms = max(now_ms, event.started_ms + self.times.renew_ms)
        if claimed is None:
            return []
        self._epoch = epoch
        return [Grant(epoch)]

    # -- details ------------------------------------------------------------------------------

    def _unless_ours(self, current: RecordVersion | None) -> list[Instruction]:
        """Steps down when the record says that another leadership has begun."""
        lease = self._lease
        is_ours = lease is not None and lease.holder == self.candidate
        if current is not None and is_ours and current.leader_epoch == self._epoch:
            return []
        return [self._revoke(self._describe_other())]

    def _describe_other(self) -> str:
        if self._lease is None or self._seen is None:
            return "the lease has vanished"
        return f"{self._lease.address} leads in epoch {self._seen.leader_epoch}"

    def _see(self, now_ms: int, current: RecordVersion | None) -> None:
        known = None if self._seen is None else self._seen.write_id
        if current is None or current.write_id != known:
            self._seen_since_ms = now_ms
        self._seen = current
        self._lease = None if current is None else decode_lease(current)

    def _takeover_ms(self, lease: Lease) -> int:
        # The longer of the two timeouts, should candidates be configured differently.
        return self._seen_since_ms + max(self.times.timeout_ms, lease.timeout_ms)

    def _write(
        self, expected: RecordVersion | None, epoch: int, *, is_released: bool = False
    ) -> WriteLease:
        self._is_busy = True
        self._writes += 1
        lease = Lease(
            holder=self.candidate,
            address=self.address,
            timeout_ms=self.times.timeout_ms,
            is_released=is_released,
        )
        return WriteLease(expected, encode_lease(lease), epoch, f"{self.candidate}-{self._writes}")

    def _revoke(self, reason: str) -> Revoke:
        assert self._epoch is not None
        epoch, self._epoch = self._epoch, None
        return Revoke(epoch, reason)


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """The record was read."""

    now_ms: int
    current: RecordVersion | None  # What it says; None before the first leader.


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """A `WriteLease` has an outcome."""

    now_ms: int
    # When the request began; the lease counts from here, since others may have seen the new version
    # at any time after it.
    started_ms: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LeaseUnavailable:
    """A read or a write failed, or the store cannot be reached."""

    now_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """The candidate is to end in order, and to give up the lease if it has it."""

    now_ms: int


Event = TimePassed | LeaseRead | LeaseWritten | LeaseUnavailable | ResignRequested


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the record."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Replace the record by compare-and-set."""

    expected: RecordVersion | None  # What it has to be; None when it must not exist.
    value: bytes
    leader_epoch: int  # Epoch of the new version.
    write_id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """This process leads from now on."""

    epoch: int  # Its leader epoch, above all earlier ones.


@dataclass(frozen=True, slots=True)
class Revoke:
    """This process leads no more: stop all that acts for the epoch, at once."""

    epoch: int  # The epoch that has ended.
    reason: str


Instruction = ReadLease | WriteLease | Grant | Revoke
