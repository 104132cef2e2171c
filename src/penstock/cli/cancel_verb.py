"""`penstock cancel`: ends a job without a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import RequestFailedError, WrongUsageError
from penstock.cli.following import wait_for_end
from penstock.cli.job_ids import checked_job_id, resolve_job_id
from penstock.cli.savepoint_verb import absolute
from penstock.cli.verb import Verb, asked, service_options

if TYPE_CHECKING:
    from penstock.cli.report import Report
    from penstock.cli.rest_client import RestClient


@click.command(
    "cancel",
    cls=Verb,
    epilog="""\b
Examples:
  penstock cancel 40dcc6
  penstock stop 40dcc6      to end it with a savepoint instead""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.option(
    "-s",
    "--withSavepoint",
    "directory",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[DIR]",
    help="Deprecated, use stop: take a savepoint first.",
)
@service_options
def verb(job_id: str | None, directory: str | None, **options: Any) -> None:
    """End a job without a savepoint.

    Its checkpoints are deleted, unless execution.checkpointing.externalized-checkpoint-retention
    says RETAIN_ON_CANCELLATION. A cancelled job does not come back.
    """
    given = asked(options)
    if job_id is None and directory:
        job_id, directory = directory, ""  # As in Flink: `cancel -s <job id>`.
    if job_id is None:
        raise WrongUsageError("Missing JobID. Specify a JobID to cancel a job.")
    client, report = given.client(), given.report
    whole_id = resolve_job_id(client, checked_job_id(job_id))
    if directory is not None:
        _cancel_with_savepoint(client, report, whole_id, directory)
        return
    report.line(f"Cancelling job {whole_id}.")
    client.patch(f"/jobs/{whole_id}?mode=cancel")
    status = wait_for_end(client, whole_id)
    if status in ("FINISHED", "FAILED"):
        raise RequestFailedError(f"Job {whole_id} had ended before: it is {status}.")
    report.line(f"Cancelled job {whole_id}.")
    report.result(whole_id)
    report.document({"job_id": whole_id, "state": status})


def _cancel_with_savepoint(client: RestClient, report: Report, job_id: str, directory: str) -> None:
    report.line(
        'DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.'
    )
    target = absolute(directory) if directory else None
    place = target or "default savepoint directory"
    report.line(f"Cancelling job {job_id} with CANONICAL savepoint to {place}.")
    document = {"target-directory": target, "cancel-job": True, "formatType": "CANONICAL"}
    trigger = client.trigger(f"/jobs/{job_id}/savepoints", document)
    path = client.wait(f"/jobs/{job_id}/savepoints/{trigger}")["location"]
    report.line(f"Cancelled job {job_id}. Savepoint stored in {path}.")
    report.result(path)
    report.document({"job_id": job_id, "path": path})
