"""Programs as the command line names them: a script or module, its files, its settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.failures import RequestFailedError, WrongUsageError
from penstock.cli.named import absolute
from penstock.core.config_file import COMMAND_LINE_VARIABLE
from penstock.core.configuration import import_path

F = TypeVar("F", bound="Callable[..., Any]")


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


def program_options(function: F) -> F:
    """Adds the options that name a program and what it needs."""
    for option in (
        click.option("-pypath", "--pyPythonPath", "python_path", metavar="PATHS", hidden=True),
        click.option(
            "-pyclientexec",
            "--pyClientExecutable",
            "client_executable",
            metavar="PATH",
            help="Python interpreter that runs the program with -t local.",
        ),
        click.option(
            "-pyexec",
            "--pyExecutable",
            "executable",
            metavar="PATH",
            help="Python interpreter of the workers.",
        ),
        click.option(
            "-pyreq",
            "--pyRequirements",
            "requirements",
            metavar="FILE",
            help="Packages for the workers; FILE#DIR to install from a directory.",
        ),
        click.option(
            "-pyarch",
            "--pyArchives",
            "archives",
            metavar="FILES",
            help="Archives to unpack for the workers, comma-separated; FILE#NAME sets the folder.",
        ),
        click.option(
            "-pyfs",
            "--pyFiles",
            "files",
            metavar="FILES",
            help="Modules, packages and zips for the program, comma-separated.",
        ),
        click.option(
            "-pym", "--pyModule", "module", metavar="MODULE", help="Run a module; needs -pyfs."
        ),
        click.option(
            "-py", "--python", "script", metavar="FILE", help="Run a script; FILE alone does too."
        ),
        click.option(
            "-p",
            "--parallelism",
            type=int,
            metavar="N",
            help="Default parallelism of operators.",
        ),
        click.argument(
            "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[program.py] [<arguments>]"
        ),
    ):
        function = option(function)
    return function


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
    """Returns the settings that the options stand for."""
    settings: dict[str, str] = {}
    if options["parallelism"] is not None:
        if options["parallelism"] < 1:
            raise WrongUsageError(
                f"The parallelism was set to {options['parallelism']}; it must be at least 1."
            )
        settings["parallelism.default"] = str(options["parallelism"])
    if files:
        settings["python.files"] = ";".join(filter(None, map(absolute, files)))
    archives = [_absolute_before_mark(item) for item in _split(options["archives"])]
    if archives:
        settings["python.archives"] = ";".join(archives)
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
