"""`penstock stop`: ends a job with a savepoint."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.failures import WrongUsageError
from penstock.cli.job_ids import checked_job_id, resolve_job_id
from penstock.cli.savepoint_verb import absolute, checked_format, savepoint_options
from penstock.cli.verb import Verb, asked, service_options


@click.command(
    "stop",
    cls=Verb,
    epilog="""\b
Examples:
  penstock stop 40dcc6                 savepoint into execution.checkpointing.savepoint-dir
  penstock stop -p /backups 40dcc6     into a directory
  penstock stop --drain 40dcc6         end event time first: all windows and timers fire;
                                       only for jobs that will not be resumed""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.option("-d", "--drain", is_flag=True, help="End event time before the savepoint.")
@click.option("-p", "--savepointPath", "directory", metavar="DIR", help="Where the savepoint goes.")
@savepoint_options
@service_options
def verb(**options: Any) -> None:
    """End a job with a savepoint from which it can go on later.

    What the job has written until then is committed; nothing after the savepoint is.
    """
    given = asked(options)
    client, report = given.client(), given.report
    kind = checked_format(options["kind"])
    if options["job_id"] is None:
        raise WrongUsageError("Missing JobID. Specify a Job ID to stop a job.")
    job_id = resolve_job_id(client, checked_job_id(options["job_id"]))
    drains, is_detached = options["drain"], options["detached"]
    verb_text = "Draining" if drains else "Suspending"
    report.line(f'{verb_text} job "{job_id}" with a {kind} savepoint.')
    mode = " in detached mode" if is_detached else ""
    report.line(f"Triggering stop-with-savepoint{mode} for job {job_id}.")
    document = {
        "targetDirectory": absolute(options["directory"]),
        "drain": drains,
        "formatType": kind,
    }
    if is_detached:
        trigger = client.trigger(f"/jobs/{job_id}/stop", document)
        report.line(
            f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger}"
        )
        report.result(trigger)
        report.document({"job_id": job_id, "trigger_id": trigger})
        return
    report.line("Waiting for response...")
    trigger = client.trigger(f"/jobs/{job_id}/stop", document)
    path = client.wait(f"/jobs/{job_id}/savepoints/{trigger}")["location"]
    report.line(f"Savepoint completed. Path: {path}")
    report.result(path)
    report.document({"job_id": job_id, "path": path})
