"""A running job in a few numbers, for people: progress lines, notebooks, listeners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from penstock.core.duration import size_text, span_text
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from penstock.checkpoint.statistics import CheckpointRecord
    from penstock.core.job import JobStatus
    from penstock.job.facts import JobFacts
    from penstock.job.record import Job


@dataclass(frozen=True, slots=True)
class JobDigest:
    """A job at one moment."""

    job_id: str  # 32 hex digits.
    name: str
    status: JobStatus
    runtime_ms: int | None = None  # Since its start, up to its end.
    epoch: int = 0  # The last epoch that counts.
    records_read: int = 0  # Over all sources and attempts.
    records_per_second: float = 0.0  # Over the last seconds.
    # The lowest watermark; None before the first, and when the input has ended.
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None  # How far that is behind the clock, or None.
    late_records: int = 0  # Records that were dropped as late since the last restart.
    restarts: int = 0  # How often it was restarted.
    checkpoint_id: int | None = None  # The latest completed checkpoint, or None.
    checkpoint_age_ms: int | None = None  # How long ago that was, or None.
    checkpoints_completed: int = 0  # How many there were.
    checkpoints_failed: int = 0  # How many have failed.


def digest_of(job: Job, now_ms: int) -> JobDigest:
    """Returns the numbers of a job.

    Args:
        job: The job.
        now_ms: Wall time.
    """
    # Here, so that the command line can import this module at no cost.
    from penstock.runtime.job_metrics import late_records

    facts = job.facts()
    record = facts.record
    statistics = job.statistics
    latest = None if statistics is None else statistics.latest.completed
    watermark = _watermark(facts)
    return JobDigest(
        job_id=job.job_id,
        name=job.graph.job_name,
        status=record.status,
        runtime_ms=(now_ms if record.ended_ms is None else record.ended_ms) - record.submitted_ms,
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


def progress_text(digest: JobDigest) -> str:
    """Returns one line about a job; what is not known is left out."""
    parts = [digest.status.name]
    if digest.runtime_ms is not None:
        parts.append(span_text(digest.runtime_ms))
    if digest.epoch:
        read = f"{digest.records_read:,} records ({digest.records_per_second:,.0f}/s)"
        parts += [f"epoch {digest.epoch:,}", read]
    if digest.watermark_lag_ms is not None:
        parts.append(f"watermark lag {span_text(digest.watermark_lag_ms)}")
    if digest.checkpoint_age_ms is not None:
        number = "" if digest.checkpoint_id is None else f" {digest.checkpoint_id}"
        parts.append(f"checkpoint{number} {span_text(digest.checkpoint_age_ms)} ago")
    if digest.late_records:
        parts.append(f"{digest.late_records:,} late")
    if digest.restarts:
        parts.append(f"{digest.restarts} restart{'s' if digest.restarts > 1 else ''}")
    return " · ".join(parts)


_COLUMNS: Final = ("id", "kind", "status", "triggered (UTC)", "took", "size", "new", "where or why")
_SHOWN: Final = 20


def job_html(digest: JobDigest) -> str:
    """Returns a table of the numbers of a job."""
    rows = {
        "state": digest.status.name,
        "epoch": f"{digest.epoch:,}",
        "records": f"{digest.records_read:,}",
        "records a second": f"{digest.records_per_second:,.0f}",
    }
    if digest.watermark_ms is not None and digest.watermark_lag_ms is not None:
        shown = f"{_time(digest.watermark_ms)}, {span_text(digest.watermark_lag_ms)} behind"
        rows["watermark"] = shown
    if digest.checkpoint_id is not None and digest.checkpoint_age_ms is not None:
        age = span_text(digest.checkpoint_age_ms)
        rows["last checkpoint"] = f"{digest.checkpoint_id}, {age} ago"
    if digest.checkpoints_completed or digest.checkpoints_failed:
        rows["checkpoints"] = (
            f"{digest.checkpoints_completed} completed, {digest.checkpoints_failed} failed"
        )
    if digest.restarts:
        rows["restarts"] = str(digest.restarts)
    body = "".join(
        f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items()
    )
    caption = f"{escape(digest.name)} <small>{escape(digest.job_id)}</small>"
    return f"<table><caption>{caption}</caption>{body}</table>"


def checkpoints_html(records: Iterable[CheckpointRecord]) -> str:
    """Returns a table of checkpoints, in the order given."""
    listed = list(records)
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(map(_row, listed[:_SHOWN]))
    if not listed:
        rows = f'<tr><td colspan="{len(_COLUMNS)}">no checkpoint was triggered yet</td></tr>'
    elif len(listed) > _SHOWN:
        more = f"and {len(listed) - _SHOWN} older ones"
        rows += f'<tr><td colspan="{len(_COLUMNS)}">{more}</td></tr>'
    return f"<table><caption>Checkpoints</caption><tr>{head}</tr>{rows}</table>"


def _row(record: CheckpointRecord) -> str:
    figures = record.figures
    cells = (
        str(record.checkpoint_id),
        record.kind.value.lower(),
        record.status,
        _time(record.triggered_ms),
        span_text(record.duration_ms),
        size_text(figures.state_bytes),
        size_text(figures.checkpointed_bytes),
        record.failure_message or record.location,
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _time(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
