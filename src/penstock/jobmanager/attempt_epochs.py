"""In which epoch an attempt of a job writes: one number for leaders and attempts together."""

from __future__ import annotations

from typing import Final

from penstock.core.errors import PenstockError

ATTEMPT_BITS: Final = 20


def attempt_epoch(leader_epoch: int, attempt: int) -> int:
    """Returns the epoch in which an attempt writes its checkpoints.

    It rises with every attempt of a leader, and every attempt of a later leader is above it.
    """
    if attempt >= 1 << ATTEMPT_BITS:
        raise PenstockError(f"attempt {attempt} is beyond the {1 << ATTEMPT_BITS} that there are.")
    return (leader_epoch << ATTEMPT_BITS) + attempt
