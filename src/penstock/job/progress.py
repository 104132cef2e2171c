"""A running job in a few numbers, and the progress of a job that a program waits for.

Numbers (`JobDigest`) are for progress lines, notebooks and listeners.

On a terminal one line is drawn again and again; whatever else is printed meanwhile goes above it.
Elsewhere nothing is shown unless `penstock.progress: lines` asks for a line every ten seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, cast

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, SystemClock, size_text, span_text

if TYPE_CHECKING:
    from penstock.checkpoint.statistics import CheckpointRecord
    from penstock.core.job import JobStatus
    from penstock.job.record import Job, JobFacts


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


_CLEAR: Final = "\r\x1b[2K"
_TICK_S: Final = 0.25
_LINE_EVERY_S: Final = 10.0


class Display(Protocol):
    """Where progress is drawn."""

    every_s: float

    def draw(self, job: Job) -> None:
        """Shows how the job stands."""

    def close(self) -> None:
        """The job has ended."""


@contextlib.contextmanager
def shown_progress(job: Job, setting: str) -> Iterator[None]:
    """Shows the progress of a job while the program waits for it."""
    make = display_for(
        setting,
        is_terminal=_is_terminal(sys.stderr),
        in_notebook=_notebook() is not None,
        dumb=os.environ.get("TERM") == "dumb",
    )
    if make is None:
        yield
        return
    display = make()
    ended = threading.Event()

    def redraw() -> None:
        while not ended.wait(display.every_s):
            if not job.result.done():
                display.draw(job)

    thread = threading.Thread(target=redraw, name="penstock-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        display.close()


def display_for(
    setting: str, *, is_terminal: bool, in_notebook: bool, dumb: bool = False
) -> Callable[[], Display] | None:
    """Returns what makes the display; None where no progress is shown.

    Args:
        setting: `penstock.progress`.
        is_terminal: Standard error is one.
        in_notebook: The program runs in a notebook.
        dumb: The terminal cannot go back to the beginning of a line.
    """
    chosen = setting.lower()
    if chosen == "off":
        return None
    if chosen == "lines":
        return PlainLines
    if in_notebook:
        return NotebookView
    return LiveLine if is_terminal and not dumb else None


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _writable(text: str, stream: TextIO) -> str:
    """Returns a text without the characters that a stream cannot write."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def text_of(job: Job) -> str:
    """Returns the line about a job."""
    return progress_text(digest_of(job, SystemClock().wall_ms()))


class PlainLines:
    """A line on standard error now and then."""

    every_s = _LINE_EVERY_S

    def draw(self, job: Job) -> None:
        print(_writable(text_of(job), sys.stderr), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class LiveLine:
    """One line at the bottom of the terminal; output of the program goes above it.

    Standard output and error are wrapped while it is shown, if they are terminals, so that the line
    goes away before they write and comes back later.
    """

    every_s = _TICK_S

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._lock = threading.RLock()
        self._terminal: TextIO = sys.stderr
        self._out: TextIO = sys.stdout
        self._is_shown = False
        self._at_line_start = True
        self._before, self._after = (
            ("", "") if environment.get("NO_COLOR") else ("\x1b[36m", "\x1b[0m")
        )
        sys.stderr = cast("TextIO", _Above(self._terminal, self))
        if _is_terminal(self._out):
            sys.stdout = cast("TextIO", _Above(self._out, self))

    def draw(self, job: Job) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = _writable(text_of(job)[:width], self._terminal)
        with self._lock:
            if not self._at_line_start:
                return  # A half line of the program's is there.
            self._terminal.write(f"{_CLEAR}{self._before}{text}{self._after}")
            self._terminal.flush()
            self._is_shown = True

    def write(self, stream: TextIO, text: str) -> int:
        """Writes output of the program where the line was."""
        if not text:
            return 0
        with self._lock:
            self._clear()
            self._at_line_start = text.endswith("\n")
            written = stream.write(text)
            stream.flush()
            return written

    def _clear(self) -> None:
        if self._is_shown:
            self._terminal.write(_CLEAR)
            self._terminal.flush()
            self._is_shown = False

    def close(self) -> None:
        with self._lock:
            self._clear()
            for name, stream in (("stderr", self._terminal), ("stdout", self._out)):
                wrapped = getattr(sys, name)
                # Not if the program has replaced the stream meanwhile.
                if isinstance(wrapped, _Above) and wrapped.stream is stream:
                    setattr(sys, name, stream)


class _Above:
    """A stream whose output goes above the live line."""

    def __init__(self, stream: TextIO, line: LiveLine) -> None:
        self.stream = stream
        self._line = line

    def write(self, text: str) -> int:
        return self._line.write(self.stream, text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class NotebookView:
    """A table in the cell's output, replaced in place."""

    every_s = 1.0

    def __init__(self) -> None:
        self._ipython = _notebook()
        self._handle: Any = None

    def draw(self, job: Job) -> None:
        display = self._ipython.display
        shown = display.HTML(job_html(digest_of(job, SystemClock().wall_ms())))
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        if self._handle is not None:
            # What is left of the cell are the program's own results.
            self._handle.update(self._ipython.display.HTML(""))


def _notebook() -> Any:
    """Returns IPython if it runs this program as a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return ipython if shell is not None and hasattr(shell, "kernel") else None
