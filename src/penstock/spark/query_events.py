"""A job's life as the events that Spark tells listeners of streaming queries about.

One epoch is one batch. Our own figures lie under `observedMetrics["penstock"]`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

if TYPE_CHECKING:
    from penstock.runtime.job_state import EpochSummary


class QueryEvents:
    """Makes the events of one job.

    Args:
        job_id: 32 hex digits; the query's id.
        name: The query's name.
    """

    def __init__(self, job_id: str, name: str) -> None:
        self._id = uuid.UUID(hex=job_id)
        self._name = name

    def _run_id(self, attempt: int) -> uuid.UUID:
        return uuid.uuid5(self._id, str(attempt))

    def started(self, attempt: int, now_ms: int) -> QueryStartedEvent:
        """An attempt runs."""
        return QueryStartedEvent(
            self._id, self._run_id(attempt), self._name, _iso(now_ms), {"penstock"}
        )

    def idle(self, attempt: int, now_ms: int) -> QueryIdleEvent:
        """There has been no input for a while."""
        return QueryIdleEvent(self._id, self._run_id(attempt), _iso(now_ms))

    def terminated(self, attempt: int, error: BaseException | None) -> QueryTerminatedEvent:
        """The job has ended."""
        text = None if error is None else str(error)
        kind = None if error is None else type(error).__name__
        return QueryTerminatedEvent(self._id, self._run_id(attempt), text, kind)

    def progress(  # noqa: PLR0913 - the parts of one event
        self,
        summary: EpochSummary,
        *,
        attempt: int,
        now_ms: int,
        watermark_ms: int | None,
        sources: Mapping[str, tuple[int, float]],
        sinks: Mapping[str, int],
        figures: Mapping[str, Any],
    ) -> QueryProgressEvent:
        """An epoch counts.

        Args:
            summary: Of the epoch.
            attempt: Number of the attempt.
            now_ms: Wall time.
            watermark_ms: The lowest watermark, or None.
            sources: By name: records read in this epoch, and records a second of late.
            sinks: By name: records written in this epoch.
            figures: What lies under `observedMetrics["penstock"]`.
        """
        processed_s = max(summary.duration_ms, 1) / 1000
        times = {} if watermark_ms is None else {"watermark": _iso(watermark_ms)}
        progress = {
            "id": str(self._id),
            "runId": str(self._run_id(attempt)),
            "name": self._name,
            "timestamp": _iso(now_ms),
            "batchId": summary.epoch,
            "batchDuration": summary.duration_ms,
            "durationMs": {"triggerExecution": summary.duration_ms},
            "eventTime": times,
            "stateOperators": [],
            "sources": [
                {
                    "description": name,
                    "startOffset": "",
                    "endOffset": "",
                    "latestOffset": "",
                    "numInputRows": records,
                    "inputRowsPerSecond": per_second,
                    "processedRowsPerSecond": records / processed_s,
                }
                for name, (records, per_second) in sources.items()
            ],
            "sink": {"description": ", ".join(sinks), "numOutputRows": sum(sinks.values())},
            "numInputRows": summary.records_read,
            "inputRowsPerSecond": sum(per_second for _, per_second in sources.values()),
            "processedRowsPerSecond": summary.records_read / processed_s,
            "observedMetrics": {"penstock": dict(figures)},
        }
        return QueryProgressEvent.fromJson({"progress": progress})


def _iso(time_ms: int) -> str:
    """Writes a time as Spark does; times that no calendar has are left empty."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
