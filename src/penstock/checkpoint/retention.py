"""Which checkpoints outlive what.

    policy                       subsumed  FINISHED  CANCELED  FAILED  SUSPENDED
    NO_EXTERNALIZED_CHECKPOINTS  delete    delete    delete    delete  delete
    DELETE_ON_CANCELLATION       delete    delete    delete    keep    delete
    RETAIN_ON_CANCELLATION       delete    delete    keep      keep    keep
    any savepoint                keep      keep      keep      keep    keep

Losing the job manager under high availability is no ending: nobody asks this table then.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.core.job import JobStatus


class RetentionPolicy(Enum):
    """Flink's `externalized-checkpoint-retention`."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


ENDINGS: Final = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)
"""The states in which a job has ended, in the order of the table."""

_KEPT: Final = {
    RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS: frozenset[JobStatus](),
    RetentionPolicy.DELETE_ON_CANCELLATION: frozenset({JobStatus.FAILED}),
    RetentionPolicy.RETAIN_ON_CANCELLATION: frozenset(
        {JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED}
    ),
}


def is_kept(policy: RetentionPolicy, ending: JobStatus) -> bool:
    """Whether checkpoints stay when the job ends so. Savepoints always stay."""
    assert ending in ENDINGS, f"{ending} is no ending"
    return ending in _KEPT[policy]
