"""What notebooks show of a job and of its checkpoints; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from penstock.job.digest import span_text

if TYPE_CHECKING:
    from penstock.checkpoint.statistics import CheckpointRecord
    from penstock.job.digest import JobDigest

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
        _size(figures.state_bytes),
        _size(figures.checkpointed_bytes),
        record.failure_message or record.location,
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def _time(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
