"""A running job in a few numbers, for people: progress lines, notebooks, listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.job_metrics import late_records

if TYPE_CHECKING:
    from penstock.core.job import JobStatus
    from penstock.job.facts import JobFacts
    from penstock.job.local_job import LocalJob


@dataclass(frozen=True, slots=True)
class JobDigest:
    """A job at one moment."""

    job_id: str  # 32 hex digits.
    name: str
    status: JobStatus
    epoch: int = 0  # The last epoch that counts.
    records_read: int = 0  # Over all sources and attempts.
    records_per_second: float = 0.0  # Over the last seconds.
    # The lowest watermark; None before the first, and when the input has ended.
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None  # How far that is behind the clock, or None.
    late_records: int = 0  # Records that were dropped as late since the last restart.
    restarts: int = 0  # How often it has begun anew.
    checkpoint_id: int | None = None  # The latest completed checkpoint, or None.
    checkpoint_age_ms: int | None = None  # How long ago that was, or None.
    checkpoints_completed: int = 0  # How many there were.
    checkpoints_failed: int = 0  # How many have failed.


def digest_of(job: LocalJob, now_ms: int) -> JobDigest:
    """Returns the numbers of a job.

    Args:
        job: The job.
        now_ms: Wall time.
    """
    facts = job.facts()
    statistics = job.statistics
    latest = None if statistics is None else statistics.latest.completed
    watermark = _watermark(facts)
    return JobDigest(
        job_id=job.job_id,
        name=job.graph.job_name,
        status=facts.status,
        epoch=job.last_epoch,
        records_read=job.records_read,
        records_per_second=_records_per_second(facts),
        watermark_ms=watermark,
        watermark_lag_ms=None if watermark is None else max(now_ms - watermark, 0),
        late_records=sum(
            late.dropped for late in late_records(job.graph, facts.metrics.totals).values()
        ),
        restarts=job.restarts,
        checkpoint_id=None if latest is None else latest.checkpoint_id,
        checkpoint_age_ms=None if latest is None else max(now_ms - latest.ended_ms, 0),
        checkpoints_completed=0 if statistics is None else statistics.counts.completed,
        checkpoints_failed=0 if statistics is None else statistics.counts.failed,
    )


def _records_per_second(facts: JobFacts) -> float:
    rates = facts.metrics.rates(facts.rates_at_ms)
    return rates.per_second(
        sum(
            rates.subtask((stage.stage_id, index)).records_in
            for stage in facts.graph.stages
            if stage.is_source
            for index in range(stage.parallelism)
        )
    )


def _watermark(facts: JobFacts) -> int | None:
    """Returns the lowest of all subtasks that have one; sources need not know event time."""
    found = [
        each.watermark
        for each in facts.metrics.totals.subtasks.values()
        if MIN_WATERMARK < each.watermark < MAX_WATERMARK
    ]
    return min(found, default=None)


_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span_text(span_ms: int) -> str:
    """Returns a duration in its largest unit: `850 ms`, `12 s`, `3 h`."""
    for size, unit in _UNITS:
        if span_ms >= size:
            return f"{span_ms // size:,} {unit}"
    return f"{span_ms} ms"


def progress_text(digest: JobDigest) -> str:
    """Returns one line about a job."""
    parts = [
        digest.status.name,
        f"epoch {digest.epoch:,}",
        f"{digest.records_read:,} records",
        f"{digest.records_per_second:,.0f}/s",
    ]
    if digest.watermark_lag_ms is not None:
        parts.append(f"watermark lag {span_text(digest.watermark_lag_ms)}")
    if digest.checkpoint_id is not None and digest.checkpoint_age_ms is not None:
        age = span_text(digest.checkpoint_age_ms)
        parts.append(f"checkpoint {digest.checkpoint_id} {age} ago")
    if digest.late_records:
        parts.append(f"{digest.late_records:,} late")
    if digest.restarts:
        parts.append(f"{digest.restarts} restart{'s' if digest.restarts > 1 else ''}")
    return " · ".join(parts)
