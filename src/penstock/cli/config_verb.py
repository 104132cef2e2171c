"""`penstock config`: every setting, its value, and where the value comes from."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.failures import WrongUsageError, did_you_mean
from penstock.cli.programs import ask_program, program_of, program_options
from penstock.cli.tables import table
from penstock.cli.verb import ProgramVerb, asked, output_options, setting_option


@click.command(
    "config",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock config                                   what holds for commands given here
  penstock config --section execution.checkpointing
  penstock config app.py                            what holds in a program's job
  penstock config --set                             only what somebody has set""",
)
@program_options
@click.option("--section", metavar="PREFIX", help="Only keys that begin so.")
@click.option("--set", "only_set", is_flag=True, help="Without defaults.")
@setting_option
@output_options
def verb(**options: Any) -> None:
    """Show the effective configuration: key, value, and the source of each value.

    Program code outranks -D and options, which outrank conf/config.yaml (in $PENSTOCK_CONF_DIR,
    $FLINK_CONF_DIR or ./conf), which outranks defaults. Secrets are not shown.
    """
    from penstock.job.documents.configuration import effective_settings

    given = asked(options)
    settings = given.settings or {}
    if options["arguments"] or options["script"] or options["module"]:
        answer = ask_program(program_of(options, settings), "config")
    else:
        answer = effective_settings(given.configuration())
    rows = answer["settings"]
    section = options["section"]
    if section is not None:
        rows = [row for row in rows if row["key"].startswith(section)]
        if not rows:
            known = {row["key"].rpartition(".")[0] for row in answer["settings"]}
            raise WrongUsageError(f'No key begins with "{section}".{did_you_mean(section, known)}')
    if options["only_set"]:
        rows = [row for row in rows if not row["is-default"]]
    report = given.report
    report.document({"settings": rows, "warnings": answer["warnings"]})
    for warning in answer["warnings"]:
        report.notice(f"WARNING {warning}")
    cells = [(row["key"], row["value"], row["source"]) for row in rows]
    report.text(table(("KEY", "VALUE", "SOURCE"), cells))
