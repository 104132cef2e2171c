"""`penstock state ls|get|diff` and `penstock verify`: what snapshots hold, read offline."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.named import read_snapshot, snapshot_path
from penstock.cli.report import FoundError, WrongUsageError, did_you_mean, printable, table
from penstock.cli.verb import Verb, asked, service_options
from penstock.core.times import size_text, span_text

FORMATS: Final = ("table", "json", "csv", "parquet")


class _StateActions(click.Group):
    """Says which actions there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            known = ", ".join(self.commands)
            raise WrongUsageError(
                f'"{name}" is not an action of state, which has {known}.'
                f"{did_you_mean(name, self.commands)}"
            )
        return super().resolve_command(ctx, args)


@click.group(
    "state",
    cls=_StateActions,
    epilog="""\b
A <snapshot> is one of:
  a path           of a savepoint or checkpoint, or of its _metadata
  <job id>         the latest snapshot of a job; six or more digits are enough
  <job id>:chk-N   one of its checkpoints

\b
Examples:
  penstock state ls 40dcc6
  penstock state get 40dcc6:chk-12 count --key alice""",
)
def state_verb() -> None:
    """List, read and compare the state in snapshots. Needs neither Spark nor a job manager."""


@state_verb.command(
    "ls",
    cls=Verb,
    epilog="""\b
Examples:
  penstock state ls /backups/savepoint-40dcc6-0d1b2c3a4f5e
  penstock state ls 40dcc6:chk-12
  penstock state ls --json … | jq '.operators[].uid'""",
)
@click.argument("snapshot", metavar="<snapshot>")
@service_options
def list_states(snapshot: str, **options: Any) -> None:
    """List the operators of a snapshot, their states, types and sizes."""
    from penstock.inspection import contents as snapshot_contents

    given = asked(options)
    report = given.report
    found = read_snapshot(snapshot, given.client, snapshot_contents.list_states)
    report.document(found)
    report.line(
        f"{found['kind']} {found['checkpoint_id']} of job {found['job_id']} "
        f'"{printable(found["job_name"])}": {size_text(found["total_bytes"])}, '
        f"{size_text(found['inline_bytes'])} of it inside _metadata"
    )
    report.line("")
    operators = [
        (
            operator["uid"],
            operator["name"],
            operator["parallelism"],
            operator["max_parallelism"],
            operator["key_type"] or "-",
            operator["files"],
            size_text(operator["file_bytes"]),
            size_text(operator["inline_bytes"]),
            _also(operator),
        )
        for operator in found["operators"]
    ]
    report.text(
        table(
            ("UID", "OPERATOR", "PAR", "MAX", "KEY", "FILES", "IN FILES", "INLINE", "ALSO"),
            operators,
        )
    )
    states = [
        (
            operator["uid"],
            state["name"],
            state["kind"],
            state["type"] or "-",
            state["codec"],
            state["ttl"] or "-",
            state["entries"],
        )
        for operator in found["operators"]
        for state in operator["states"]
    ]
    if states:
        report.line("")
        report.text(table(("UID", "STATE", "KIND", "TYPE", "CODEC", "TTL", "ENTRIES"), states))


def _also(operator: dict[str, Any]) -> str:
    found = []
    if operator["has_source_position"]:
        found.append("source position")
    if operator["has_pending_output"]:
        found.append("pending output")
    for name in ("event_timers", "processing_timers"):
        if operator[name]:
            found.append(f"{operator[name]:,} {name.replace('_', ' ')}")
    return ", ".join(found) or "-"


@state_verb.command(
    "get",
    cls=Verb,
    epilog="""\b
Examples:
  penstock state get /backups/savepoint-40dcc6-0d1b2c3a4f5e count
  penstock state get 40dcc6 count total --key alice
  penstock state get … count --limit 0 --format csv > count.csv
  penstock state get … count --limit 0 --format parquet -o count.parquet""",
)
@click.argument("snapshot", metavar="<snapshot>")
@click.argument("uid", metavar="<uid>")
@click.argument("state", metavar="[<state>]", required=False)
@click.option("--key", metavar="KEY", help="Only this key: alice, 7, or JSON such as '[\"a\", 1]'.")
@click.option("--limit", type=int, default=100, metavar="N", help="At most N entries; 0 for all.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default=None,
    help="Output format; table by default.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file; required for parquet.")
@click.option(
    "--unpickle",
    is_flag=True,
    help="Load pickled objects. This runs code from the snapshot: use it only for your own.",
)
@service_options
def get_state(snapshot: str, uid: str, state: str | None, **options: Any) -> None:
    """Show entries of an operator's state: keyed, operator and broadcast state, timers.

    Built-in values and values of declared types are shown. Pickled objects of classes are shown as
    {"$pickle": <bytes>} unless you give --unpickle.
    """
    from penstock.inspection import contents as snapshot_contents

    given = asked(options)
    kind = options["kind"] or ("json" if given.report.as_json else "table")
    output = checked_output(kind, options["output"])
    if options["limit"] < 0:
        raise WrongUsageError(f"--limit is {options['limit']}; it must be 0 (all) or more.")

    def read(path: str) -> dict[str, Any]:
        return snapshot_contents.read_state(
            path,
            uid,
            state,
            key=options["key"],
            limit=options["limit"] or None,
            unpickle=options["unpickle"],
        )

    found = read_snapshot(snapshot, given.client, read)
    write_entries(found, kind, output)
    if not found["entries"]:
        given.report.notice("No entries. `penstock state ls` shows which states hold some.")
    if found["is_truncated"]:
        given.report.notice(
            f"The first {len(found['entries']):,} entries; --limit 0 shows all of them."
        )
    if not options["unpickle"] and '{"$pickle"' in json.dumps(found["entries"][:100]):
        given.report.notice(
            "Some values are pickled and were not loaded; --unpickle loads them, and runs what "
            "the snapshot's author put into them."
        )


@state_verb.command(
    "diff",
    cls=Verb,
    epilog="""\b
Examples:
  penstock state diff 40dcc6:chk-11 40dcc6:chk-12
  penstock state diff --uid count /backups/savepoint-… /backups/savepoint-…
Exits with 3 if there are differences.""",
)
@click.argument("before", metavar="<snapshot>")
@click.argument("after", metavar="<snapshot>")
@click.option("--uid", metavar="UID", help="Only this operator.")
@click.option(
    "--limit", type=int, default=20, metavar="N", help="Name at most N keys of each kind."
)
@click.option("--unpickle", is_flag=True, help="Load pickled objects to compare them.")
@service_options
def diff_states(before: str, after: str, **options: Any) -> None:
    """Compare two snapshots: operators, settings, types, and changed keys."""
    from penstock.inspection.diff import diff_snapshots

    given = asked(options)
    report = given.report
    found = diff_snapshots(
        snapshot_path(before, given.client),
        snapshot_path(after, given.client),
        options["uid"],
        limit=options["limit"],
        unpickle=options["unpickle"],
    )
    report.document(found)
    if found["is_same"]:
        report.line("No differences.")
        return
    for operator in found["operators"]:
        if operator["change"] == "same":
            continue
        report.text(f"{printable(operator['uid'])}: {operator['change']}")
        for setting in operator["settings"]:
            report.text(f"  {printable(setting)}")
        for state in operator["states"]:
            _say_state(state, report.text)
    raise FoundError("The snapshots differ.")


def _say_state(state: dict[str, Any], say: Any) -> None:
    if state["change"] == "same":
        return
    counts = ", ".join(
        f"{state[name]:,} {name}" for name in ("added", "removed", "changed", "same")
    )
    name = f"state {state['name']!r}" if state["name"] else "timers"
    say(f"  {name} ({state['kind']}): {state['change']}; entries: {counts}")
    if state.get("type"):
        kinds = state["type"]
        say(f"    type {' -> '.join(map(str, kinds)) if isinstance(kinds, list) else kinds}")
    for change, mark in (("added", "+"), ("removed", "-"), ("changed", "~")):
        for key in state["keys"].get(change, ()):
            say(f"    {mark} {printable(json.dumps(key, ensure_ascii=False))}")


_COLUMNS: Final = ("state", "kind", "subtask", "key", "namespace", "map_key", "value")
_MAX_CELL: Final = 120


def checked_output(kind: str, output: str | None) -> Path | None:
    """Returns the file to write; None for the standard output."""
    if kind == "parquet" and output is None:
        raise WrongUsageError("Parquet is not for terminals; name a file with -o.")
    return None if output is None else Path(output)


def write_entries(found: dict[str, Any], kind: str, output: Path | None) -> None:
    """Writes entries in a format."""
    entries = found["entries"]
    columns = [name for name in _COLUMNS if any(name in entry for entry in entries)]
    columns = columns or ["state", "kind", "key", "value"]
    if kind == "parquet":
        assert output is not None
        _write_parquet(columns, entries, output)
        return
    if kind == "json":
        text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    elif kind == "csv":
        text = _csv(columns, entries)
    else:
        rows = [[_cell(entry.get(name)) for name in columns] for entry in entries]
        text = table([name.replace("_", " ").upper() for name in columns], rows) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _cell(value: Any) -> Any:
    """Returns a value for a table: numbers stay numbers, long texts are cut."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = _text(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _csv(columns: Sequence[str], entries: Sequence[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for entry in entries:
        cells = (entry.get(name) for name in columns)
        writer.writerow(["" if cell is None else _text(cell) for cell in cells])
    return buffer.getvalue()


def _write_parquet(columns: Sequence[str], entries: Sequence[dict[str, Any]], output: Path) -> None:
    """Writes a column with one kind of value as that kind, others as JSON text."""
    pa = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    arrays = {}
    for name in columns:
        cells = [entry.get(name) for entry in entries]
        kinds = {type(cell) for cell in cells if cell is not None}
        plain = len(kinds) <= 1 and kinds <= {bool, int, float, str}
        try:
            arrays[name] = pa.array(cells if plain else [_json_or_none(cell) for cell in cells])
        except (pa.ArrowInvalid, OverflowError):
            # A whole number beyond 64 bits.
            arrays[name] = pa.array([_json_or_none(cell) for cell in cells])
    parquet.write_table(pa.table(arrays), output)


def _json_or_none(cell: Any) -> str | None:
    return None if cell is None else json.dumps(cell, ensure_ascii=False)


@click.command(
    "verify",
    cls=Verb,
    epilog="""\b
Examples:
  penstock verify /backups/savepoint-40dcc6-0d1b2c3a4f5e
  penstock verify /checkpoints/582e17d2…            all checkpoints that the job retains
  penstock verify /checkpoints/582e17d2… --orphans  also files without a reference
  penstock verify 40dcc6:chk-12
Exits with 3 if a file is damaged.""",
)
@click.argument("snapshot", metavar="<snapshot or directory>")
@click.option("--orphans", is_flag=True, help="List files that no snapshot uses; delete nothing.")
@service_options
def verify_verb(snapshot: str, orphans: bool, **options: Any) -> None:
    """Check that every file of a snapshot exists and is complete and unchanged.

    Lists all problems, changes nothing, and needs neither Spark nor a job manager.
    """
    from penstock.inspection.verify import verify_snapshots

    given = asked(options)
    report = given.report
    found = verify_snapshots(snapshot_path(snapshot, given.client), orphans=orphans)
    report.document(found)
    rows = [
        (
            each["path"],
            each["checkpoint_id"],
            each["files"],
            size_text(each["total_bytes"]),
            size_text(each["inline_bytes"]),
            "whole" if each["is_whole"] else _counted(len(each["problems"])),
        )
        for each in found["snapshots"]
    ]
    report.text(table(("SNAPSHOT", "ID", "FILES", "BYTES", "INLINE", "VERDICT"), rows))
    problems = 0
    for each in found["snapshots"]:
        for problem in each["problems"]:
            problems += 1
            used = f" (used by {', '.join(problem['used_by'])})" if problem["used_by"] else ""
            report.text(f"  {printable(problem['text'])}{printable(used)}")
    if found["orphans"] is not None:
        report.line("")
        report.text(_orphans(found["orphans"]))
    if not found["is_whole"]:
        raise FoundError(f"{_counted(problems)} found. Restore from a snapshot that is whole.")


def _counted(problems: int) -> str:
    return "1 problem" if problems == 1 else f"{problems:,} problems"


def _orphans(orphans: list[dict[str, Any]]) -> str:
    if not orphans:
        return "No orphans: a snapshot names every file."
    rows = [
        (each["path"], size_text(each["size_bytes"]), span_text(each["age_ms"]), each["reason"])
        for each in orphans
    ]
    total = size_text(sum(each["size_bytes"] for each in orphans))
    return table(("ORPHAN", "BYTES", "AGE", "REASON"), rows) + (
        f"\n{len(orphans):,} orphans, {total}. Nothing was deleted; the job's own sweep deletes "
        "them when they are older than penstock.checkpoint.orphan-ttl."
    )
