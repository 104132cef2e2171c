"""PyFlink's `datastream.checkpointing_mode`."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """What a failure may do to results. Both give exactly once here."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
