"""`penstock list`, `savepoint`, `checkpoint`, `stop`, `cancel`, `rescale`: steering jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.following import ENDED, wait_for_end
from penstock.cli.named import absolute, checked_job_id, resolve_job_id
from penstock.cli.report import Report, RequestFailedError, WrongUsageError, printable
from penstock.cli.verb import Verb, asked, service_options, several

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient


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
        "Terminated": [job for job in jobs if job["state"] in ENDED],
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
    return job["state"] != "CREATED" and job["state"] not in ENDED


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


savepoint_options: Final = several(
    click.option(
        *("-type", "--type", "kind"),
        default="canonical",
        metavar="canonical|native",
        help="Format; any state backend restores a canonical one.",
    ),
    click.option(
        "-detached", "--detached", is_flag=True, help="Print the trigger id without waiting."
    ),
)


@click.command(
    "savepoint",
    cls=Verb,
    epilog="""\b
Examples:
  penstock savepoint 40dcc6                   into execution.checkpointing.savepoint-dir
  penstock savepoint 40dcc6 /backups          into a directory; it may be a URL
  penstock savepoint -detached 40dcc6         without waiting for it
  penstock savepoint -d /backups/savepoint-40dcc6-0d1b2c3a4f5e
  penstock run -d -s "$(penstock savepoint --quiet 40dcc6)" new_version.py""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.argument("directory", metavar="[<target directory>]", required=False)
@click.option("-d", "--dispose", metavar="PATH", help="Delete this savepoint instead.")
@click.option("-j", "--jarfile", hidden=True)
@savepoint_options
@service_options
def savepoint_verb(**options: Any) -> None:
    """Take a savepoint while the job continues, or dispose of an existing one.

    You own a savepoint: no job deletes it. To start a job from it, use `penstock run -s`.
    """
    given = asked(options)
    client, report = given.client(), given.report
    if options["dispose"] is not None:
        _dispose(client, report, options["dispose"])
        return
    kind = checked_format(options["kind"])
    job_id = _whole_id(client, options["job_id"], "Specify a Job ID to trigger a savepoint.")
    document = {
        "target-directory": absolute(options["directory"]),
        "cancel-job": False,
        "formatType": kind,
    }
    if options["detached"]:
        report.line(f"Triggering savepoint in detached mode for job {job_id}.")
        trigger = client.trigger(f"/jobs/{job_id}/savepoints", document)
        report.line(f"Successfully trigger manual savepoint, triggerId: {trigger}")
        _say_trigger(report, job_id, trigger)
        return
    report.line(f"Triggering savepoint for job {job_id}.")
    report.line("Waiting for response...")
    path = _saved(client, job_id, "savepoints", document)
    report.line(f"Savepoint completed. Path: {path}")
    report.line("You can resume your program from this savepoint with the run command.")
    _say_path(report, job_id, path)


def _whole_id(client: RestClient, text: str | None, missing: str) -> str:
    """Returns the id of a job that was named, if one was."""
    if text is None:
        raise WrongUsageError(f"Missing JobID. {missing}")
    return resolve_job_id(client, checked_job_id(text))


def _saved(client: RestClient, job_id: str, what: str, document: dict[str, Any]) -> str:
    """Takes a savepoint, or stops with one; returns its path."""
    trigger = client.trigger(f"/jobs/{job_id}/{what}", document)
    return str(client.wait(f"/jobs/{job_id}/savepoints/{trigger}")["location"])


def _say_trigger(report: Report, job_id: str, trigger: str) -> None:
    report.result(trigger)
    report.document({"job_id": job_id, "trigger_id": trigger})


def _say_path(report: Report, job_id: str, path: str) -> None:
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


def checked_format(kind: str) -> str:
    """Returns the format of a savepoint as REST wants it."""
    if kind.upper() not in ("CANONICAL", "NATIVE"):
        raise WrongUsageError(f'-type "{kind}" is not a format; it must be canonical or native.')
    return kind.upper()


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
@click.option("-p", "--savepointPath", "directory", metavar="DIR", help="Savepoint directory.")
@savepoint_options
@service_options
def stop_verb(**options: Any) -> None:
    """End a job with a savepoint from which you can resume it later.

    The output before the savepoint is committed; no record after it is processed.
    """
    given = asked(options)
    client, report = given.client(), given.report
    kind = checked_format(options["kind"])
    job_id = _whole_id(client, options["job_id"], "Specify a Job ID to stop a job.")
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
        _say_trigger(report, job_id, trigger)
        return
    report.line("Waiting for response...")
    path = _saved(client, job_id, "stop", document)
    report.line(f"Savepoint completed. Path: {path}")
    _say_path(report, job_id, path)


@click.command(
    "cancel",
    cls=Verb,
    epilog="""\b
Examples:
  penstock cancel 40dcc6
  penstock stop 40dcc6      to end the job with a savepoint instead""",
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
def cancel_verb(job_id: str | None, directory: str | None, **options: Any) -> None:
    """End a job without a savepoint.

    Its checkpoints are deleted, unless execution.checkpointing.externalized-checkpoint-retention
    is RETAIN_ON_CANCELLATION. A cancelled job is not restarted.
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
    path = _saved(client, job_id, "savepoints", document)
    report.line(f"Cancelled job {job_id}. Savepoint stored in {path}.")
    _say_path(report, job_id, path)


@click.command(
    "checkpoint",
    cls=Verb,
    epilog="""\b
Examples:
  penstock checkpoint 40dcc6
  penstock checkpoint -full 40dcc6   without sharing files with earlier ones""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.option("-full", "--full", is_flag=True, help="Share no files with earlier checkpoints.")
@service_options
def checkpoint_verb(job_id: str | None, full: bool, **options: Any) -> None:
    """Take a checkpoint now, in addition to the periodic ones.

    Unlike a savepoint, the job owns it and deletes it when newer checkpoints have replaced it.
    """
    given = asked(options)
    client, report = given.client(), given.report
    whole_id = _whole_id(client, job_id, "Specify a Job ID to manipulate a checkpoint.")
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


@click.command(
    "rescale",
    cls=Verb,
    epilog="""\b
Examples:
  penstock rescale -p 6 40dcc6
  penstock stop 40dcc6      and run -p 6 -s PATH: for jobs without checkpoints""",
)
@click.argument("job_id", metavar="<Job ID>", required=False)
@click.option("-p", "--parallelism", type=int, metavar="N", help="The new parallelism.")
@service_options
def rescale_verb(job_id: str | None, parallelism: int | None, **options: Any) -> None:
    """Continue a running job with another parallelism, from a checkpoint taken now.

    It changes the operators without a parallelism of their own (set_parallelism). The job keeps its
    id, and the new parallelism over restarts.
    """
    given = asked(options)
    if job_id is None:
        raise WrongUsageError("Missing JobID. Specify a Job ID to rescale a job.")
    if parallelism is None:
        raise WrongUsageError("Missing parallelism. Specify it with -p, for example -p 4.")
    if parallelism < 1:
        raise WrongUsageError(
            f"The parallelism {parallelism} is too low: a job has at least 1 subtask of each "
            "operator. Specify it with -p, for example -p 4."
        )
    client, report = given.client(), given.report
    whole_id = resolve_job_id(client, checked_job_id(job_id))
    report.line(f"Rescaling job {whole_id} to parallelism {parallelism}.")
    report.line("Waiting for response...")
    path = f"/jobs/{whole_id}/rescaling"
    trigger = client.trigger(f"{path}?parallelism={parallelism}", {}, "PATCH")
    number = client.wait(f"{path}/{trigger}")["checkpointId"]
    report.line(f"Rescaled job {whole_id} to parallelism {parallelism}, from checkpoint {number}.")
    report.result(whole_id)
    report.document({"job_id": whole_id, "parallelism": parallelism, "checkpoint_id": number})
