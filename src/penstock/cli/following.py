"""Follows a job that runs at a job manager: what its program prints, and how it goes.

Progress is one live line on a terminal, else a line at times.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.report import Report, printable, printable_lines
from penstock.core.job import JobStatus
from penstock.job.progress import JobDigest, progress_text

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient

ENDED: Final = ("FINISHED", "FAILED", "CANCELED")
_POLL_SECONDS: Final = 0.3
_LINE_SECONDS: Final = 10.0
_TO_START: Final = "\r\x1b[2K"
"""Erases the line on a terminal."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job has ended."""

    state: str  # FINISHED, FAILED or CANCELED.
    runtime_ms: int  # From its start to its end.
    failure: str | None = None  # What went wrong, the user's frames first; None when nothing did.


def follow(client: RestClient, job_id: str, report: Report) -> Outcome:
    """Waits for the end of a job; shows what its program prints, how it goes and what fails."""
    display = _Display(report, client.now)
    cursor, told = "", None

    def look(state: str) -> None:
        nonlocal cursor, told
        # Also after the end, which the program's last lines precede.
        while report.shows_output:
            piece = client.find(f"/jobs/{job_id}/stdout?from={cursor}") or {}
            if not piece.get("text"):
                break
            display.output(piece["text"])
            cursor = piece["next"]
        if state in ENDED:
            return
        job = client.find(f"/jobs/{job_id}") or {}
        if state == "RESTARTING":
            # A job that fails again and again would only seem to hang.
            cause = (client.find(f"/jobs/{job_id}/exceptions") or {}).get("root-exception")
            if cause and cause != told:
                display.failure(cause)
                told = cause
        display.progress(progress_line(state, job))

    try:
        state = wait_for_end(client, job_id, look)
    finally:
        display.close()
    return _outcome(client, job_id, state)


def wait_for_end(client: RestClient, job_id: str, look: Callable[[str], None] | None = None) -> str:
    """Polls until a job has ended, which the job manager bounds; returns its last state.

    Args:
        client: Of the job manager.
        job_id: Which.
        look: Is called with every state, the last one included.
    """
    pause = 0.05
    while True:
        state = str(client.get(f"/jobs/{job_id}/status")["status"])
        if look is not None:
            look(state)
        if state in ENDED:
            return state
        client.sleep(pause)
        pause = min(pause * 1.5, _POLL_SECONDS)


def progress_line(state: str, job: dict[str, Any]) -> str:
    """Returns a job in a line, given its state and its document."""
    now_ms, checkpoint_ms = job.get("now", 0), job.get("last-checkpoint-timestamp", -1)
    sources = _sources(job)
    rate = sum(_larger(vertex, "figures", "records-{}-per-second") for vertex in sources)
    digest = JobDigest(
        job_id=job.get("jid", ""),
        name=job.get("name", ""),
        status=JobStatus[state],
        runtime_ms=job.get("duration"),
        epoch=job.get("epoch", 0),
        records_read=int(sum(_larger(vertex, "metrics", "{}-records") for vertex in sources)),
        records_per_second=rate,
        restarts=job.get("restarts", 0),
        checkpoint_age_ms=max(now_ms - checkpoint_ms, 0) if checkpoint_ms > 0 else None,
    )
    return progress_text(digest)


def _sources(job: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = (job.get("plan") or {}).get("nodes", ())
    ids = {node["id"] for node in nodes if not node.get("inputs")}
    return [vertex for vertex in job.get("vertices", ()) if vertex["id"] in ids]


def _larger(vertex: dict[str, Any], group: str, name: str) -> float:
    """Returns records read or written: of sources either may be what is counted."""
    figures = vertex.get(group) or {}
    words = ("read", "write") if "{}-records" in name else ("in", "out")
    return max(float(figures.get(name.format(word)) or 0) for word in words)


def _outcome(client: RestClient, job_id: str, state: str) -> Outcome:
    result = client.find(f"/jobs/{job_id}/execution-result") or {}
    found = result.get("job-execution-result") or {}
    runtime_ms = found.get("net-runtime")
    if runtime_ms is None:
        jobs = client.get("/jobs/overview")["jobs"]
        runtime_ms = next((job["duration"] for job in jobs if job["jid"] == job_id), 0)
    failure = found.get("program-failure")
    if state == "FAILED":
        cause = found.get("failure-cause") or {}
        failure = cause.get("stack-trace") or cause.get("class")
        if failure is None:
            exceptions = client.find(f"/jobs/{job_id}/exceptions") or {}
            entries = (exceptions.get("exceptionHistory") or {}).get("entries") or []
            failure = entries[0]["stacktrace"] if entries else "no cause is known"
    return Outcome(state, int(runtime_ms), failure)


class _Display:
    """Shows what a program prints, and where its job stands: on a terminal in the last line."""

    def __init__(self, report: Report, now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._shown_at = now()
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_drawn = False
        self._is_within_line = False

    def output(self, text: str) -> None:
        """Shows what the program has printed; as JSON is wanted, not where the document goes."""
        self._erase()
        click.echo(text, nl=False, err=self._report.as_json, color=True)
        self._is_within_line = not text.endswith("\n")

    def progress(self, line: str) -> None:
        """Shows where the job stands, unless only the result is wanted."""
        if not self._report.for_people or self._is_within_line:
            return
        if self._is_live:
            width = shutil.get_terminal_size().columns
            click.echo(f"{_TO_START}{printable(line)[: width - 1]}", nl=False, err=True)
            self._is_drawn = True
        elif self._now() - self._shown_at >= _LINE_SECONDS:
            self._shown_at = self._now()
            click.echo(printable(line), err=True)

    def failure(self, cause: str) -> None:
        if self._report.for_people:
            self.close()
            self._is_within_line = False
            click.echo(f"WARNING the job restarts after: {printable_lines(cause)}", err=True)

    def close(self) -> None:
        """Leaves the cursor at the beginning of a line."""
        self._erase()
        if self._is_within_line:
            click.echo(err=self._report.as_json)

    def _erase(self) -> None:
        if self._is_drawn:
            click.echo(_TO_START, nl=False, err=True)
            self._is_drawn = False
