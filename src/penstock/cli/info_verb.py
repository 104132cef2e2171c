"""`penstock info`: the plan of a program, and whether it would start from a snapshot."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from penstock.cli.check_restore_verb import checked_restore, say_restore
from penstock.cli.programs import ask_program, program_of, program_options
from penstock.cli.verb import ProgramVerb, asked, service_options

_TITLE: Final = " Execution Plan ".center(62, "-")


@click.command(
    "info",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock info app.py                       operators, parallelism, exchanges
  penstock info -p 4 app.py --input x.csv    what follows the program is its own
  penstock info -s /backups/savepoint-40dcc6-0d1b2c3a4f5e app.py
                                             would it start from this? exits with 1 if not""",
)
@program_options
@click.option("-s", "--fromSavepoint", "snapshot", metavar="PATH", help="Check a restore, too.")
@service_options
def verb(**options: Any) -> None:
    """Show the plan of a program as JSON, without running its job.

    The program runs up to its first execute(), in a process of its own.
    """
    given = asked(options)
    program = program_of(options, given.settings or {})
    answer = ask_program(program, "plan")
    report = given.report
    plan = json.dumps(answer["plan"], indent=2, ensure_ascii=False)
    report.line(_TITLE)
    report.text(plan)
    report.line("-" * 62)
    restore = None
    if options["snapshot"] is not None:
        restore = checked_restore(program, options["snapshot"], given)
    report.document(answer | ({} if restore is None else {"restore": restore}))
    if restore is not None:
        say_restore(restore, report)
