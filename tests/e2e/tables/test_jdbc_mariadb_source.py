"""The source of the database connector against a real MariaDB."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from test_jdbc_mariadb import environment, options

from penstock.common import WatermarkStrategy
from penstock.connectors.source import Budget
from penstock.core.errors import InputError
from penstock.datastream.connectors.jdbc import JdbcSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from mariadb_server import Server

    Table = Callable[[str], str]


def test_a_query_is_read_by_ranges(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("id BIGINT PRIMARY KEY, word VARCHAR(20), at DATETIME(6)")
    mariadb.execute(
        f"INSERT INTO {name} SELECT seq, CONCAT('w', seq), TIMESTAMP('2026-01-01') + INTERVAL seq"
        " MINUTE + INTERVAL 1 MICROSECOND FROM seq_1_to_1000"
    )
    for column in ("id", "word", "at"):
        builder = JdbcSource.builder().set_connection_options(options(mariadb))
        builder.set_sql(f"SELECT id, word, at FROM {name} WHERE id > ? AND word LIKE 'w%'", 10)
        source = builder.set_split_column(column).build()
        stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        found = sorted(tuple(row) for row in stream.execute_and_collect())
        assert found == mariadb.execute(f"SELECT * FROM {name} WHERE id > 10 ORDER BY id")


def test_texts_that_are_alike_are_read_together(mariadb: Server, maria_table: Table) -> None:
    """`a`, `A` and `a ` are the same for the server, and others for Python."""
    name = maria_table("word VARCHAR(20) COLLATE utf8mb4_general_ci, n INT")
    mariadb.execute(
        f"INSERT INTO {name} SELECT ELT(1 + seq % 3, 'a', 'A', 'a '), seq FROM seq_1_to_9"
    )
    mariadb.execute(f"INSERT INTO {name} VALUES ('b', 10)")
    builder = JdbcSource.builder().set_connection_options(options(mariadb))
    source = builder.set_sql(f"SELECT * FROM {name}").set_split_column("word").build()
    (split,) = source.discover(None, 0).splits
    reader, position, found, finished = source.create_reader(), None, [], False
    while not finished:
        result = reader.read(split, position, Budget(2, 1 << 20, 0))
        position, finished = result.position, result.finished
        found += [row.n for row in result.values]
    assert sorted(found) == list(range(1, 11))
    reader.close()


@pytest.mark.parametrize("kind", ["FLOAT", "DECIMAL(30, 2)"])
def test_columns_of_inexact_numbers(mariadb: Server, maria_table: Table, kind: str) -> None:
    """0.1 as a FLOAT is another number, and texts are compared with decimals as doubles."""
    name = maria_table(f"x {kind}")
    mariadb.execute(f"INSERT INTO {name} VALUES (0.1), (0.2), (123456789012345.67)")
    builder = JdbcSource.builder().set_connection_options(options(mariadb)).set_split_column("x")
    with pytest.raises(InputError, match=rf"x is of the type {kind[:5]}.*CAST\(x AS DOUBLE\)"):
        builder.set_sql(f"SELECT * FROM {name}").build().discover(None, 0)
    source = builder.set_sql(f"SELECT CAST(x AS DOUBLE) AS x FROM {name}").build()
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    assert len(list(stream.execute_and_collect())) == 3


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_columns_with_two_orders(mariadb: Server, maria_table: Table, kind: str) -> None:
    """small, medium, large are sorted as 1, 2, 3, and compared as texts: 'medium' > 'large'."""
    name = maria_table(f"size {kind}('small', 'medium', 'large') NOT NULL")
    mariadb.execute(f"INSERT INTO {name} VALUES ('small'), ('large'), ('medium')")
    builder = JdbcSource.builder().set_connection_options(options(mariadb))
    builder.set_split_column("size").set_sql(f"SELECT * FROM {name}")
    with pytest.raises(InputError, match=rf"type {kind}, .* compared as texts.*size AS CHAR\)"):
        builder.build().discover(None, 0)
    source = builder.set_sql(f"SELECT CAST(size AS CHAR) AS size FROM {name}").build()
    stream = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    assert [row.size for row in stream.execute_and_collect()] == ["large", "medium", "small"]


def test_following_waits_for_transactions_that_still_run(
    mariadb: Server, maria_table: Table
) -> None:
    """Ids are given before the commit: 1 and 3 are there while 2 is in an open transaction."""
    name = maria_table("id INT AUTO_INCREMENT PRIMARY KEY, word TEXT")
    builder = JdbcSource.builder().set_connection_options(options(mariadb))
    builder.set_sql(f"SELECT * FROM {name}").set_split_column("id")
    source = builder.set_follow(settle_time=1, poll_interval=0).build()
    first = source.discover(None, 0)
    assert (first.splits[-1].start, first.complete) == (None, True)
    reader, position, now_ms, found = source.create_reader(), None, 0, []

    def read() -> list[str]:
        nonlocal position, now_ms
        for _ in range(2):  # The first one learns how far the column is.
            now_ms += 1
            result = reader.read(first.splits[-1], position, Budget(100, 1 << 20, now_ms))
            position = result.position
            found.extend(row.word for row in result.values)
        return found

    insert = f"INSERT INTO {name} (word) VALUES (%s)"
    # One that has only read is no reason to wait.
    with (
        contextlib.closing(mariadb.connect()) as reads,
        contextlib.closing(mariadb.connect()) as other,
    ):
        reads.begin()
        reads.cursor().execute(f"SELECT * FROM {name}")
        mariadb.execute(insert, "a")
        assert read() == ["a"]
        other.begin()
        other.cursor().execute(insert, ("b",))
        mariadb.execute(insert, "c")
        assert read() == ["a"]
        assert source.discover(None, now_ms).splits == ()
        other.commit()
        assert read() == ["a", "b", "c"]
    later = source.discover(None, now_ms + 10)
    assert [split.data for split in later.splits][-1] == [None]
    source.job_ended()
    reader.close()


def test_following_needs_a_right(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("id INT")
    mariadb.execute(f"INSERT INTO {name} VALUES (1)")
    mariadb.execute("CREATE OR REPLACE USER low@localhost")
    mariadb.execute("GRANT SELECT ON shop.* TO low@localhost")
    builder = JdbcSource.builder().set_connection_options(options(mariadb, user="low"))
    source = builder.set_sql(f"SELECT * FROM {name}").set_split_column("id").set_follow().build()
    with pytest.raises(InputError, match="PROCESS privilege"):
        source.discover(None, 0)


def test_lists_of_transactions_are_new(mariadb: Server, maria_table: Table) -> None:
    """The server gives an old list to those who ask too often."""
    name = maria_table("id INT")
    asking, stop = options(mariadb).database(), threading.Event()

    def ask_again_and_again() -> None:
        with contextlib.closing(mariadb.connect()) as connection:
            cursor = connection.cursor()
            while not stop.wait(0.15):
                cursor.execute("SELECT * FROM information_schema.innodb_trx")

    with (
        ThreadPoolExecutor(1) as pool,
        contextlib.closing(mariadb.connect()) as other,
        contextlib.closing(asking.connect()) as connection,
        contextlib.ExitStack() as stack,
    ):

        def ask(sql: str) -> Any:
            cursor = asking.query(connection, sql)
            return cursor.description, list(cursor.fetchall())

        pool.submit(ask_again_and_again)
        stack.callback(stop.set)
        for number in range(5):
            other.begin()
            before = asking.transactions(ask)
            other.cursor().execute(f"INSERT INTO {name} VALUES ({number})")
            during = asking.transactions(ask)
            other.commit()
            after = asking.transactions(ask)
            assert (len(before), len(during), len(after)) == (0, 1, 0)
            assert not asking.have_ended(during, during)
            assert asking.have_ended(during, after)
