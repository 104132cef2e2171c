"""Documents of a job, as REST shows them: pure functions of facts, in exactly Flink's shapes.

All fields are always there: Flink's own client retries in silence when one is missing. What we add
has a name that Flink does not use. The answer to `GET /jobs/<id>/checkpoints` is the document
`checkpoints`, and so on. The process of a job writes what it knows (`writer`); REST completes it
from the record of the job (`current`).
"""

from __future__ import annotations

from typing import Final

JOB: Final = "job"
PLAN: Final = "plan"
CONFIG: Final = "config"
EFFECTIVE_CONFIG: Final = "effective-config"
EXCEPTIONS: Final = "exceptions"
METRICS: Final = "metrics"
EXECUTION_RESULT: Final = "execution-result"
CHECKPOINTS: Final = "checkpoints"
CHECKPOINT_CONFIG: Final = "checkpoint-config"

VERTEX: Final = "vertices/{vertex}"
"""Subtasks of one vertex, with records, watermark, state size and busy share."""

CHECKPOINT: Final = "checkpoints/{checkpoint}"
"""Details of one checkpoint, its tasks and their subtasks."""
