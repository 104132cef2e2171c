"""`penstock state ls|get|diff`: what snapshots hold, read offline."""

from __future__ import annotations

import json
from typing import Any

import click

from penstock.cli.failures import FoundError, WrongUsageError, did_you_mean
from penstock.cli.snapshots import read_snapshot, snapshot_path
from penstock.cli.state_entries import FORMATS, checked_output, write_entries
from penstock.cli.tables import printable, size, table
from penstock.cli.verb import Verb, asked, service_options


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
  <job id>         the latest snapshot of a job; the first six digits will do
  <job id>:chk-N   one of its checkpoints

\b
Examples:
  penstock state ls 40dcc6
  penstock state get 40dcc6:chk-12 count --key alice""",
)
def verb() -> None:
    """List, read and compare the state in snapshots. Needs neither Spark nor a job manager."""


@verb.command(
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
        f'"{printable(found["job_name"])}": {size(found["total_bytes"])}, '
        f"{size(found['inline_bytes'])} of it inside _metadata"
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
            size(operator["file_bytes"]),
            size(operator["inline_bytes"]),
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


@verb.command(
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
    help="How entries are written; table by default.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file; parquet needs one.")
@click.option(
    "--unpickle",
    is_flag=True,
    help="Load pickled objects. This runs code that is in the snapshot: only for your own.",
)
@service_options
def get_state(snapshot: str, uid: str, state: str | None, **options: Any) -> None:
    """Show entries of an operator's state: keyed, operator and broadcast state, timers.

    Built-in values and those of declared types are shown. Pickled objects of classes are not
    loaded unless --unpickle is given; they are shown as {"$pickle": <bytes>}.
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


@verb.command(
    "diff",
    cls=Verb,
    epilog="""\b
Examples:
  penstock state diff 40dcc6:chk-11 40dcc6:chk-12
  penstock state diff --uid count /backups/savepoint-… /backups/savepoint-…
Exits with 3 when there are differences.""",
)
@click.argument("before", metavar="<snapshot>")
@click.argument("after", metavar="<snapshot>")
@click.option("--uid", metavar="UID", help="Only this operator.")
@click.option(
    "--limit", type=int, default=20, metavar="N", help="Name at most N keys of each kind."
)
@click.option("--unpickle", is_flag=True, help="Compare pickled objects loaded, not byte by byte.")
@service_options
def diff_states(before: str, after: str, **options: Any) -> None:
    """Compare two snapshots: operators, settings, types, and the keys that were changed."""
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
