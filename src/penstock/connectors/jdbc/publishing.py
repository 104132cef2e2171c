"""Exactly once in a database: pending rows and how far they are, in one transaction.

1. A subtask writes the rows of an epoch to pending files (`pending_files`), which checkpoints and
   savepoints hold.
2. When the checkpoint has completed, the driver writes them in one transaction, which also writes
   the *marker*: the row of the sink in the table `penstock_commits`.
3. What is repeated after a failure finds the marker, and writes only what lies behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.connectors.jdbc.writing import JdbcOutput, JdbcSinkSettings
from penstock.connectors.pending_files import Item, by_sink, covers, files_of, frames_of
from penstock.connectors.sink import CommitContext, Committer
from penstock.core.errors import JobExecutionError
from penstock.core.fault_points import fault_span

if TYPE_CHECKING:
    from penstock.connectors.jdbc.database import Rows
    from penstock.core.handles import FileHandle
    from penstock.files.area import FileArea

COMMITS: Final = "penstock_commits"
"""Table of the target with a row for each sink: up to where its output is in the database."""
_CREATE: Final = (
    f"CREATE TABLE {COMMITS} (sink {{}} PRIMARY KEY, process BIGINT, attempt BIGINT,"
    " epoch BIGINT, writer BIGINT, name VARCHAR(250), checkpoint BIGINT){}"
)
_BEFORE_ALL: Final = (0, 0, 0, 0)
_TRANSACTION_BYTES: Final = 64 << 20
"""About so much is written in one transaction, so that none takes long."""
_ROWS: Final = fault_span("jdbc.rows")
_COMMIT: Final = fault_span("jdbc.commit")


class JdbcCommitter(Committer):
    """Writes pending rows and a marker in one transaction; runs in the driver.

    The marker is the sink's row of `penstock_commits`. It is locked first: two processes that
    write the same output do it one after the other, and the second finds the marker of the first.
    After any failure, also where it is not known whether a transaction was committed, a new
    connection reads the marker again.
    """

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._settings = settings
        self._output = JdbcOutput(settings)
        self._known: set[str] = set()

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for sink, items in by_sink(committables).items():
            for part in _parts(items):
                self._output.patiently(partial(self._run, sink, part, context))

    def _run(self, sink: str, items: list[Item], context: CommitContext) -> None:
        assert context.area is not None
        output, database = self._output, self._output.database
        if sink not in self._known:
            self._prepare(sink)
        with database.asked("the output of a checkpoint"):
            connection = output.connection()
            database.begin(connection)
            columns = "process, attempt, epoch, writer, name"
            found = database.locked(connection, columns, COMMITS, "sink", sink)
            if found is None:
                self._known.discard(sink)
                raise JobExecutionError(f"the row of '{sink}' in {COMMITS} was deleted just now.")
            *place, name = found
            new = [item for item in items if not covers(tuple(place), name, item)]
            with _ROWS:
                for item in new:
                    for rows in _rows_of(item, context.area):
                        output.write(rows)
            if new:
                last = new[-1]
                database.query(
                    connection,
                    f"UPDATE {COMMITS} SET process = ?, attempt = ?, epoch = ?, writer = ?,"
                    " name = ?, checkpoint = ? WHERE sink = ?",
                    [*last["place"], last["name"], context.checkpoint_id, sink],
                )
            with _COMMIT:
                database.commit(connection)

    def _prepare(self, sink: str) -> None:
        """Makes the table and the sink's row, unless they are there."""
        database, connection = self._output.database, self._output.connection()
        row = [sink, *_BEFORE_ALL, ""]
        insert = f"INSERT INTO {COMMITS} VALUES (?, ?, ?, ?, ?, ?, NULL)"
        with database.asked(f"a look at its tables for {self._settings.sql}"):
            database.check_tables(connection, self._settings.sql)
        try:
            found = database.query(connection, f"SELECT 1 FROM {COMMITS} WHERE sink = ?", [sink])
            if found.fetchone() is None:
                database.query(connection, insert, row)
        except database.errors() as error:
            if not database.is_no_table(error):
                raise JobExecutionError(
                    str(database.failed(error, f"a look at {COMMITS}"))
                ) from error
            create = _CREATE.format(database.key_type, database.table_options)
            try:
                database.query(connection, create)
            except database.errors() as met:
                # Another process may have made it meanwhile: the next try looks again.
                text = f"the table {COMMITS}. If it may not create tables, run: {create}"
                raise JobExecutionError(str(database.failed(met, text))) from met
            self._prepare(sink)
        self._known.add(sink)

    def files(self, committable: Any) -> list[FileHandle]:
        return files_of(committable)

    def close(self) -> None:
        self._output.close()


def _parts(items: list[Item]) -> Iterator[list[Item]]:
    """Yields what belongs into one transaction each."""
    part: list[Item] = []
    size = 0
    for item in items:
        if part and size + item["size"] > _TRANSACTION_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += item["size"]
    if part:
        yield part


def _rows_of(item: Item, area: FileArea) -> Iterator[Rows]:
    for frame in frames_of(item, area):
        yield msgspec.msgpack.decode(frame)
