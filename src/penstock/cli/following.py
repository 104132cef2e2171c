"""Follows a job that runs at a job manager: one live line on a terminal, else a line at times."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.tables import printable, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.cli.report import Report
    from penstock.cli.rest_client import RestClient

    Show = Callable[[str], None]

ENDED: Final = ("FINISHED", "FAILED", "CANCELED")
_POLL_SECONDS: Final = 0.3
_LINE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job has ended.

    Attributes:
        state: FINISHED, FAILED or CANCELED.
        runtime_ms: From its start to its end.
        failure: What went wrong, the user's frames first; None when nothing did.
    """

    state: str
    runtime_ms: int
    failure: str | None = None


def follow(client: RestClient, job_id: str, report: Report) -> Outcome:
    """Waits for the end of a job and shows how it goes."""
    with _progress(report, client.now) as show:
        state = wait_for_end(client, job_id, show)
    return _outcome(client, job_id, state)


def wait_for_end(client: RestClient, job_id: str, show: Show | None = None) -> str:
    """Polls until a job has ended, which the job manager bounds; returns its last state."""
    pause = 0.05
    while True:
        state = str(client.get(f"/jobs/{job_id}/status")["status"])
        if state in ENDED:
            return state
        if show is not None:
            show(progress_line(state, client.find(f"/jobs/{job_id}") or {}))
        client.sleep(pause)
        pause = min(pause * 1.5, _POLL_SECONDS)


def progress_line(state: str, job: dict[str, Any]) -> str:
    """Returns the state of a job in a line: time, records, watermark, checkpoint, restarts."""
    parts = [state]
    if job.get("duration", -1) >= 0:
        parts.append(span(job["duration"]))
    if job.get("epoch"):
        parts.append(f"epoch {job['epoch']:,}")
    sources = _sources(job)
    if sources:
        records = sum(_larger(vertex, "metrics", "{}-records") for vertex in sources)
        rate = sum(_larger(vertex, "figures", "records-{}-per-second") for vertex in sources)
        parts.append(f"{records:,.0f} records ({rate:,.0f}/s)")
    checkpoint_ms = job.get("last-checkpoint-timestamp", -1)
    if checkpoint_ms > 0 and job.get("now"):
        parts.append(f"checkpoint {span(max(job['now'] - checkpoint_ms, 0))} ago")
    if job.get("restarts"):
        parts.append(f"{job['restarts']} restarts")
    return " · ".join(parts)


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
    failure = None
    if state == "FAILED":
        cause = found.get("failure-cause") or {}
        failure = cause.get("stack-trace") or cause.get("class")
        if failure is None:
            exceptions = client.find(f"/jobs/{job_id}/exceptions") or {}
            entries = (exceptions.get("exceptionHistory") or {}).get("entries") or []
            failure = entries[0]["stacktrace"] if entries else "no cause is known"
    return Outcome(state, int(runtime_ms), failure)


@contextmanager
def _progress(report: Report, now: Callable[[], float]) -> Iterator[Show | None]:
    """Yields what shows a line, or None when nobody wants to see it."""
    if not report.for_people:
        yield None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True)
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda line: live.update(
                Text(printable(line), style="cyan", no_wrap=True, overflow="ellipsis")
            )
    else:
        shown_at = now()

        def show(line: str) -> None:
            nonlocal shown_at
            if now() - shown_at >= _LINE_SECONDS:
                shown_at = now()
                click.echo(printable(line), err=True)

        yield show
