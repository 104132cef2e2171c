"""PyFlink's `datastream.checkpointing_mode`."""

from __future__ import annotations

from enum import Enum

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)


class CheckpointingMode(Enum):
    """What a failure may do to results. Both give exactly once here."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
