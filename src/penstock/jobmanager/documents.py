"""Names of a job's documents: what the driver of a job writes and REST shows, as JSON.

The answer to `GET /jobs/<id>/checkpoints` is the document `checkpoints`, and so on; `rest.views`
makes them from the facts of a job, `launch` writes them into the job's directory.
"""

from __future__ import annotations

from typing import Final

JOB: Final = "job"
PLAN: Final = "plan"
CONFIG: Final = "config"
EFFECTIVE_CONFIG: Final = "effective-config"
EXCEPTIONS: Final = "exceptions"
METRICS: Final = "metrics"
ACCUMULATORS: Final = "accumulators"
EXECUTION_RESULT: Final = "execution-result"
CHECKPOINTS: Final = "checkpoints"
CHECKPOINT_CONFIG: Final = "checkpoint-config"

VERTEX: Final = "vertices/{vertex}"
"""Subtasks of one vertex, with records, watermark, state size and busy share."""

CHECKPOINT: Final = "checkpoints/{checkpoint}"
"""Details of one checkpoint, its tasks and their subtasks."""
