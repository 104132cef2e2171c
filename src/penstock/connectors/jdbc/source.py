"""Databases as a source: the rows of a query, by ranges of a column, and then its new rows.

    JdbcSource.builder()
        .set_connection_options(options)
        .set_sql("SELECT id, user_name, total FROM orders")
        .set_split_column("id")
        .build()

1. The driver looks for the least and the greatest value of the column, and makes ranges of whole
   numbers; other columns are one range.
2. A reader asks for the next rows of a range in the order of the column, from a position, which is
   the value of the last row. All rows of one value are read together, so that nothing depends on
   an order among them.
3. With `set_follow` one more range begins where the others end, and has no end.

Numbers and times are given to transactions before they commit, so a row may appear behind rows
with greater values. A range without an end is therefore read only up to where the column was some
time ago (the settle time), and, on a server, no transaction of that time is still running.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from penstock.connectors.jdbc.client import JdbcConnectionOptions
from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.row import Row
from penstock.core.times import BackOff, Tries, to_millis

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

_SPLITS: Final = 4
"""Ranges for each subtask, so that one which takes longer does not hold up the others."""
_POLL_MS: Final = 500
_RETRIES: Final = 2
_AGAIN_MS: Final = 500
_TEXT_TYPES: Final = (datetime.date, datetime.time, Decimal, UUID)


@dataclass(frozen=True, slots=True)
class JdbcSourceSettings:
    """What the program says about a source."""

    connection: JdbcConnectionOptions
    sql: str
    column: str
    parameters: tuple[Any, ...] = ()
    splits: int | None = None
    follows: bool = False
    settle_ms: int | None = None
    poll_ms: int = _POLL_MS
    extractor: Callable[[Row], Any] | None = None
    type_info: TypeInformation | None = None


class _Queries:
    """Asks a database; a new connection is made after a failure."""

    def __init__(self, settings: JdbcSourceSettings) -> None:
        self.settings = settings
        self.database = settings.connection.database()
        self._connection: Any = None

    def rows(
        self, select: str, more: str = "", parameters: Sequence[Any] = ()
    ) -> tuple[Any, list[tuple[Any, ...]]]:
        """Returns the cursor and rows of the program's query as a table `q`."""
        settings = self.settings
        sql = f"SELECT {select} FROM ({settings.sql}) q {more}"
        return self.ask(sql, (*settings.parameters, *parameters))

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, list[tuple[Any, ...]]]:
        tries = Tries(BackOff(_RETRIES, _AGAIN_MS, grows=False))
        while True:
            try:
                if self._connection is None:
                    self._connection = self.database.connect()
                with self.database.asked(f"the query {sql}"):
                    cursor = self.database.query(self._connection, sql, parameters)
                    return cursor, list(cursor.fetchall())
            except JobExecutionError as error:
                self.close()
                if isinstance(error, InputError):
                    raise
                tries.failed(error)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class JdbcSource(Source):
    """Reads a query; made by `JdbcSource.builder()`."""

    _default_name = "JDBC Source"

    def __init__(self, settings: JdbcSourceSettings) -> None:
        self._settings = settings
        self._settled: _Settled | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_settings": self._settings, "_settled": None}

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Begins a source.

        Example:
            >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
            >>> options = options.with_url(f"jdbc:sqlite:{folder}/orders.db").build()
            >>> database = sqlite3.connect(f"{folder}/orders.db")
            >>> _ = database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)")
            >>> _ = database.execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'cake')")
            >>> database.commit()
            >>> builder = JdbcSource.builder().set_connection_options(options)
            >>> orders = builder.set_sql("SELECT * FROM orders").set_split_column("id").build()
            >>> stream = env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
            >>> sorted(row.what for row in stream.execute_and_collect())
            ['cake', 'tea']
        """
        return JdbcSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        follows = self._settings.follows
        return Boundedness.CONTINUOUS_UNBOUNDED if follows else Boundedness.BOUNDED

    def with_parallelism(self, parallelism: int) -> Source:
        if self._settings.splits is not None:
            return self
        return JdbcSource(replace(self._settings, splits=parallelism * _SPLITS))

    def discover(self, state: Any, now_ms: int) -> Discovery:
        if state is not None:
            return Discovery((), state, complete=True)
        settings, queries = self._settings, _Queries(self._settings)
        column = settings.column
        settled = None
        try:
            if settings.follows:
                # Before the least value is looked for: a transaction may commit a lesser one yet.
                if self._settled is None:
                    self._settled = _Settled(_Queries(settings))
                settled = self._settled.value(now_ms)
            select = f"MIN({column}), MAX({column}), COUNT(*) - COUNT({column})"
            [(least, greatest, empty)] = queries.rows(select)[1]
            if empty:
                raise InputError(
                    f"{empty:,} rows of the query have no value in the column {column}, so a "
                    f"JdbcSource cannot read them in its order. Add WHERE {column} IS NOT NULL to "
                    "the query, or choose a column that each row has."
                )
            found = queries.database.type_of(queries.rows(column, "LIMIT 0")[0])
            if unordered := queries.database.unordered.get(found):
                kind, reason, better = unordered
                raise InputError(
                    f"the column {column} is of the type {kind}, {reason}. Choose another one, or "
                    f"select it in the query with CAST({column} AS {better})."
                )
            if settings.follows and greatest is not None:
                # Rows behind this may be in transactions that are still running.
                if settled is None:
                    return Discovery((), None)
                greatest = settled
        finally:
            queries.close()
        splits = _ranges(least, greatest, settings.splits or _SPLITS)
        if settings.follows:
            splits.append(Split("new rows", [None], start=_stored(greatest), concurrent=True))
        self.job_ended()
        return Discovery(tuple(splits), {"splits": len(splits)}, complete=True)

    def job_ended(self) -> None:
        if self._settled is not None:
            self._settled.close()
            self._settled = None

    def create_reader(self) -> SourceReader:
        return _Reader(self._settings)

    def produced_type(self) -> TypeInformation | None:
        return self._settings.type_info


def _ranges(least: Any, greatest: Any, count: int) -> list[Split]:
    """Returns splits whose data are a range's end, included, and whose start is before its first.

    A range has a start of None where nothing is before it.
    """
    if least is None:
        return []
    if type(least) is not int or type(greatest) is not int:
        return [Split("all", [_stored(greatest)], start=None)]
    width = max(1, -(-(greatest - least + 1) // count))
    return [
        Split(f"{first}..{last}", [last], start=first - 1 if first > least else None)
        for first in range(least, greatest + 1, width)
        for last in [min(first + width - 1, greatest)]
    ]


def _stored(value: Any) -> Any:
    """Returns the value of a column as plain data, which the database takes for the same."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, _TEXT_TYPES):
        return str(value)
    if value is not None and type(value) not in (int, float, str):
        raise ProgramError(
            f"the split column of a JdbcSource has values such as {value!r:.80}, of which there is "
            "no order; choose a column of numbers, texts or times."
        )
    return value


class _Reader(SourceReader):
    def __init__(self, settings: JdbcSourceSettings) -> None:
        self._settings = settings
        self._queries = _Queries(settings)
        self._settled = _Settled(self._queries)
        self._polled_ms: int | None = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        last, is_endless = split.data[0], split.concurrent
        if is_endless:
            polled_ms, now_ms = self._polled_ms, budget.now_ms
            if polled_ms is not None and 0 <= now_ms - polled_ms < self._settings.poll_ms:
                return ReadResult([], position)
            self._polled_ms = now_ms
            last = self._settled.value(now_ms)
            if last is None or last == position:
                return ReadResult([], position)
        cursor, rows, has_more = self._rows(position, last, budget.max_records)
        if has_more:
            self._polled_ms = None
        if not rows:
            return ReadResult([], position, finished=not is_endless)
        shared = tuple(each[0] for each in cursor.description[1:])
        values: list[Any] = [Row.of_names(shared, row[1:]) for row in rows]
        if self._settings.extractor is not None:
            values = [self._settings.extractor(value) for value in values]
        return ReadResult(
            values,
            _stored(rows[-1][0]),
            finished=not has_more and not is_endless,
            has_more=has_more,
        )

    def _rows(self, after: Any, last: Any, most: int) -> tuple[Any, list[tuple[Any, ...]], bool]:
        """Returns the cursor, rows with whole groups of one value, and whether there are more."""
        column = self._settings.column
        conditions = [f"{column} > ?"] * (after is not None) + [f"{column} <= ?"]
        parameters = [*([] if after is None else [after]), last]
        more = f"WHERE {' AND '.join(conditions)} ORDER BY {column} LIMIT ?"
        while True:
            select = f"{column}, q.*"
            cursor, rows = self._queries.rows(select, more, [*parameters, most + 1])
            if len(rows) <= most:
                return cursor, rows, False
            # The last value may have rows that are not among these.
            cut = most
            while cut and not self._is_between(rows[cut - 1][0], rows[cut][0]):
                cut -= 1
            if cut:
                return cursor, rows[:cut], True
            most *= 2

    def _is_between(self, value: Any, following: Any) -> bool:
        """Whether two values that follow each other are different ones for the database."""
        if value == following or not isinstance(value, str):
            # Of a value that is not equal to itself (NaN) there is nothing between two.
            return bool(value != following and following == following)  # noqa: PLR0124
        # A collation may take 'a' and 'A' for the same.
        column = self._settings.column
        more = f"WHERE {column} > ? AND {column} <= ? LIMIT 1"
        return bool(self._queries.rows("1", more, [value, following])[1])

    def close(self) -> None:
        self._queries.close()


class _Settled:
    """Knows up to which value of the column no row can appear any more."""

    def __init__(self, queries: _Queries) -> None:
        self._queries = queries
        self._seen: list[tuple[int, Any, Any]] = []  # When, transactions, greatest value.
        self._value: Any = None

    def value(self, now_ms: int) -> Any:
        """Returns the value, or None before the first is known."""
        queries, settings = self._queries, self._queries.settings
        settle_ms = settings.settle_ms
        if settle_ms is None:
            settle_ms = queries.database.settle_ms
        [(greatest,)] = queries.rows(f"MAX({settings.column})")[1]
        running = queries.database.transactions(queries.ask)
        greatest = _stored(greatest)
        if greatest is not None and (not self._seen or self._seen[-1][2] != greatest):
            self._seen.append((now_ms, running, greatest))
        while self._seen:
            seen_ms, running_then, value = self._seen[0]
            if now_ms - seen_ms < settle_ms:
                break
            if not queries.database.have_ended(running_then, running):
                break
            self._value = value
            del self._seen[0]
        return self._value

    def close(self) -> None:
        self._queries.close()


class JdbcSourceBuilder:
    """Builds a `JdbcSource`; where the database is, a query and a column are needed."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}
        self._connection: dict[str, Any] = {}

    def set_connection_options(self, options: JdbcConnectionOptions) -> Self:
        """Sets where the database is."""
        return self._set("connection", options)

    def set_db_url(self, db_url: str) -> Self:
        """Sets the address; instead of `set_connection_options`."""
        self._connection["url"] = db_url
        return self

    def set_username(self, username: str) -> Self:
        """Sets the user; instead of `set_connection_options`."""
        self._connection["user_name"] = username
        return self

    def set_password(self, password: str) -> Self:
        """Sets the password; instead of `set_connection_options`."""
        self._connection["password"] = password
        return self

    def set_driver_name(self, driver_name: str) -> Self:
        """Is accepted; the address says which driver it is."""
        self._connection["driver_name"] = driver_name
        return self

    def set_sql(self, sql: str, *parameters: Any) -> Self:
        """Sets the query, and values for each `?` in it."""
        self._given["parameters"] = parameters
        return self._set("sql", str(sql).strip().rstrip(";"))

    def set_split_column(self, column: str, splits: int | None = None) -> Self:
        """Sets the column of the query by which it is cut and read; it should have an index.

        Args:
            column: Its values are numbers, texts or times, and none is NULL.
            splits: How many ranges are made of whole numbers; four for each subtask unless set.
        """
        if splits is not None and (not isinstance(splits, int) or splits < 1):
            raise ProgramError(f"set_split_column(splits={splits!r}) takes a number from 1 up.")
        self._given["splits"] = splits
        return self._set("column", str(column))

    def set_follow(self, settle_time: Any = None, poll_interval: Any = None) -> Self:
        """Has the source read new rows too: those with greater values of the split column.

        Args:
            settle_time: A row is read when its value was there for so long, five seconds unless
                set. It must be longer than it takes from the value of a row to its commit.
            poll_interval: How often the database is asked, half a second unless set.
        """
        if settle_time is not None:
            self._given["settle_ms"] = to_millis(settle_time, "settle_time")
        if poll_interval is not None:
            self._given["poll_ms"] = to_millis(poll_interval, "poll_interval")
        return self._set("follows", True)

    def set_result_extractor(self, extractor: Callable[[Row], Any]) -> Self:
        """Sets what makes a record of a row; records are rows with the names of columns else."""
        return self._set("extractor", extractor)

    def set_type_info(self, type_info: TypeInformation) -> Self:
        """Sets the type of the records."""
        return self._set("type_info", type_info)

    def _set(self, name: str, value: Any) -> Self:
        self._given[name] = value
        return self

    def build(self) -> JdbcSource:
        """Returns the source."""
        if self._connection:
            self._given["connection"] = JdbcConnectionOptions(**self._connection)
        connection = self._given.get("connection")
        if not isinstance(connection, JdbcConnectionOptions):
            raise ProgramError("a JdbcSource needs set_db_url(...) or set_connection_options(...).")
        connection.database()
        if not self._given.get("sql"):
            raise ProgramError("a JdbcSource needs set_sql(...), a query.")
        if "column" not in self._given:
            raise ProgramError(
                "a JdbcSource needs set_split_column(...): the rows are read in the order of a "
                "column, such as the primary key, so that a restart finds its place again."
            )
        settings = JdbcSourceSettings(**self._given)
        count = connection.database().parsed(settings.sql)[1]
        if count != len(settings.parameters):
            raise ProgramError(
                f"set_sql(...) has {count} parameters (?), but got {len(settings.parameters)} "
                "values."
            )
        return JdbcSource(settings)
