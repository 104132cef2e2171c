"""`penstock savepoint`: takes a savepoint of a running job, or disposes one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.failures import WrongUsageError
from penstock.cli.job_ids import checked_job_id, resolve_job_id
from penstock.cli.verb import Verb, asked, service_options

if TYPE_CHECKING:
    from penstock.cli.report import Report
    from penstock.cli.rest_client import RestClient


F = TypeVar("F", bound="Callable[..., Any]")


def savepoint_options(function: F) -> F:
    """Adds how a savepoint is taken: `-type` and `-detached`."""
    for option in (
        click.option(
            "-detached", "--detached", is_flag=True, help="Print the trigger id, do not wait."
        ),
        click.option(
            "-type",
            "--type",
            "kind",
            default="canonical",
            metavar="canonical|native",
            help="Format; any state backend restores a canonical one.",
        ),
    ):
        function = option(function)
    return function


@click.command(
    "savepoint",
    cls=Verb,
    epilog="""\b
Examples:
  penstock savepoint 40dcc6                   into execution.checkpointing.savepoint-dir
  penstock savepoint 40dcc6 /backups          into a directory; it may be a URL
  penstock savepoint -detached 40dcc6         do not wait for it
  penstock savepoint -d /backups/savepoint-40dcc6-0d1b2c3a4f5e
  penstock run -d -s "$(penstock savepoint --quiet 40dcc6)" new_version.py""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.argument("directory", metavar="[<target directory>]", required=False)
@click.option("-d", "--dispose", metavar="PATH", help="Delete this savepoint instead.")
@click.option("-j", "--jarfile", hidden=True)
@savepoint_options
@service_options
def verb(**options: Any) -> None:
    """Take a savepoint while the job goes on, or dispose an existing one.

    A savepoint is yours: no job deletes it. Start a job from it with `penstock run -s`.
    """
    given = asked(options)
    client, report = given.client(), given.report
    if options["dispose"] is not None:
        _dispose(client, report, options["dispose"])
        return
    kind = checked_format(options["kind"])
    if options["job_id"] is None:
        raise WrongUsageError("Missing JobID. Specify a Job ID to trigger a savepoint.")
    job_id = resolve_job_id(client, checked_job_id(options["job_id"]))
    document = {
        "target-directory": absolute(options["directory"]),
        "cancel-job": False,
        "formatType": kind,
    }
    if options["detached"]:
        report.line(f"Triggering savepoint in detached mode for job {job_id}.")
        trigger = client.trigger(f"/jobs/{job_id}/savepoints", document)
        report.line(f"Successfully trigger manual savepoint, triggerId: {trigger}")
        report.result(trigger)
        report.document({"job_id": job_id, "trigger_id": trigger})
        return
    report.line(f"Triggering savepoint for job {job_id}.")
    report.line("Waiting for response...")
    trigger = client.trigger(f"/jobs/{job_id}/savepoints", document)
    path = client.wait(f"/jobs/{job_id}/savepoints/{trigger}")["location"]
    report.line(f"Savepoint completed. Path: {path}")
    report.line("You can resume your program from this savepoint with the run command.")
    report.result(path)
    report.document({"job_id": job_id, "path": path})


def _dispose(client: RestClient, report: Report, path: str) -> None:
    path = absolute(path) or path
    report.line(f"Disposing savepoint '{path}'.")
    report.line("Waiting for response...")
    trigger = client.trigger("/savepoint-disposal", {"savepoint-path": path})
    client.wait(f"/savepoint-disposal/{trigger}")
    report.line(f"Savepoint '{path}' disposed.")
    report.result(path)
    report.document({"disposed": path})


def absolute(path: str | None) -> str | None:
    """Returns a path that means the same to the job manager, whose directory is another one."""
    if path is not None and not path.strip():
        raise WrongUsageError("A path is empty. Is it a variable that is not set?")
    if path is None or "://" in path or path.startswith("file:"):
        return path
    return os.path.normpath(Path.cwd() / Path(path).expanduser())


def checked_format(kind: str) -> str:
    """Returns the format of a savepoint as REST wants it."""
    if kind.upper() not in ("CANONICAL", "NATIVE"):
        raise WrongUsageError(f'-type "{kind}" is not a format; it must be canonical or native.')
    return kind.upper()
