"""The lease: one versioned record that says who leads, since which epoch, and where to reach it.

The leader epoch of the record's version is the epoch of the leadership: whoever takes the lease
writes a higher one, so no two leaderships ever share an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.envelope import DamagedError
from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.core.versioned import RecordVersion

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
