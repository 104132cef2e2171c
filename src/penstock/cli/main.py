"""`penstock <ACTION>`: one group; the module of a verb is imported when the verb runs."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final

import click

from penstock.cli.report import (
    DONE,
    FAILED,
    FOUND,
    INTERRUPTED,
    NO_MANAGER,
    SEE_HELP,
    USAGE,
    FoundError,
    NoManagerError,
    WrongUsageError,
    did_you_mean,
    printable_lines,
)
from penstock.core.errors import PenstockError

VERBS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Jobs": {
        "run": ("run_verb", "Run a program, locally or at a job manager."),
        "run-application": ("run_verb", "Run a program with its job manager in this process."),
        "list": ("job_verbs", "List jobs."),
        "info": ("program_verbs", "Show the plan of a program; with -s, check a restore."),
        "stop": ("job_verbs", "End a job with a savepoint."),
        "cancel": ("job_verbs", "End a job without a savepoint."),
        "rescale": ("job_verbs", "Continue a job with another parallelism."),
    },
    "Snapshots": {
        "savepoint": ("job_verbs", "Take a savepoint, or dispose of one."),
        "checkpoint": ("job_verbs", "Take a checkpoint now."),
        "check-restore": ("program_verbs", "Check whether a program can start from a snapshot."),
        "state": ("snapshot_verbs", "List, read and compare the state in snapshots."),
        "verify": ("snapshot_verbs", "Check every file of a snapshot."),
    },
    "Service and set-up": {
        "new": ("setup_verbs", "Create a folder with a program, a test and settings."),
        "jobmanager": ("setup_verbs", "Run the job manager: jobs, REST and web page."),
        "config": ("program_verbs", "Show every setting with its value and source."),
        "demo": ("setup_verbs", "Run the demo job."),
        "completion": ("setup_verbs", "Print shell completion for bash, zsh or fish."),
    },
}

_MODULES: Final = {
    name: module for section in VERBS.values() for name, (module, _) in section.items()
}


class Actions(click.Group):
    """Finds verbs by name and imports their modules only then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the verbs, in the order of the help."""
        del ctx
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of a verb."""
        del ctx
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"penstock.cli.{_MODULES[cmd_name]}")
        verb: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_verb")
        return verb

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Says in Flink's words that there is no such action, with the nearest one."""
        name = args[0]
        if name not in _MODULES and not name.startswith("-") and not ctx.resilient_parsing:
            raise WrongUsageError(
                f'"{name}" is not a valid action.{did_you_mean(name, _MODULES)}\n\n'
                f"Valid actions are {', '.join(_MODULES)}."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the verbs by what they are for; imports none of them."""
        del ctx
        for title, section in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in section.items()])


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"Version: {version('penstock')}")
        ctx.exit()


@click.group(
    cls=Actions,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    options_metavar="",
    subcommand_metavar="<ACTION> [OPTIONS] [ARGUMENTS]",
    epilog="`penstock <ACTION> -h` shows the help of an action. To begin, run `penstock demo`.",
)
@click.option(
    "-v",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def penstock() -> None:
    """Stateful event-time stream processing in plain Python, on Spark."""


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; returns its exit code."""
    given = list(arguments)
    try:
        result = penstock.main(given, prog_name="penstock", standalone_mode=False)
    except (click.ClickException, click.Abort, PenstockError, OSError, KeyboardInterrupt) as error:
        return _failed(error, given)
    return result if isinstance(result, int) else DONE


def _failed(error: BaseException, given: list[str]) -> int:
    """Says what went wrong in a sentence; returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message())
        return USAGE
    if isinstance(error, click.UsageError):
        # Flink says these on its standard output, which `--json` keeps free.
        click.echo(f"{error.format_message()}\n\n{SEE_HELP}", err="--json" in given)
        return USAGE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    if isinstance(error, FoundError):
        click.echo(str(error), err=True)
        return FOUND
    if "--stacktrace" in given:
        click.echo("".join(traceback.format_exception(error)), err=True)
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    click.echo(f"error: {printable_lines(text)}", err=True)
    return NO_MANAGER if isinstance(error, NoManagerError) else FAILED


def main() -> Any:
    """Runs the command line of this process."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not complain at its end.
        sys.stdout = None
        code = DONE
    sys.exit(code)
