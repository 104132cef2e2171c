"""`penstock checkpoint`: takes a checkpoint of a running job now."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.failures import WrongUsageError
from penstock.cli.job_ids import checked_job_id, resolve_job_id
from penstock.cli.verb import Verb, asked, service_options


@click.command(
    "checkpoint",
    cls=Verb,
    epilog="""\b
Examples:
  penstock checkpoint 40dcc6
  penstock checkpoint -full 40dcc6   one that shares no files with earlier ones""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.option("-full", "--full", is_flag=True, help="Build on no earlier checkpoint.")
@service_options
def verb(job_id: str | None, full: bool, **options: Any) -> None:
    """Take a checkpoint now, beside those that the job takes by itself.

    Unlike a savepoint it belongs to the job, which deletes it when newer ones have replaced it.
    """
    given = asked(options)
    if job_id is None:
        raise WrongUsageError("Missing JobID. Specify a Job ID to manipulate a checkpoint.")
    client, report = given.client(), given.report
    whole_id = resolve_job_id(client, checked_job_id(job_id))
    report.line(f"Triggering checkpoint for job {whole_id}.")
    report.line("Waiting for response...")
    kind = "FULL" if full else "CONFIGURED"
    trigger = client.trigger(f"/jobs/{whole_id}/checkpoints", {"checkpointType": kind})
    number = client.wait(f"/jobs/{whole_id}/checkpoints/{trigger}")["checkpointId"]
    shown = "Checkpoint(FULL)" if full else "Checkpoint"
    report.line(f"{shown} {number} for job {whole_id} completed.")
    report.line("You can resume your program from this checkpoint with the run command.")
    report.result(str(number))
    report.document({"job_id": whole_id, "checkpoint_id": number})
