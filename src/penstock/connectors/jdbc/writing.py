"""How rows get into a database: what the program says of it, and a connection that tries again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from penstock.connectors.pending_files import (
    Item,
    PendingCommitter,
    by_sink,
    covers,
    frames_of,
    parts_of,
)
from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten
from penstock.core.fault_points import fault_span
from penstock.core.times import BackOff, Tries

if TYPE_CHECKING:
    from penstock.connectors.jdbc.client import JdbcConnectionOptions
    from penstock.connectors.jdbc.database import Rows
    from penstock.connectors.sink import CommitContext
    from penstock.core.composite_types import RowTypeInfo


_LONGEST_S: Final = 10.0
"""Between two tries."""
_UNFIT: Final = (TypeError, ValueError, OverflowError)
"""What drivers raise of values that they cannot send."""


@dataclass(frozen=True, slots=True)
class JdbcExecutionOptions:
    """How records are written; made by `builder()`."""

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        return self.batch_size

    def get_max_retries(self) -> int:
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Returns what holds where nothing is set."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Begins options.

        Example:
            >>> options = JdbcExecutionOptions.builder().with_batch_size(1000).build()
            >>> options.get_batch_size(), options.get_max_retries()
            (1000, 3)
        """
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds `JdbcExecutionOptions`."""

        def __init__(self) -> None:
            self._given: dict[str, int] = {}

        def with_batch_interval_ms(self, interval_ms: int) -> Self:
            """Is accepted; a batch waits for the end of the epoch at most, about a second."""
            return self._set("batch_interval_ms", interval_ms, 0)

        def with_batch_size(self, size: int) -> Self:
            """Sets how many records are written in one transaction; 5000 unless set."""
            return self._set("batch_size", size, 1)

        def with_max_retries(self, max_retries: int) -> Self:
            """Sets how often a batch is tried again before the job fails; 3 unless set."""
            return self._set("max_retries", max_retries, 0)

        def _set(self, name: str, value: int, least: int) -> Self:
            if not isinstance(value, int) or value < least:
                raise ProgramError(f"with_{name}({value!r:.80}) takes a number from {least} up.")
            self._given[name] = value
            return self

        def build(self) -> JdbcExecutionOptions:
            """Returns the options."""
            return JdbcExecutionOptions(**self._given)


@dataclass(frozen=True, slots=True)
class JdbcSinkSettings:
    """What the program says about a sink."""

    sql: str
    type_info: RowTypeInfo
    connection: JdbcConnectionOptions
    execution: JdbcExecutionOptions

    def rows(self, values: list[Any], value_of: Callable[[Any], Any]) -> list[list[Any]]:
        """Returns the parameters of the statement for records, each through `value_of`."""
        try:
            return [list(map(value_of, row)) for row in self.type_info.convert_all(values)]
        except (AttributeError, KeyError, TypeError):
            mismatch = self.type_info.mismatch
            wrong = ("got None" if value is None else mismatch(value) for value in values)
            text = next(filter(None, wrong), None)
            if text is None:
                raise
            raise ProgramError(f"a record does not fit the type of the JdbcSink: {text}") from None


class JdbcOutput:
    """A connection and what is written through it; dropped after any failure."""

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._settings = settings
        self.database = settings.connection.database()
        self._statement = self.database.statement(settings.sql)
        self._connection: Any = None

    def connection(self) -> Any:
        """Returns the connection, a new one after a failure."""
        if self._connection is None:
            self._connection = self.database.connect()
        return self._connection

    def patiently(self, run: Callable[[], None]) -> None:
        """Runs a transaction, again on a new connection as long as its error may heal."""
        tries = Tries(BackOff(self._settings.execution.max_retries, longest_s=_LONGEST_S))
        while True:
            try:
                return run()
            except BaseException as error:
                self.close()
                if isinstance(error, InputError) or not isinstance(error, JobExecutionError):
                    raise
                tries.failed(error)

    def write_batch(self, rows: Rows) -> None:
        """Writes rows in a transaction of their own."""

        def run() -> None:
            connection = self.connection()
            with self.database.asked(f"{len(rows):,} rows"):
                self.database.begin(connection)
                self.write(rows)
                self.database.commit(connection)

        self.patiently(run)

    def write(self, rows: Rows) -> None:
        """Writes rows inside a transaction; if one of them is refused, the error names it."""
        size = self._settings.execution.batch_size
        connection = self.connection()
        try:
            for start in range(0, len(rows), size):
                self.database.write(connection, self._statement, rows[start : start + size])
        except (self.database.errors(), *_UNFIT) as error:
            if isinstance(error, self.database.errors()) and self.database.heals(error):
                raise self.database.failed(error, f"{len(rows):,} rows") from error
            raise self._refused(rows, error) from error

    def _refused(self, rows: Rows, error: Exception) -> JobExecutionError:
        """Finds the row that the database refuses: of many at once it does not tell which."""
        connection = self.connection()
        sql = shorten(self._settings.sql)
        try:
            self.database.query(connection, "ROLLBACK")
            self.database.begin(connection)
            for row in rows:
                try:
                    connection.cursor().execute(self._statement, row)
                except (self.database.errors(), *_UNFIT) as met:
                    return self.database.failed(met, f"the row {shorten(list(row))} of {sql}")
        except self.database.errors() as met:
            return self.database.failed(met, sql)
        return self.database.failed(error, sql)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()  # What is open is rolled back.


# Exactly once: pending rows and how far they are, in one transaction.
#
# 1. A subtask writes the rows of an epoch to pending files (`pending_files`), which checkpoints and
#    savepoints hold.
# 2. When the checkpoint has completed, the driver writes them in one transaction, which also writes
#    the *marker*: the row of the sink in the table `penstock_commits`.
# 3. What is repeated after a failure finds the marker, and writes only what lies behind it.

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


class JdbcCommitter(PendingCommitter):
    """Writes pending rows and a marker in one transaction; runs in the driver.

    The marker is the sink's row of `penstock_commits`. It is locked first: two processes that
    write the same output do it one after the other, and the second finds the marker of the first.
    After any failure, also where it is not known whether a transaction was committed, a new
    connection reads the marker again.
    """

    kind = "database"

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._settings = settings
        self._output = JdbcOutput(settings)
        self._known: set[str] = set()

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for sink, items in by_sink(committables).items():
            for part in parts_of(items, _TRANSACTION_BYTES):
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
                    for frame in frames_of(item, context.area):
                        output.write(msgspec.msgpack.decode(frame))
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

    def close(self) -> None:
        self._output.close()
