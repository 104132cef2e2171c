"""Events and instructions of the election; `election` decides, `election_driver` obeys.

Times are those of the candidate's own monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.versioned import Outcome, RecordVersion


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed.

    Attributes:
        now_ms: The time.
    """

    now_ms: int


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """The record was read.

    Attributes:
        now_ms: The time.
        current: What it says; None before the first leader.
    """

    now_ms: int
    current: RecordVersion | None


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """A `WriteLease` has an outcome.

    Attributes:
        now_ms: The time.
        started_ms: When the request began; the lease counts from here, since others may have seen
            the new version at any time after it.
        outcome: What became of it.
    """

    now_ms: int
    started_ms: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LeaseUnavailable:
    """A read or a write failed, or the store cannot be reached.

    Attributes:
        now_ms: The time.
        reason: Why, for people.
    """

    now_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The candidate is to end in order, and to give up the lease if it has it.

    Attributes:
        now_ms: The time.
    """

    now_ms: int


Event = Ticked | LeaseRead | LeaseWritten | LeaseUnavailable | StopRequested


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the record."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Replace the record by compare-and-set.

    Attributes:
        expected: What it has to be; None when it must not exist.
        value: The new lease.
        leader_epoch: Epoch of the new version.
        write_id: Its id.
    """

    expected: RecordVersion | None
    value: bytes
    leader_epoch: int
    write_id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """This process leads from now on.

    Attributes:
        epoch: Its leader epoch, above all earlier ones.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """This process leads no more: stop all that acts for the epoch, at once.

    Attributes:
        epoch: The epoch that has ended.
        reason: Why, for people.
    """

    epoch: int
    reason: str


Instruction = ReadLease | WriteLease | Grant | Revoke
