"""PyFlink's `datastream.externalized_checkpoint_retention`."""

from __future__ import annotations

from enum import Enum

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)


class ExternalizedCheckpointRetention(Enum):
    """Whether checkpoints are retained when a job ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


# The name that Flink 1 had for it.
ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
