"""`penstock list`: the jobs of a job manager, in Flink's lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from penstock.cli.report import printable
from penstock.cli.verb import Verb, asked, service_options

_TERMINATED: Final = ("FINISHED", "FAILED", "CANCELED")
_RULE: Final = "-" * 62


@click.command(
    "list",
    cls=Verb,
    epilog="""\b
Examples:
  penstock list                     running and scheduled jobs
  penstock list -a                  jobs that have ended, too
  penstock list -m other-host:8081  of another job manager
  penstock list --json | jq -r '.jobs[].id'""",
)
@click.option("-r", "--running", is_flag=True, help="Only running and restarting jobs.")
@click.option("-s", "--scheduled", is_flag=True, help="Only scheduled jobs.")
@click.option("-a", "--all", "everything", is_flag=True, help="Jobs that have ended, too.")
@service_options
def list_verb(running: bool, scheduled: bool, everything: bool, **options: Any) -> None:
    """List running and scheduled jobs with their ids.

    Each line says when the job began, its id, its name and its state. Other actions take the id,
    or its first six or more digits.
    """
    given = asked(options)
    client, report = given.client(), given.report
    report.line("Waiting for response...")
    jobs = sorted(client.get("/jobs/overview")["jobs"], key=_order)
    chosen = {
        "Running/Restarting": [job for job in jobs if _is_running(job)],
        "Scheduled": [job for job in jobs if job["state"] == "CREATED"],
        "Terminated": [job for job in jobs if job["state"] in _TERMINATED],
    }
    both = not (running or scheduled)
    if not (running or both or everything):
        del chosen["Running/Restarting"]
    if not (scheduled or both or everything):
        del chosen["Scheduled"]
    if not everything:
        del chosen["Terminated"]
    for title, section in chosen.items():
        if section:
            report.line(f" {title} Jobs ".center(62, "-"))
            for job in section:
                report.line(_line(job))
            report.line(_RULE)
        elif title != "Terminated":
            report.line(f"No {title.split('/')[0].lower()} jobs.")
    listed = [job for section in chosen.values() for job in section]
    for job in listed:
        report.result(job["jid"])
    if report.as_json:
        documents = [
            client.get(f"/jobs/{job['jid']}") if job["state"] == "RUNNING" else {} for job in listed
        ]
        report.document({"jobs": list(map(_plain, listed, documents))})


def _order(job: dict[str, Any]) -> tuple[int, str]:
    return job["start-time"], job["state"]


def _is_running(job: dict[str, Any]) -> bool:
    return job["state"] != "CREATED" and job["state"] not in _TERMINATED


def _line(job: dict[str, Any]) -> str:
    started = datetime.fromtimestamp(job["start-time"] / 1000, UTC).astimezone()
    name = printable(job["name"])
    return f"{started:%d.%m.%Y %H:%M:%S} : {job['jid']} : {name} ({job['state']})"


def _plain(job: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    figures = [vertex["figures"] for vertex in document.get("vertices", ())]
    pending = [
        each["pending-records"] for each in figures if each.get("pending-records") is not None
    ]
    return {
        "id": job["jid"],
        "name": job["name"],
        "state": job["state"],
        "start_time_ms": job["start-time"],
        "end_time_ms": job["end-time"],
        "duration_ms": job["duration"],
        # What sources know of records that they have not read yet: the lag of Kafka.
        "pending_records": sum(pending) if pending else None,
    }
