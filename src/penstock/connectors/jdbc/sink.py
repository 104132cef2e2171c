"""Databases as a sink: one statement for each record, at least once or exactly once.

    JdbcSink.sink(
        "INSERT INTO counts (word, count) VALUES (?, ?)"
        " ON CONFLICT (word) DO UPDATE SET count = excluded.count",
        Types.ROW([Types.STRING(), Types.LONG()]),
        connection_options,
        JdbcExecutionOptions.builder().with_batch_size(1000).build(),
    )

`sink` writes in the subtasks, in transactions of a batch. With `exactly_once_sink` records wait in
files until a checkpoint has completed. Then the driver writes them, and how far it came, in one
transaction (`JdbcCommitter`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from penstock.connectors.jdbc.client import JdbcConnectionOptions
from penstock.connectors.jdbc.writing import (
    JdbcCommitter,
    JdbcExecutionOptions,
    JdbcOutput,
    JdbcSinkSettings,
)
from penstock.connectors.pending_files import PendingFiles
from penstock.connectors.sink import (
    BatchWriter,
    Committer,
    DirectSink,
    SinkWriter,
    WriterContext,
)
from penstock.core.composite_types import RowTypeInfo
from penstock.core.errors import ProgramError, shorten


class JdbcSink(DirectSink):
    """Writes to a database; made by `JdbcSink.sink` or `JdbcSink.exactly_once_sink`."""

    _default_name = "JDBC Sink"

    def __init__(self, settings: JdbcSinkSettings, *, is_exactly_once: bool) -> None:
        self._settings = settings
        self._is_exactly_once = is_exactly_once

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Returns a sink that writes at least once.

        A statement that may be repeated, such as an upsert, gives the same table as exactly once.

        Args:
            sql: A statement with a `?` for each field, in their order.
            type_info: The type of the records: `Types.ROW` or `Types.ROW_NAMED`.
            jdbc_connection_options: Where the database is.
            jdbc_execution_options: Batches and retries.

        Example:
            >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
            >>> options = options.with_url(f"jdbc:sqlite:{folder}/shop.db").build()
            >>> database = sqlite3.connect(f"{folder}/shop.db")
            >>> _ = database.execute("CREATE TABLE words (word TEXT PRIMARY KEY, length INT)")
            >>> words = Types.ROW([Types.STRING(), Types.INT()])
            >>> upsert = "INSERT OR REPLACE INTO words VALUES (?, ?)"
            >>> stream = env.from_collection([Row("to", 2), Row("be", 2)], words)
            >>> _ = stream.add_sink(JdbcSink.sink(upsert, words, options))
            >>> _ = env.execute()
            >>> database.execute("SELECT word FROM words ORDER BY word").fetchall()
            [('be',), ('to',)]
        """
        execution = jdbc_execution_options or JdbcExecutionOptions()
        settings = _checked(sql, type_info, jdbc_connection_options, execution)
        return JdbcSink(settings, is_exactly_once=False)

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Returns a sink whose rows are in the database once, when a checkpoint has completed.

        It keeps a row for itself in the table `penstock_commits`, which it creates.

        Args:
            sql: A statement with a `?` for each field, in their order.
            type_info: The type of the records: `Types.ROW` or `Types.ROW_NAMED`.
            jdbc_connection_options: Where the database is.
            jdbc_execution_options: Batches and retries.
        """
        execution = jdbc_execution_options or JdbcExecutionOptions()
        settings = _checked(sql, type_info, jdbc_connection_options, execution)
        return JdbcSink(settings, is_exactly_once=True)

    def connect(self) -> JdbcOutput:
        return JdbcOutput(self._settings)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._is_exactly_once:
            return _PendingWriter(self._settings, context)
        output: JdbcOutput = self.client()
        made = partial(self._settings.rows, value_of=output.database.value)
        return BatchWriter(output.write_batch, self._settings.execution.batch_size, made)

    def create_committer(self) -> Committer:
        # In any case: a savepoint may owe what the program wrote exactly once before.
        return JdbcCommitter(self._settings)


def _checked(
    sql: str,
    type_info: RowTypeInfo,
    connection: JdbcConnectionOptions,
    execution: JdbcExecutionOptions,
) -> JdbcSinkSettings:
    if not isinstance(type_info, RowTypeInfo):
        raise ProgramError(
            f"a JdbcSink takes the type of its records, Types.ROW([...]), not {type_info!r:.80}."
        )
    if not isinstance(connection, JdbcConnectionOptions):
        raise ProgramError(f"a JdbcSink takes JdbcConnectionOptions, not {connection!r:.80}.")
    fields = len(type_info.get_field_types())
    found = connection.database().parsed(sql)[1]
    if found != fields:
        raise ProgramError(
            f"the statement of a JdbcSink has {found} parameters (?), but its records have "
            f"{fields} fields; each field needs one, in their order: {shorten(sql)}"
        )
    return JdbcSinkSettings(sql, type_info, connection, execution)


class _PendingWriter(SinkWriter):
    """Writes rows to pending files."""

    def __init__(self, settings: JdbcSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._pending = PendingFiles(context)
        self._value = settings.connection.database().value

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        rows = self._settings.rows(values, self._value)
        try:
            frame = msgspec.msgpack.encode(rows)
        except TypeError as error:
            raise ProgramError(
                f"a record of a JdbcSink has a field that no database takes: {error}"
            ) from None
        self._pending.add(frame, len(rows))

    def prepare_commit(self) -> list[Any]:
        return list(self._pending.committables())
