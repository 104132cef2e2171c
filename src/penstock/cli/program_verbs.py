"""`penstock info`, `config`, `check-restore`: what a program would do; starts nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.named import (
    NamedProgram,
    ask_program,
    may_be_gone,
    program_of,
    program_options,
    read_snapshot,
)
from penstock.cli.report import RequestFailedError, WrongUsageError, did_you_mean, printable, table
from penstock.cli.verb import (
    Asked,
    ProgramVerb,
    asked,
    output_options,
    service_options,
    setting_option,
)

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
    help="Allow dropping state of operators that the program no longer has.",
)
@service_options
def check_restore_verb(**options: Any) -> None:
    """Check whether a program can start from a snapshot, before you stop the old version.

    Lists every operator (matched, new, dropped), its key groups, the outcome for each state, and
    all problems at once. Exits with 1 if the program cannot start.
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


def checked_restore(program: NamedProgram, snapshot: str, given: Asked) -> dict[str, Any]:
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


_TITLE: Final = " Execution Plan ".center(62, "-")


@click.command(
    "info",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock info app.py                       operators, parallelism, exchanges
  penstock info -p 4 app.py --input x.csv    arguments after the program are its own
  penstock info -s /backups/savepoint-40dcc6-0d1b2c3a4f5e app.py
                                             exits with 1 if it cannot start from this""",
)
@program_options
@click.option("-s", "--fromSavepoint", "snapshot", metavar="PATH", help="Check a restore, too.")
@service_options
def info_verb(**options: Any) -> None:
    """Show the plan of a program as JSON, without running its job.

    The program runs up to its first execute(), in a separate process.
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


@click.command(
    "config",
    cls=ProgramVerb,
    epilog="""\b
Examples:
  penstock config                                   settings for commands in this directory
  penstock config --section execution.checkpointing
  penstock config app.py                            settings of a program's job
  penstock config --set                             without defaults""",
)
@program_options
@click.option("--section", metavar="PREFIX", help="Only keys with this prefix.")
@click.option("--set", "only_set", is_flag=True, help="Without defaults.")
@setting_option
@output_options
def config_verb(**options: Any) -> None:
    """Show the effective configuration: key, value, and the source of each value.

    Program code overrides -D and options, which override conf/config.yaml (in $PENSTOCK_CONF_DIR,
    $FLINK_CONF_DIR or ./conf), which overrides defaults. Secrets are masked.
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
