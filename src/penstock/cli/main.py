"""`penstock <ACTION>`: one group, one command per verb."""

from __future__ import annotations

import runpy
import sys
from importlib.metadata import version

import click

from penstock.core.errors import PenstockError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("penstock"), "-v", "--version", prog_name="penstock")
def penstock() -> None:
    """Stateful event-time streaming in plain Python, on Spark."""


@penstock.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Run the demo job: late, disordered events counted in one-minute windows."""
    sys.argv = ["penstock demo", *arguments]
    runpy.run_module("penstock.demo", run_name="__main__")


def main() -> None:
    """Runs the command line; an expected error is one message, not a traceback."""
    try:
        penstock.main(prog_name="penstock")
    except PenstockError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None
