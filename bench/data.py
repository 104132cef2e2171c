r"""Input for all peers, made from a seed, and the expected results, computed by DuckDB.

One line an event: `ts \t channel \t id \t behavior`. Event i happens i / 2 ms after the start; its
timestamp lies two minutes behind, minus up to 50 s of disorder. A watermark 50 s behind the
highest timestamp thus never makes a record late, and every event must be counted.

The lines are dealt in turn to two files, so that each of two readers sees the whole time span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from pathlib import Path

SEED = 1_000_000_000_039
FILES = 2
USERS = 1_000_000
START_MS = 1_700_000_000_000

EVENTS = f"""
    SELECT {START_MS} + i // 2 - 120000 - (hash(i) % 50000)::BIGINT AS ts,
           'channel-' || hash(i + 1 * {SEED}) % 20 AS channel,
           (hash(i + 2 * {SEED}) % {USERS})::BIGINT AS id,
           list_extract(['install', 'open', 'browse', 'click', 'purchase', 'uninstall'],
                        1 + (hash(i + 3 * {SEED}) % 6)::INTEGER) AS behavior
    FROM range(?::BIGINT) AS numbers(i)
    WHERE i % {FILES} = ?
"""

COLUMNS = "{'ts': 'BIGINT', 'channel': 'VARCHAR', 'id': 'BIGINT', 'behavior': 'VARCHAR'}"


def make_input(folder: Path, records: int) -> Path:
    """Writes the files for that many records, unless they are there."""
    target = folder / f"events-{records}"
    if not target.exists():
        unfinished = folder / f"unfinished-{records}"
        unfinished.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(config={"preserve_insertion_order": True})
        for number in range(FILES):
            path = unfinished / f"part-{number}.tsv"
            connection.execute(
                f"COPY ({EVENTS}) TO '{path}' (DELIMITER '\t', HEADER false)", [records, number]
            )
        unfinished.rename(target)
    return target


def read_input(source: Path) -> str:
    """SQL that reads the files back, as text, independently of how they were made."""
    return (
        f"read_csv('{source}/*.tsv', delim='\t', header=false, auto_detect=false,"
        f" columns={COLUMNS})"
    )


def expected_windows(source: Path) -> set[str]:
    r"""The lines `start \t end \t channel \t behavior \t count` that a job has to write."""
    rows = (
        duckdb.connect()
        .execute(f"""
        SELECT ts // 60000 * 60000 AS begin, begin + 60000, channel, behavior, count(*)
        FROM {read_input(source)} GROUP BY ALL
    """)
        .fetchall()
    )
    return {"\t".join(map(str, row)) for row in rows}


def wrong_windows(source: Path, lines: list[str]) -> str:
    """Says how the lines of a job differ from the expected ones, or nothing."""
    expected, given = expected_windows(source), set(lines)
    if given == expected and len(lines) == len(given):
        return ""
    return (
        f"{len(expected - given)} lines missing, {len(given - expected)} unexpected,"
        f" {len(lines) - len(given)} twice; for example"
        f" {sorted(expected ^ given)[:3] or sorted(lines)[:3]}"
    )


def result_files(folder: Path) -> list[Path]:
    """Files of results, wherever a sink put them; not checksums, markers or a sink's own log."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    ]


def wrong_users(source: Path, results: list[Path], *, every_count: bool) -> str:
    r"""Says how running counts differ from the expected ones, or nothing.

    Every user with n events must have the lines 1 to n, each once, or at least the line n when not
    every count is written. The results are files of lines `user \t count`.
    """
    given = (
        f"read_csv({[str(path) for path in results]}, delim='\t', header=false,"
        " auto_detect=false, columns={'id': 'BIGINT', 'n': 'BIGINT'})"
    )
    wrong = (
        duckdb.connect()
        .execute(f"""
        WITH expected AS (SELECT id, count(*) AS n FROM {read_input(source)} GROUP BY id),
             given AS (SELECT id, count(*) AS lines, count(DISTINCT n) AS counts,
                              min(n) AS first, max(n) AS last FROM {given} GROUP BY id)
        SELECT id, expected.n, lines, counts, first, last
        FROM expected FULL JOIN given USING (id)
        WHERE coalesce(last <> expected.n OR first < 1 OR lines <> counts
                       OR ({every_count} AND lines <> expected.n), true)
        LIMIT 3
    """)
        .fetchall()
    )
    return f"users (id, expected, lines, distinct, first, last): {wrong}" if wrong else ""
