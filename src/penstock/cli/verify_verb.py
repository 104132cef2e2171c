"""`penstock verify`: reads every file of a snapshot and compares length and checksum."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.failures import FoundError
from penstock.cli.snapshots import snapshot_path
from penstock.cli.tables import printable, size, span, table
from penstock.cli.verb import Verb, asked, service_options


@click.command(
    "verify",
    cls=Verb,
    epilog="""\b
Examples:
  penstock verify /backups/savepoint-40dcc6-0d1b2c3a4f5e
  penstock verify /checkpoints/582e17d2…            all checkpoints that the job retains
  penstock verify /checkpoints/582e17d2… --orphans  files that no checkpoint names, too
  penstock verify 40dcc6:chk-12
Exits with 3 when something is damaged.""",
)
@click.argument("snapshot", metavar="<snapshot or directory>")
@click.option("--orphans", is_flag=True, help="List files that no snapshot names; delete nothing.")
@service_options
def verb(snapshot: str, orphans: bool, **options: Any) -> None:
    """Check that every file of a snapshot is there, whole and unchanged.

    Lists all problems, not only the first. Reads only; needs neither Spark nor a job manager.
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
            size(each["total_bytes"]),
            size(each["inline_bytes"]),
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
        (each["path"], size(each["size_bytes"]), span(each["age_ms"]), each["reason"])
        for each in orphans
    ]
    total = size(sum(each["size_bytes"] for each in orphans))
    return table(("ORPHAN", "BYTES", "AGE", "REASON"), rows) + (
        f"\n{len(orphans):,} orphans, {total}. Nothing was deleted; the job's own sweep deletes "
        "them when they are older than penstock.checkpoint.orphan-ttl."
    )
