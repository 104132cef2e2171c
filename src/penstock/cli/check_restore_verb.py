"""`penstock check-restore`: what a snapshot would become in a program; starts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import RequestFailedError, WrongUsageError
from penstock.cli.programs import Program, ask_program, program_of, program_options
from penstock.cli.snapshots import may_be_gone, read_snapshot
from penstock.cli.tables import printable, table
from penstock.cli.verb import Asked, ProgramVerb, asked, service_options

if TYPE_CHECKING:
    from penstock.cli.report import Report


@click.command(
    "check-restore",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock check-restore -s /backups/savepoint-40dcc6-0d1b2c3a4f5e new_version.py
  penstock check-restore -s 40dcc6 -n new_version.py
  penstock check-restore -s … -p 8 app.py     at another parallelism""",
)
@program_options
@click.option(
    "-s", "--fromSavepoint", "snapshot", metavar="PATH", help="The snapshot, or a job id."
)
@click.option(
    "-n",
    "--allowNonRestoredState",
    "drops",
    is_flag=True,
    help="State of operators that the program has no more may be dropped.",
)
@service_options
def verb(**options: Any) -> None:
    """Say whether a program would start from a snapshot, before you stop the old version.

    Lists every operator (matched, new, dropped), how its key groups are divided, and what becomes
    of each state; and everything that is wrong, at once. Exits with 1 if a start would fail.
    """
    given = asked(options)
    settings = dict(given.settings or {})
    if options["drops"]:
        settings["execution.state-recovery.ignore-unclaimed-state"] = "true"
    snapshot = options["snapshot"] or settings.get("execution.state-recovery.path")
    if snapshot is None:
        raise WrongUsageError("No snapshot was named. Name it with -s, as for `penstock run`.")
    restore = checked_restore(program_of(options, settings), snapshot, given)
    given.report.document(restore)
    say_restore(restore, given.report)


def checked_restore(program: Program, snapshot: str, given: Asked) -> dict[str, Any]:
    """Returns what a snapshot would become in a program."""

    def check(path: str) -> dict[str, Any]:
        found: dict[str, Any] = ask_program(program, "check-restore", snapshot=path)
        if not found["fits"] and may_be_gone(path):
            raise RequestFailedError("\n".join(found["problems"]))
        return found

    return read_snapshot(snapshot, given.client, check, tries=2)


def say_restore(restore: dict[str, Any], report: Report) -> None:
    """Says what would become of a snapshot.

    Raises:
        RequestFailedError: A start would fail.
    """
    rows = [
        (
            operator["uid"],
            operator["name"],
            operator["verdict"],
            _change(operator["parallelism"]),
            _change(operator["max_parallelism"]),
            _key_groups(operator.get("key_groups")),
        )
        for operator in restore["operators"]
    ]
    headers = ("UID", "OPERATOR", "VERDICT", "PARALLELISM", "MAX", "KEY GROUPS")
    report.line(f"Restore from {restore['path']}")
    report.line("")
    report.line(table(headers, rows))
    states = [
        (
            operator["uid"],
            state["name"],
            state["kind"],
            state["verdict"],
            _change((state.get("before"), state.get("after"))),
        )
        for operator in restore["operators"]
        for state in operator.get("states", ())
    ]
    if states:
        report.line("")
        report.line(table(("UID", "STATE", "KIND", "VERDICT", "TYPE"), states))
    for warning in restore.get("warnings", ()):
        report.notice(f"WARNING {printable(warning)}")
    if not restore["fits"]:
        problems = "\n".join(f"  - {printable(problem)}" for problem in restore["problems"])
        raise RequestFailedError(f"The program would not start from {restore['path']}:\n{problems}")
    report.line("")
    report.line("The program would start from this snapshot.")
    report.result("fits")


def _change(pair: Any) -> str:
    """Returns `2 -> 4`, or the one value when nothing changes."""
    if not isinstance(pair, list | tuple):
        return "-" if pair in (None, "") else str(pair)
    before, after = (("-" if each in (None, "") else str(each)) for each in pair)
    return after if before == after else f"{before} -> {after}"


def _key_groups(ranges: Any) -> str:
    """Returns ranges as `0-63 64-127`; the middle of a long list is left out."""
    if not ranges:
        return "-"
    texts = [f"{each[0]}-{each[1]}" if isinstance(each, list) else str(each) for each in ranges]
    return " ".join(texts if len(texts) <= 4 else [*texts[:2], "…", texts[-1]])
