"""The database connector on SQLite: addresses, statements, rows, retries, outcomes unknown."""

from __future__ import annotations

import datetime
import sqlite3
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest

from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.connectors.jdbc.database import Sqlite
from penstock.connectors.jdbc.postgres import Postgres
from penstock.connectors.sink import CommitContext, WriterContext
from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.times import Instant
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
    JdbcSource,
)
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.connectors.sink import Committer

PAIR = Types.ROW([Types.STRING(), Types.INT()])
INSERT = "INSERT INTO t VALUES (?, ?)"


def options(url: str) -> JdbcConnectionOptions:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()


class Shop:
    """A database with one table, and a job that writes to it."""

    def __init__(self, folder: Path, columns: str = "word TEXT, count INT") -> None:
        self.folder = folder
        self.path = folder / "shop.db"
        self.database = sqlite3.connect(self.path, isolation_level=None)
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.execute(f"CREATE TABLE t ({columns})")
        self.options = options(f"jdbc:sqlite:{self.path}")
        self.area = FileArea(folder / "area")

    def sink(self, sql: str = INSERT, kind: Any = PAIR, **execution: int) -> JdbcSink:
        settings = JdbcExecutionOptions(**execution)
        return JdbcSink.exactly_once_sink(sql, kind, self.options, settings)

    def pending(self, sink: JdbcSink, values: list[Any], epoch: int = 1, subtask: int = 0) -> Any:
        context = WriterContext(
            "a" * 32, "out", subtask, 2, epoch, f"at-{epoch}", 0, "", (1, 0), self.area
        )
        writer = sink.create_writer(context)
        writer.write(values, None, 0)
        found = writer.prepare_commit()
        writer.close()
        return found

    def context(self, epoch: int = 1) -> CommitContext:
        return CommitContext("a" * 32, "out", epoch, epoch, False, 0, area=self.area)

    def rows(self, sql: str = "SELECT * FROM t ORDER BY rowid") -> list[Any]:
        return self.database.execute(sql).fetchall()


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    shop = Shop(tmp_path)
    yield shop
    shop.database.close()


# -- addresses and statements ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "jdbc:postgresql://db.example:6432/shop?user=ann&password=x%20y&currentSchema=sales",
            {"host": "db.example", "port": "6432", "dbname": "shop", "user": "ann"}
            | {"password": "x y", "options": "-c search_path=sales"},
        ),
        (
            "jdbc:postgresql://a:1,b/shop?targetServerType=primary&reWriteBatchedInserts=true",
            {"host": "a,b", "port": "1,5432", "target_session_attrs": "read-write"},
        ),
        ("jdbc:postgresql:shop", {"host": "localhost", "dbname": "shop"}),
        ("jdbc:postgresql://h/d?ssl=true&loginTimeout=7", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://h/d?loginTimeout=7", {"connect_timeout": "7"}),
        ("postgresql://ann:p%40w@h:1/d", {"user": "ann", "password": "p@w", "port": "1"}),
        ("postgresql+psycopg://h/d?prepareThreshold=0", {"prepare_threshold": None}),
    ],
)
def test_addresses_of_postgresql(url: str, expected: dict[str, Any]) -> None:
    database = options(url).database()
    assert isinstance(database, Postgres)
    assert expected.items() <= database.settings.items()


def test_options_win_over_the_address() -> None:
    given = JdbcConnectionOptions("jdbc:postgresql://h/d?user=a&password=b", None, "c", "d", 9)
    database = given.database()
    assert isinstance(database, Postgres)
    found = database.settings
    assert (found["user"], found["password"], found["connect_timeout"]) == ("c", "d", 9)


@pytest.mark.parametrize("url", ["jdbc:sqlite:{}", "sqlite:///{}", "jdbc:sqlite:file:{}?cache=x"])
def test_addresses_of_sqlite(url: str, shop: Shop) -> None:
    database = options(url.format(shop.path)).database()
    assert isinstance(database, Sqlite)
    connection = database.connect()
    assert connection.execute("SELECT * FROM t").fetchall() == []
    connection.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("jdbc:oracle:thin:@h:1521:x", "names no database that Penstock can reach"),
        ("shop.db", "names no database"),
        ("jdbc:sqlite::memory:", "database in memory"),
        ("jdbc:postgresql://h/d?unheardOf=1", "'unheardOf' has no counterpart"),
        ("jdbc:postgresql://ann:hun/ter@h/d", r"//\*{6}@h/d'\): a port is not a number.*%2F"),
    ],
)
def test_addresses_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        options(url)


def test_no_password_is_shown() -> None:
    given = JdbcConnectionOptions("jdbc:postgresql://h/d?password=hush", None, "ann", "hush")
    assert "hush" not in repr(given)
    with pytest.raises(ProgramError) as error:
        options("jdbc:db2://h/d?password=hush")
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("sql", "expected", "count"),
    [
        ("INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (%s, %s)", 2),
        ("SELECT '?', \"?\" -- ?\n, ?", "SELECT '?', \"?\" -- ?\n, %s", 1),
        ("SELECT 'it''s ?' /* ? */ || ?", "SELECT 'it''s ?' /* ? */ || %s", 1),
        ("SELECT $a$ ? $a$, ?", "SELECT $a$ ? $a$, %s", 1),
        ("SELECT tags ?? ?", "SELECT tags ? %s", 1),
        ("SELECT 5 % ? LIKE '%'", "SELECT 5 %% %s LIKE '%%'", 1),
    ],
)
def test_parameters(sql: str, expected: str, count: int) -> None:
    assert options("jdbc:postgresql://h/d").database().parsed(sql) == (expected, count)


def test_a_statement_must_fit_the_type(shop: Shop) -> None:
    with pytest.raises(ProgramError, match=r"3 parameters \(\?\), but its records have 2 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?, ?)", PAIR, shop.options)
    with pytest.raises(ProgramError, match=r"Types.ROW\(\[...\]\), not STRING"):
        JdbcSink.sink(INSERT, Types.STRING(), shop.options)  # type: ignore[arg-type]


# -- at least once --------------------------------------------------------------------------------


def run(sink: JdbcSink, records: list[Any], kind: Any = PAIR) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.from_collection(records, kind).add_sink(sink)
    env.execute()


def test_a_job_upserts(shop: Shop) -> None:
    shop.database.execute("CREATE UNIQUE INDEX words ON t (word)")
    sql = f"{INSERT} ON CONFLICT (word) DO UPDATE SET count = excluded.count"
    execution = JdbcExecutionOptions.builder().with_batch_size(2).with_max_retries(5).build()
    run(JdbcSink.sink(sql, PAIR, shop.options, execution), [Row("a", 1), Row("b", 2), Row("a", 3)])
    assert sorted(shop.rows()) == [("a", 3), ("b", 2)]


def test_values_of_all_types(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "a, b, c, d, e, f, g, h, i")
    kind = Types.ROW(
        [
            *(Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.INSTANT()),
            *(Types.BIG_INT(), Types.PICKLED_BYTE_ARRAY(), Types.BOOLEAN()),
            *(Types.LONG(), Types.SQL_TIMESTAMP()),
        ]
    )
    uuid = UUID(int=7)
    row = Row(
        *(
            Decimal("1.50"),
            datetime.date(2026, 1, 2),
            datetime.datetime.fromisoformat("2026-01-02 03:04"),
        ),
        *(Instant(0, 5_000_000), 2**70, uuid, np.True_),
        *(np.int64(7), np.datetime64("2026-01-02T03:04:05.000001234", "ns")),
    )
    sql = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    expected = (
        *("1.50", "2026-01-02", "2026-01-02 03:04:00", "1970-01-01 00:00:00.005000+00:00"),
        *(str(2**70), str(uuid), 1, 7, "2026-01-02 03:04:05.000001"),
    )
    at_once = JdbcSink.sink(sql, kind, shop.options)
    writer = at_once.create_writer(WriterContext("a" * 32, "out", 0, 1, 1, "at", 0, ""))
    writer.write([row], None, 0)
    writer.prepare_commit()
    at_once.close()
    later = shop.sink(sql, kind)
    later.create_committer().commit(shop.pending(later, [row]), shop.context())
    assert shop.rows() == [expected, expected]


def test_records_that_do_not_fit(shop: Shop) -> None:
    with pytest.raises(ProgramError, match="has 3 fields"):
        shop.pending(shop.sink(), [("a", 1, 2)])
    with pytest.raises(ProgramError, match="got None"):
        shop.pending(shop.sink(), [Row("a", 1), None])


# -- exactly once ---------------------------------------------------------------------------------


def test_rows_and_marker_in_one_transaction(shop: Shop) -> None:
    sink = shop.sink()
    first = shop.pending(sink, [Row("a", 1)]) + shop.pending(sink, [Row("b", 2)], subtask=1)
    second = shop.pending(sink, [Row("c", 3)], epoch=2)
    assert shop.rows() == []
    for committables in (first, first, first + second, second, first):
        committer = sink.create_committer()
        committer.commit(committables, shop.context())
        committer.commit(committables, shop.context())
        committer.close()
    assert shop.rows() == [("a", 1), ("b", 2), ("c", 3)]
    [marker] = shop.rows("SELECT * FROM penstock_commits")
    assert marker[:5] == ("a" * 32 + "/out", 1, 0, 2, 0)


def test_output_that_was_owed_when_the_guarantee_changed(shop: Shop) -> None:
    """A job goes on from a savepoint with JdbcSink.sink instead of exactly_once_sink."""
    owed = shop.pending(shop.sink(), [Row("a", 1)])
    committer = JdbcSink.sink(INSERT, PAIR, shop.options).create_committer()
    committer.restore(None)
    for _ in range(2):
        committer.commit(owed, shop.context())
        committer.commit([], shop.context(2))
    committer.close()
    assert shop.rows() == [("a", 1)]


class Fickle:
    """A connection on which one statement fails, before or after it was carried out."""

    def __init__(self, real: Any, statement: str, *, is_done: bool) -> None:
        self._real, self._statement, self._is_done = real, statement, is_done

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql != self._statement:
            return self._real.execute(sql, *parameters)
        self._statement = ""
        if self._is_done:
            self._real.execute(sql)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR"
        raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("is_done", [False, True], ids=["not committed", "committed"])
@pytest.mark.parametrize("retries", [0, 3])
def test_an_outcome_that_is_unknown(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_done: bool, retries: int
) -> None:
    connect, opened = Sqlite.connect, []

    def fickle(database: Sqlite) -> Any:
        opened.append(1)
        real = connect(database)
        return real if len(opened) > 1 else Fickle(real, "COMMIT", is_done=is_done)

    monkeypatch.setattr(Sqlite, "connect", fickle)
    sink = shop.sink(max_retries=retries)
    owed = shop.pending(sink, [Row("a", 1)])
    committer = sink.create_committer()
    if not retries:
        with pytest.raises(JobExecutionError, match="did not take the output of a checkpoint"):
            committer.commit(owed, shop.context())
    committer.commit(owed, shop.context())
    committer.close()
    assert shop.rows() == [("a", 1)]
    assert len(opened) == 2


def test_pauses_between_tries_have_a_bound(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    shop.database.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("penstock.connectors.jdbc.database.WAIT_S", 0)
    committer = shop.sink(max_retries=60).create_committer()
    with pytest.raises(JobExecutionError, match="locked"):
        committer.commit(shop.pending(shop.sink(), [Row("a", 1)]), shop.context())
    assert len(pauses) == 60
    assert max(pauses) == 10


def test_a_row_that_is_refused_is_named(shop: Shop) -> None:
    shop.database.execute("CREATE UNIQUE INDEX words ON t (word)")
    sink = shop.sink()
    owed = shop.pending(sink, [Row("a", 1), Row("b", 2), Row("b", 3), Row("c", 4)])
    committer: Committer = sink.create_committer()
    with pytest.raises(InputError, match=r"refuses the row \['b', 3\] of 'INSERT INTO t.*UNIQUE"):
        committer.commit(owed, shop.context())
    assert shop.rows() == []
    shop.database.execute("DROP INDEX words")
    committer.commit(owed, shop.context())
    committer.close()
    assert len(shop.rows()) == 4


def test_a_table_that_is_missing(shop: Shop) -> None:
    sink = shop.sink("INSERT INTO nowhere VALUES (?, ?)")
    with pytest.raises(InputError, match="no such table: nowhere"):
        sink.create_committer().commit(shop.pending(sink, [Row("a", 1)]), shop.context())


def test_a_row_of_commits_that_was_deleted_is_made_again(shop: Shop) -> None:
    sink = shop.sink()
    committer = sink.create_committer()
    committer.commit(shop.pending(sink, [Row("a", 1)]), shop.context())
    shop.database.execute("DELETE FROM penstock_commits")
    committer.commit(shop.pending(sink, [Row("b", 2)], epoch=2), shop.context(2))
    committer.commit(shop.pending(sink, [Row("b", 2)], epoch=2), shop.context(2))
    committer.close()
    assert shop.rows() == [("a", 1), ("b", 2)]
    assert shop.rows("SELECT epoch FROM penstock_commits") == [(2,)]


# -- reading --------------------------------------------------------------------------------------


def read_all(source: JdbcSource, parallelism: int = 2) -> list[Any]:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    times: Any = WatermarkStrategy.no_watermarks()
    return list(env.from_source(source, times, "rows").execute_and_collect())


def test_a_query_is_read_by_ranges(shop: Shop) -> None:
    shop.database.executemany(INSERT, [(f"w{n}", n * n) for n in range(200)])
    builder = JdbcSource.builder().set_db_url(f"jdbc:sqlite:{shop.path}").set_username("nobody")
    builder.set_sql("SELECT word, count FROM t WHERE count >= ?;", 100).set_split_column("count")
    found = read_all(builder.set_result_extractor(lambda row: (row.word, row["count"])).build())
    assert sorted(found) == sorted((f"w{n}", n * n) for n in range(10, 200))


@pytest.mark.parametrize("column", ["word", "count"])
def test_values_that_come_often_are_read_whole(shop: Shop, column: str) -> None:
    rows = [(f"w{n % 3}", n % 3) for n in range(3000)]
    shop.database.executemany(INSERT, rows)
    builder = JdbcSource.builder().set_connection_options(shop.options).set_sql("SELECT * FROM t")
    found = read_all(builder.set_split_column(column).build())
    assert sorted(map(tuple, found)) == sorted(rows)


def read_one_by_one(source: JdbcSource, splits: Any) -> list[Any]:
    found: list[Any] = []
    for split in splits:
        reader, position, finished = source.create_reader(), split.start, False
        while not finished:
            result = reader.read(split, position, Budget(1, 1 << 20, 0))
            found += map(tuple, result.values)
            position, finished = result.position, result.finished
        reader.close()
    return found


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("word", [("a", 1), ("A", 2), ("b", 3), ("B", 4)]),
        ("count", [("least", -(2**63)), ("greatest", 2**63 - 1)]),
        ("word", [("2026-01-01", 1), ("2026-01-01 10:00:00", 2)]),
    ],
)
def test_no_row_is_between_two_reads(tmp_path: Path, column: str, rows: list[Any]) -> None:
    """Whatever the database takes for the same value is read together."""
    shop = Shop(tmp_path, "word TEXT COLLATE NOCASE, count INT")
    shop.database.executemany(INSERT, rows)
    builder = JdbcSource.builder().set_connection_options(shop.options).set_sql("SELECT * FROM t")
    source = builder.set_split_column(column).build()
    assert sorted(read_one_by_one(source, source.discover(None, 0).splits)) == sorted(rows)
    shop.database.close()


def test_a_lesser_value_that_is_committed_late(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there before the values that were seen have settled, and so it is read."""
    shop.database.execute("INSERT INTO t VALUES ('b', 2)")
    builder = JdbcSource.builder().set_connection_options(shop.options).set_sql("SELECT * FROM t")
    source = builder.set_split_column("count").set_follow(settle_time=5, poll_interval=0).build()
    assert source.discover(None, 0).splits == ()
    query, late = Sqlite.query, ["INSERT INTO t VALUES ('a', 1)"]

    def after_a_commit(database: Sqlite, connection: Any, sql: str, parameters: Any = ()) -> Any:
        if sql.startswith("SELECT MAX(") and late:
            shop.database.execute(late.pop())
        return query(database, connection, sql, parameters)

    monkeypatch.setattr(Sqlite, "query", after_a_commit)
    *ranges, following = source.discover(None, 10).splits
    assert sorted(read_one_by_one(source, ranges)) == [("a", 1), ("b", 2)]
    assert following.start == 2
    source.job_ended()


def test_a_column_without_a_value_is_refused(shop: Shop) -> None:
    shop.database.executemany(INSERT, [("a", None), ("b", 1)])
    builder = JdbcSource.builder().set_connection_options(shop.options).set_sql("SELECT * FROM t")
    with pytest.raises(JobExecutionError, match="1 rows of the query have no value in the column"):
        read_all(builder.set_split_column("count").build())


def test_what_a_source_needs(shop: Shop) -> None:
    builder = JdbcSource.builder()
    with pytest.raises(ProgramError, match="needs set_db_url"):
        builder.build()
    with pytest.raises(ProgramError, match="needs set_sql"):
        builder.set_connection_options(shop.options).build()
    with pytest.raises(ProgramError, match="needs set_split_column"):
        builder.set_sql("SELECT * FROM t WHERE count > ?").build()
    with pytest.raises(ProgramError, match=r"1 parameters \(\?\), but got 0 values"):
        builder.set_split_column("count").build()
