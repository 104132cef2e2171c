"""Jobs, snapshots and programs as users name them.

A job is 32 hex digits, or the first six or more. A snapshot is a path, or `<job id>` and
`<job id>:chk-N` through the service. A program is a script or a module, with its files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli.report import RequestFailedError, WrongUsageError
from penstock.cli.verb import several
from penstock.core.config_file import COMMAND_LINE_VARIABLE
from penstock.core.configuration import import_path
from penstock.core.errors import PenstockError
from penstock.core.setting_texts import to_text

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient


T = TypeVar("T")

_MOST_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.1
_OF_JOB: Final = re.compile(r"(?P<job>[0-9a-fA-F]{6,32})(?::(?:chk-)?(?P<number>\d{1,18}))?")


def snapshot_path(text: str, client: Callable[[], RestClient]) -> str:
    """Returns the path of a snapshot; asks the job manager only when a job's is meant."""
    found = _OF_JOB.fullmatch(text)
    if found is None or Path(text).exists():
        return absolute(text) or text
    opened = client()
    job_id = resolve_job_id(opened, found["job"])
    checkpoints = opened.get(f"/jobs/{job_id}/checkpoints")
    if found["number"] is None:
        return _latest(job_id, checkpoints)
    number = int(found["number"])
    for record in checkpoints["history"]:
        if record["id"] == number:
            return _path_of(record, job_id)
    known = ", ".join(str(record["id"]) for record in checkpoints["history"]) or "none"
    raise RequestFailedError(
        f"Job {job_id} has no checkpoint {number} in its history, which holds: {known}."
    )


def read_snapshot(
    text: str, client: Callable[[], RestClient], read: Callable[[str], T], *, tries: int = 5
) -> T:
    """Reads a snapshot; the latest one of a job is looked up again when the job has replaced it."""
    path = snapshot_path(text, client)
    for _ in range(tries):
        try:
            return read(path)
        except PenstockError:
            successor = None
            if _OF_JOB.fullmatch(text) and may_be_gone(path):
                successor = _successor(text, client, path)
            if successor is None:
                raise
            path = successor
    raise RequestFailedError(
        f"The checkpoints of job {text} are replaced faster than they can be read. Take a "
        f"savepoint with `penstock savepoint {text}`, or retain more checkpoints: "
        "execution.checkpointing.num-retained."
    )


def may_be_gone(path: str) -> bool:
    """Whether a job may have deleted a snapshot; on other machines' storage that is not asked."""
    is_remote = "://" in path and not path.startswith("file://")
    return is_remote or not Path(path.removeprefix("file://"), "_metadata").exists()


def _successor(text: str, client: Callable[[], RestClient], path: str) -> str | None:
    """Waits for the snapshot that has replaced another one; the job says so a moment later."""
    opened = client()
    for _ in range(_MOST_LOOKS):
        found = snapshot_path(text, lambda: opened)
        if found != path:
            return found
        opened.sleep(_LOOK_SECONDS)
    return None


def _latest(job_id: str, checkpoints: dict[str, Any]) -> str:
    records = [record for record in checkpoints["history"] if _is_there(record)]
    latest = checkpoints["latest"].get("completed")
    if latest is not None and _is_there(latest):
        records.append(latest)
    if not records:
        raise RequestFailedError(
            f"Job {job_id} has no checkpoint that is still there. While it runs, "
            f"`penstock savepoint {job_id}` takes a snapshot that stays."
        )
    return str(max(records, key=lambda record: record["id"])["external_path"])


def _path_of(record: dict[str, Any], job_id: str) -> str:
    if not _is_there(record):
        gone = "was deleted by its job" if record.get("discarded") else f"is {record['status']}"
        raise RequestFailedError(f"Checkpoint {record['id']} of job {job_id} {gone}.")
    return str(record["external_path"])


def _is_there(record: dict[str, Any]) -> bool:
    return bool(record.get("external_path")) and not record.get("discarded")


_DIGITS: Final = 32
_FEWEST: Final = 6


def checked_job_id(text: str) -> str:
    """Returns an id or the beginning of one, in lower case.

    Raises:
        WrongUsageError: It is neither.
    """
    if re.fullmatch(rf"[0-9a-fA-F]{{{_FEWEST},{_DIGITS}}}", text):
        return text.lower()
    raise WrongUsageError(
        f'Cannot parse JobID from "{text}". The expected format is [0-9a-fA-F]{{32}}, e.g. '
        f"fd72014d4c864993a2e5a9287b4a9c5d, or its first {_FEWEST} or more digits."
    )


def resolve_job_id(client: RestClient, text: str) -> str:
    """Returns the whole id; asks the job manager only for the beginning of one."""
    given = checked_job_id(text)
    if len(given) == _DIGITS:
        return given
    jobs = client.get("/jobs/overview")["jobs"]
    found = sorted(job["jid"] for job in jobs if job["jid"].startswith(given))
    if not found:
        raise RequestFailedError(
            f"No job's id begins with {given}. See `penstock list -a` for the jobs that there are."
        )
    if len(found) > 1:
        raise RequestFailedError(
            f"{len(found)} jobs' ids begin with {given}: {', '.join(found)}. Give more digits."
        )
    return str(found[0])


def absolute(path: str | None) -> str | None:
    """Returns a path that means the same to the job manager, whose directory is another one."""
    if path is not None and not path.strip():
        raise WrongUsageError("A path is empty. Is it a variable that is not set?")
    if path is None or "://" in path or path.startswith("file:"):
        return path
    return os.path.normpath(Path.cwd() / Path(path).expanduser())


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A program to run.

    Attributes:
        script: Path of a script, or None with `module`.
        module: Name of a module.
        arguments: Its own arguments.
        paths: Its Python files, for `sys.path`.
        interpreter: What runs it here.
        settings: Of the command line, by key.
    """

    script: Path | None
    module: str | None
    arguments: tuple[str, ...]
    paths: tuple[str, ...]
    interpreter: str
    settings: dict[str, str]


program_options: Final = several(
    click.argument(
        "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[program.py] [<arguments>]"
    ),
    click.option(
        "-p", "--parallelism", type=int, metavar="N", help="Default parallelism of operators."
    ),
    *(
        click.option(short, long, name, metavar=metavar, help=text)
        for short, long, name, metavar, text in (
            ("-py", "--python", "script", "FILE", "Run a script; FILE alone does too."),
            ("-pym", "--pyModule", "module", "MODULE", "Run a module; needs -pyfs."),
            (
                *("-pyfs", "--pyFiles", "files", "FILES"),
                "Modules, packages and zips for the program, comma-separated.",
            ),
            (
                *("-pyarch", "--pyArchives", "archives", "FILES"),
                "Archives to unpack for the workers, comma-separated; FILE#NAME sets the folder.",
            ),
            (
                *("-pyreq", "--pyRequirements", "requirements", "FILE"),
                "Packages for the workers; FILE#DIR to install from a directory.",
            ),
            (
                *("-pyexec", "--pyExecutable", "executable", "PATH"),
                "Python interpreter of the workers.",
            ),
            (
                *("-pyclientexec", "--pyClientExecutable", "client_executable", "PATH"),
                "Python interpreter that runs the program with -t local.",
            ),
        )
    ),
    click.option("-pypath", "--pyPythonPath", "python_path", metavar="PATHS", hidden=True),
)
"""What names a program and what it needs."""


def program_of(options: dict[str, Any], settings: Mapping[str, str]) -> NamedProgram:
    """Takes a program out of a verb's options; checks that it is there.

    Raises:
        WrongUsageError: No program, two programs, or a jar is named.
    """
    script, module = options["script"], options["module"]
    arguments = list(options["arguments"])
    if script is not None and module is not None:
        raise WrongUsageError("-py and -pym both name a program; give one of them.")
    if script is None and module is None:
        if not arguments:
            raise WrongUsageError(
                "No program was named. Name a script, as in `penstock run app.py`, or a module "
                "with -pym."
            )
        script = arguments.pop(0)
    files = _split(options["files"])
    if script is not None:
        script = Path(str(script).removeprefix("file://"))
        if script.suffix == ".jar":
            raise WrongUsageError(
                f"{script} is a Java program; Penstock runs Python programs of the DataStream API."
            )
        if not script.is_file():
            wrong = "is no file" if script.exists() else "does not exist"
            raise RequestFailedError(f"The program {script} {wrong}.")
    found = dict(settings) | _settings(options, files)
    return NamedProgram(
        script,
        module,
        tuple(arguments),
        tuple(dict.fromkeys([*map(_path_entry, files), *_paths(options["python_path"])])),
        options["client_executable"] or found.get("python.client.executable") or sys.executable,
        found,
    )


def _settings(options: dict[str, Any], files: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    if options["parallelism"] is not None:
        if options["parallelism"] < 1:
            raise WrongUsageError(
                f"The parallelism was set to {options['parallelism']}; it must be at least 1."
            )
        settings["parallelism.default"] = str(options["parallelism"])
    if files:
        settings["python.files"] = to_text([*filter(None, map(absolute, files))])
    archives = [_absolute_before_mark(item) for item in _split(options["archives"])]
    if archives:
        settings["python.archives"] = to_text(archives)
    if options["requirements"]:
        settings["python.requirements"] = "#".join(
            absolute(part) or part for part in options["requirements"].split("#", 1)
        )
    if options["executable"]:
        settings["python.executable"] = options["executable"]
    if options["python_path"]:
        settings["penstock.spark.conf.spark.executorEnv.PYTHONPATH"] = options["python_path"]
    return settings


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _paths(text: str | None) -> list[str]:
    return [part for part in (text or "").split(":") if part]


def _absolute_before_mark(item: str) -> str:
    path, mark, name = item.partition("#")
    return f"{absolute(path)}{mark}{name}"


def _path_entry(file: str) -> str:
    return import_path(absolute(file.removeprefix("file://")) or file)


def child_request(program: NamedProgram, purpose: str, **more: Any) -> str:
    """Returns the request for `penstock.launch.program_process`."""
    return json.dumps(
        {
            "purpose": purpose,
            "program": None if program.script is None else str(program.script),
            "module": program.module,
            "arguments": program.arguments,
            "paths": program.paths,
            **more,
        }
    )


def child_command(program: NamedProgram, request: str) -> list[str]:
    """Returns the command that runs a program in a process of its own."""
    return [program.interpreter, "-m", "penstock.launch.program_process", request]


def child_environment(program: NamedProgram) -> dict[str, str]:
    """Returns the environment of that process: ours, with the command line's settings."""
    return os.environ | {COMMAND_LINE_VARIABLE: json.dumps(program.settings)}


def ask_program(program: NamedProgram, purpose: str, **more: Any) -> Any:
    """Runs a program until its first job would start; returns what was to be known of it."""
    with tempfile.TemporaryDirectory(prefix="penstock-program-") as directory:
        answer = Path(directory) / "answer.json"
        request = child_request(program, purpose, answer=str(answer), **more)
        done = subprocess.run(
            child_command(program, request),
            env=child_environment(program),
            stdout=sys.stderr,  # What the program prints is not our result.
            check=False,
        )
        if done.returncode or not answer.exists():
            raise RequestFailedError("The program failed before its job; see above.")
        return json.loads(answer.read_text(encoding="utf-8"))
