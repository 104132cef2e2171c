"""The database connector against a real PostgreSQL."""

from __future__ import annotations

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError
from penstock.core.times import Instant
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
    JdbcSource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postgres_server import Server

    Table = Callable[[str], str]


def options(server: Server, **given: Any) -> JdbcConnectionOptions:
    return JdbcConnectionOptions(server.url, user_name="penstock", **given)


def environment(parallelism: int = 2) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


@pytest.mark.parametrize("make", [JdbcSink.sink, JdbcSink.exactly_once_sink])
def test_values_of_all_types(postgres: Server, table: Table, make: Any) -> None:
    name = table(
        "a numeric, b date, c timestamp, d timestamptz, e numeric, f int[], g bytea, h text"
    )
    kind = Types.ROW(
        [
            *(Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.INSTANT()),
            *(Types.BIG_INT(), Types.LIST(Types.INT()), Types.PRIMITIVE_ARRAY(Types.BYTE())),
            Types.STRING(),
        ]
    )
    noon = datetime.datetime.fromisoformat("2026-01-02 12:00:00.000001")
    day = datetime.date(2026, 1, 2)
    row = Row(Decimal("1.50"), day, noon, Instant(5, 7_000), 2**70, [1, 2], b"\0x", "50 % '?'")
    sql = f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    env = environment()
    env.from_collection([row, Row(*[None] * 8)], kind).add_sink(make(sql, kind, options(postgres)))
    env.execute()
    then = datetime.datetime.fromtimestamp(5, datetime.UTC) + datetime.timedelta(microseconds=7)
    expected = (Decimal("1.50"), day, noon, then, Decimal(2**70), [1, 2], b"\0x", "50 % '?'")
    found = postgres.execute(f"SELECT * FROM {name} ORDER BY a NULLS LAST")
    assert found == [expected, (None,) * 8]


def test_a_job_upserts_exactly_once(postgres: Server, table: Table) -> None:
    name = table("word text PRIMARY KEY, count int")
    kind = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
    sql = (
        f"INSERT INTO {name} VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET count = excluded.count"
    )
    env = environment()
    env.enable_checkpointing(50)
    words = env.from_collection([f"w{n % 7}" for n in range(700)])
    counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    sink = JdbcSink.exactly_once_sink(sql, kind, options(postgres))
    counts.map(lambda pair: Row(word=pair[0], count=pair[1]), kind).sink_to(sink)
    env.execute()
    found = postgres.execute(f"SELECT * FROM {name} ORDER BY word")
    assert found == [(f"w{n}", 100) for n in range(7)]


def test_a_process_that_stands_still_in_the_middle_of_rows_keeps_no_other_out(
    postgres: Server, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """The server waits for its next row, which is not the next statement: no time-out ends that."""
    monkeypatch.setattr("penstock.connectors.jdbc.postgres._HOLDER_S", 1)
    name = table("sink text PRIMARY KEY, epoch int")
    postgres.execute(f"INSERT INTO {name} VALUES ('out', 7), ('other', 8)")
    database = options(postgres).database()
    stands, goes_on = threading.Event(), threading.Event()

    def rows() -> Iterator[tuple[int]]:
        yield from ((number,) for number in range(1000))
        stands.set()
        assert goes_on.wait(60)
        yield (1000,)

    def stand_still() -> Any:
        with database.connect() as held:
            database.begin(held)
            assert database.locked(held, "epoch", name, "sink", "out") == (7,)
            with pytest.raises(psycopg.OperationalError):
                held.cursor().executemany(f"UPDATE {name} SET epoch = %s", rows())

    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(stand_still)
        assert stands.wait(60)
        with database.connect() as connection:
            database.begin(connection)
            assert database.locked(connection, "epoch", name, "sink", "out") == (7,)
            connection.execute("ROLLBACK")
        goes_on.set()
        zombie.result(60)
    assert f"the row of 'out' in {name} for 1 s, and was ended" in caplog.text


def test_refusals_have_an_address(postgres: Server, table: Table) -> None:
    name = table("word text, count int NOT NULL")
    kind = Types.ROW([Types.STRING(), Types.INT()])
    sink = JdbcSink.sink(f"INSERT INTO {name} VALUES (?, ?)", kind, options(postgres))
    env = environment()
    env.from_collection([Row("a", 1), Row("b", None)], kind).add_sink(sink)
    with pytest.raises(JobExecutionError, match=rf"row \['b', None\] of .*{name}.*not-null"):
        env.execute()
    assert postgres.execute(f"SELECT * FROM {name}") in ([], [("a", 1)])


def test_a_password_that_is_wrong_and_a_server_that_is_away(postgres: Server) -> None:
    with pytest.raises(InputError, match=r"refuses the connection.*nowhere"):
        nowhere = postgres.url.replace("/postgres", "/nowhere")
        JdbcConnectionOptions(nowhere, user_name="penstock").database().connect()
    away = JdbcConnectionOptions("jdbc:postgresql://127.0.0.1:1/x", timeout_s=1)
    with pytest.raises(JobExecutionError, match="does not answer"):
        away.database().connect()


def test_a_query_is_read_by_ranges(postgres: Server, table: Table) -> None:
    name = table("id int PRIMARY KEY, word text, at timestamp")
    postgres.execute(
        f"INSERT INTO {name} SELECT n, 'w' || n, timestamp '2026-01-01' + n * interval '1 min'"
        " FROM generate_series(1, 1000) n"
    )
    for column in ("id", "word", "at"):
        builder = JdbcSource.builder().set_connection_options(options(postgres))
        builder.set_sql(f"SELECT id, word, at FROM {name} WHERE id > ?", 10)
        source = builder.set_split_column(column).build()
        stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        found = sorted(tuple(row) for row in stream.execute_and_collect())
        assert found == postgres.execute(f"SELECT * FROM {name} WHERE id > 10 ORDER BY id")


def test_a_column_of_inexact_numbers(postgres: Server, table: Table) -> None:
    """0.1 as a real is another number than the 0.1 that Python reads: it would be read for ever."""
    name = table("x real")
    postgres.execute(f"INSERT INTO {name} VALUES (0.1), (0.2), (0.3)")
    builder = JdbcSource.builder().set_connection_options(options(postgres)).set_split_column("x")
    with pytest.raises(InputError, match=r"x is of the type real.*CAST\(x AS double precision\)"):
        builder.set_sql(f"SELECT * FROM {name}").build().discover(None, 0)
    source = builder.set_sql(f"SELECT CAST(x AS double precision) FROM {name}").build()
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    assert len(list(stream.execute_and_collect())) == 3


def test_rows_that_are_no_number_are_read_together(postgres: Server, table: Table) -> None:
    """NaN is not equal to itself for Python, and behind all numbers for PostgreSQL."""
    name = table("x double precision, n int")
    postgres.execute(f"INSERT INTO {name} VALUES (1, 0)")
    postgres.execute(f"INSERT INTO {name} SELECT 'NaN', n FROM generate_series(1, 7) n")
    builder = JdbcSource.builder().set_connection_options(options(postgres)).set_split_column("x")
    source = builder.set_sql(f"SELECT * FROM {name}").build()
    (split,) = source.discover(None, 0).splits
    reader, position, found, finished = source.create_reader(), None, [], False
    while not finished:
        result = reader.read(split, position, Budget(3, 1 << 20, 0))
        position, finished = result.position, result.finished
        found += [row.n for row in result.values]
    assert sorted(found) == list(range(8))
    reader.close()


def test_following_waits_for_transactions_that_still_run(postgres: Server, table: Table) -> None:
    """Ids are given before the commit: 1 and 3 are there while 2 is in an open transaction."""
    name = table("id serial PRIMARY KEY, word text")
    builder = JdbcSource.builder().set_connection_options(options(postgres))
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
    postgres.execute(insert, "a")
    assert read() == ["a"]
    login = f"host=127.0.0.1 port={postgres.port} user=penstock dbname=postgres"
    with psycopg.connect(login) as other:
        other.execute(insert, ("b",))
        postgres.execute(insert, "c")
        assert read() == ["a"]
        again = source.discover(None, now_ms)
        assert again.splits == ()
        assert not again.complete
    assert read() == ["a", "b", "c"]
    later = source.discover(None, now_ms + 10)
    assert [split.data for split in later.splits][-1] == [None]
    source.job_ended()
    reader.close()


def test_rows_that_come_later_are_followed(postgres: Server, table: Table) -> None:
    name = table("id serial PRIMARY KEY, word text")
    fill = f"INSERT INTO {name} (word) SELECT 'w' || n FROM generate_series(1, 50) n"
    postgres.execute(fill)
    out = table("id int, word text")
    builder = JdbcSource.builder().set_connection_options(options(postgres))
    builder.set_sql(f"SELECT * FROM {name}").set_split_column("id")
    source = builder.set_follow(settle_time=20, poll_interval=10).build()
    kind = Types.ROW([Types.INT(), Types.STRING()])
    env = environment()
    env.enable_checkpointing(50)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    execution = JdbcExecutionOptions.builder().with_batch_size(7).build()
    insert = f"INSERT INTO {out} VALUES (?, ?)"
    stream.sink_to(JdbcSink.exactly_once_sink(insert, kind, options(postgres), execution))
    job = env.execute_async("follow")
    for total in (50, 100):
        while postgres.execute(f"SELECT count(*) FROM {out}") != [(total,)]:
            assert not job.get_job_status().result().is_globally_terminal_state()
        postgres.execute(fill)
    job.cancel().result()
    found = postgres.execute(f"SELECT id FROM {out} WHERE id <= 100 ORDER BY id")
    assert found == [(number,) for number in range(1, 101)]
