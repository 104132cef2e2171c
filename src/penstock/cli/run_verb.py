"""`penstock run`: a program's job, at a job manager or in a process of its own here."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.following import follow, wait_for_end
from penstock.cli.named import (
    NamedProgram,
    child_command,
    child_environment,
    child_request,
    program_of,
    program_options,
    snapshot_path,
)
from penstock.cli.report import (
    DONE,
    FAILED,
    INTERRUPTED,
    NoManagerError,
    RequestFailedError,
    WrongUsageError,
)
from penstock.cli.verb import (
    Asked,
    ProgramVerb,
    asked,
    configuration_with,
    notice_remarks,
    run_options,
    service_options,
    several,
)
from penstock.core.config_file import COMMAND_LINE_VARIABLE

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient

_RECOVERY: Final = "execution.state-recovery."
_CLAIM_MODES: Final = ("claim", "no_claim", "legacy")


_restore_options: Final = several(
    click.option(
        "-s", "--fromSavepoint", "snapshot", metavar="PATH", help="Start from this snapshot."
    ),
    click.option(
        *("-n", "--allowNonRestoredState", "drops"),
        is_flag=True,
        help="Drop state of operators that the program no longer has.",
    ),
    click.option(
        *("-cm", "--claimMode", "claim_mode"),
        metavar="claim|no_claim|legacy",
        help="Who owns the snapshot; no_claim by default.",
    ),
    click.option("-rm", "--restoreMode", "restore_mode", hidden=True),
)


@click.command(
    "run",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock run -t local app.py                without a job manager
  penstock run -d app.py --input /data        at a job manager, without waiting for the end
  penstock run -p 4 -D execution.checkpointing.interval=10s app.py
  penstock run -d -s /backups/savepoint-40dcc6-0d1b2c3a4f5e app.py
                                              start from a savepoint or a retained checkpoint
  penstock run -pym pipeline.main -pyfs lib/  a module and the files that it imports

\b
Arguments after the program are passed to it. Without -d, its output is shown here. Ctrl-C then
leaves the job running; with -sae it cancels the job.""",
)
@program_options
@click.option("-d", "--detached", is_flag=True, help="Do not wait for the end of the job.")
@_restore_options
@click.option(
    "-sae",
    "--shutdownOnAttachedExit",
    "cancels",
    is_flag=True,
    help="Cancel the job when this command is interrupted.",
)
@run_options
def run_verb(**options: Any) -> int:
    """Run a program of the DataStream API.

    With -t remote, the default, the program and its files are sent to the job manager, which runs
    it in a driver process and restarts it after failures. With -t local it runs here.
    """
    shows_traces = options["stacktrace"]
    given = asked(options)
    settings = dict(given.settings or {}) | _restore_settings(options, given)
    program = program_of(options, settings)
    if given.target == "local":
        if options["detached"]:
            raise WrongUsageError(
                "-d and -t local exclude each other: a local job ends with its command. Start "
                "`penstock jobmanager` and leave -t local out."
            )
        return _run_here(program, given, shows_traces=shows_traces)
    client = given.client()
    if given.target is None:
        _check_manager(client)
    return _run_remotely(program, given, client, options)


def _restore_settings(options: dict[str, Any], given: Asked) -> dict[str, str]:
    settings: dict[str, str] = {}
    if options["snapshot"] is not None:
        settings[_RECOVERY + "path"] = snapshot_path(options["snapshot"], given.client)
    if options["drops"]:
        settings[_RECOVERY + "ignore-unclaimed-state"] = "true"
    if options["restore_mode"] is not None:
        given.report.notice("note: -rm is an old name of -cm (--claimMode).")
    mode = options["claim_mode"] or options["restore_mode"]
    starts_anew = options["snapshot"] is None and f"{_RECOVERY}path" not in (given.settings or {})
    if starts_anew and (mode is not None or options["drops"]):
        given.report.notice(
            "WARNING -cm and -n say how to start from a snapshot; without -s they change nothing."
        )
    if mode is not None:
        if mode.lower().replace("-", "_") not in _CLAIM_MODES:
            raise WrongUsageError(
                f'-cm "{mode}" is not a claim mode; it must be claim, no_claim or legacy.'
            )
        settings[_RECOVERY + "claim-mode"] = mode.upper().replace("-", "_")
    return settings


def _check_manager(client: RestClient) -> None:
    try:
        client.get("/config")
    except NoManagerError:
        raise NoManagerError(
            f"No job manager answers at {client.url}. Start one with `penstock jobmanager`, or run "
            "the program here with `penstock run -t local`."
        ) from None


# -- application mode -----------------------------------------------------------------------------


@click.command(
    "run-application",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock run-application --job-id 0a1b2c3d4e5f60718293a4b5c6d7e8f9 app.py --input /data
  PENSTOCK_CONF_DIR=/etc/penstock penstock run-application --port 8081 app.py

\b
Exit code: 0 the job has finished or was cancelled, 1 it failed, 75 another process leads, 143 it
was suspended by SIGTERM. Start the command again and it continues from its latest checkpoint.""",
)
@program_options
@_restore_options
@click.option("--job-id", "job_id", metavar="HEX", help="Id of the job over all restarts.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (rest.bind-address).")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on (rest.port); 0 for a free one.",
)
@service_options
def run_application_verb(**options: Any) -> int:
    """Run a program with its job manager and web page in this process, for pods and systemd.

    The process ends with the job. With high availability, several processes of one cluster id run
    one job: one leads, and the others stand by.
    """
    place = {name: options.pop(name) for name in ("job_id", "host", "port")}
    shows_traces = options["stacktrace"]
    given = asked(options)
    if given.address is not None or given.target is not None:
        raise WrongUsageError(
            "-m and -t name a job manager, and this command runs its own. Leave them out; the job "
            "runs where penstock.spark.master says."
        )
    settings = dict(given.settings or {}) | _restore_settings(options, given)
    program = program_of(options, settings)
    if Path(program.interpreter).absolute() != Path(sys.executable):
        raise WrongUsageError(
            f"{program.interpreter} is to run the program, but an application runs in the process "
            f"of its command, {sys.executable}. Use the penstock command of that interpreter."
        )
    notice_remarks(program.settings, given.report)
    os.environ[COMMAND_LINE_VARIABLE] = json.dumps(program.settings)
    from penstock.job.start import ProgramRequest
    from penstock.launch.service import run_application

    script = None if program.script is None else str(program.script)
    request = ProgramRequest(
        "run", script, program.module, program.arguments, program.paths, shows_traces=shows_traces
    )
    run_application(configuration_with(program.settings), request, **place)


# -- at a job manager -----------------------------------------------------------------------------


def _run_remotely(
    program: NamedProgram, given: Asked, client: RestClient, options: dict[str, Any]
) -> int:
    report = given.report
    content, content_type = _submission(program)
    job_id = str(client.submit("/jobs", content, content_type)["jobid"])
    report.line(f"Job has been submitted with JobID {job_id}")
    if report.for_people:
        place = "; what it prints is in its log" if options["detached"] else ""
        report.notice(f"Follow it at {client.page(f'/jobs/{job_id}')}{place}.")
    if options["detached"]:
        report.result(job_id)
        report.document({"job_id": job_id})
        return DONE
    with _termination_interrupts():
        try:
            outcome = follow(client, job_id, report)
        except KeyboardInterrupt:
            _interrupted(client, job_id, cancels=options["cancels"])
            return INTERRUPTED
    fields = {"job_id": job_id, "state": outcome.state, "runtime_ms": outcome.runtime_ms}
    report.document(fields if outcome.failure is None else fields | {"failure": outcome.failure})
    report.result(job_id)
    if outcome.state == "CANCELED":
        raise RequestFailedError(f"Job {job_id} was cancelled.")
    if outcome.state == "FAILED":
        hint = _missing_file_hint(program, outcome.failure or "")
        raise RequestFailedError(f"Job {job_id} failed.\n{outcome.failure}{hint}")
    if outcome.failure is not None:
        raise RequestFailedError(
            f"Job {job_id} has finished, and its program failed.\n{outcome.failure}"
        )
    report.line("Program execution finished")
    report.line(f"Job with JobID {job_id} has finished.")
    report.line(f"Job Runtime: {outcome.runtime_ms} ms")
    return DONE


def _missing_file_hint(program: NamedProgram, failure: str) -> str:
    """Returns what to add when a module is missing there that lies beside the program here."""
    missing = re.search(r"No module named '([A-Za-z_]\w*)", failure)
    if missing is None or program.script is None:
        return ""
    beside = program.script.parent / missing[1]
    for path in (beside.with_suffix(".py"), beside):
        if path.exists():
            return f"\n{path} did not travel with the program; ship it with -pyfs {path}."
    return ""


def _submission(program: NamedProgram) -> tuple[bytes, str]:
    """Returns the body of a submission and its type: a form of a JSON document and a zip file."""
    from penstock.job.package import build_package

    package, settings = build_package(program.script, program.settings)
    settings.setdefault("penstock.job.base-directory", str(Path.cwd()))
    document = {
        "program": None if program.script is None else program.script.name,
        "module": program.module,
        "arguments": list(program.arguments),
        "configuration": settings,
    }
    boundary = secrets.token_hex(24)
    parts = (
        (b"submission", b"submission.json", b"application/json", json.dumps(document).encode()),
        (b"package", b"package.zip", b"application/zip", package),
    )
    body = b"".join(
        b"--%b\r\n"
        b'Content-Disposition: form-data; name="%b"; filename="%b"\r\n'
        b"Content-Type: %b\r\n\r\n%b\r\n" % (boundary.encode(), name, file, kind, content)
        for name, file, kind, content in parts
    )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM came, which unlike Ctrl-C is for this process alone."""


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Has SIGTERM do what Ctrl-C does."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(client: RestClient, job_id: str, *, cancels: bool) -> None:
    if not cancels:
        click.echo(
            f"Job {job_id} goes on. `penstock list` shows it, `penstock cancel {job_id[:8]}` "
            "ends it.",
            err=True,
        )
        return
    click.echo(f"Cancelling job {job_id}.", err=True)
    client.patch(f"/jobs/{job_id}?mode=cancel")
    wait_for_end(client, job_id)
    click.echo(f"Cancelled job {job_id}.", err=True)


# -- here -----------------------------------------------------------------------------------------


def _run_here(program: NamedProgram, given: Asked, *, shows_traces: bool) -> int:
    report = given.report
    if not report.for_people:
        program.settings.setdefault("penstock.progress", "off")
    with tempfile.TemporaryDirectory(prefix="penstock-program-") as directory:
        answer = Path(directory) / "answer.json"
        request = child_request(
            program,
            "run",
            answer=str(answer),
            shows_traces=shows_traces,
            is_quiet=not report.for_people,
        )
        child = subprocess.Popen(
            child_command(program, request),
            env=child_environment(program),
            stdout=sys.stderr if report.as_json else None,
        )
        with _termination_interrupts():
            code = _wait(child)
        if answer.exists():
            report.document(json.loads(answer.read_text(encoding="utf-8")))
    return code if code in (DONE, INTERRUPTED) else FAILED


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Waits for the child, which gets Ctrl-C from the terminal as we do."""
    try:
        return child.wait()
    except KeyboardInterrupt as error:
        if isinstance(error, _TerminatedError):
            # Not SIGINT, which a process that was started in the background ignores.
            child.terminate()
        child.wait()
        return INTERRUPTED
