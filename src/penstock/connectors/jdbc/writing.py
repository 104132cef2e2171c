"""How rows get into a database: what the program says of it, and a connection that tries again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten

if TYPE_CHECKING:
    from penstock.connectors.jdbc.client import JdbcConnectionOptions
    from penstock.connectors.jdbc.database import Rows
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
        for tried in range(self._settings.execution.max_retries + 1):
            try:
                return run()
            except InputError:
                self.close()
                raise
            except JobExecutionError:
                self.close()
                if tried == self._settings.execution.max_retries:
                    raise
                time.sleep(min(0.1 * 2**tried, _LONGEST_S))
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable")

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
