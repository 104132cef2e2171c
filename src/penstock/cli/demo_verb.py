"""`penstock demo`: the demo job; its options are the demo's own."""

from __future__ import annotations

import runpy
import sys

import click


@click.command(
    "demo",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def verb(arguments: tuple[str, ...]) -> None:
    """Run the demo job: late, disordered events counted in one-minute windows."""
    sys.argv = ["penstock demo", *arguments]
    runpy.run_module("penstock.demo", run_name="__main__")
