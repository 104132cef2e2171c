"""The database connector against a real MariaDB."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import struct
import subprocess
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from mariadb_server import Server
from penstock.common import Configuration, Row, Types
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.times import Instant
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcSink,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Table = Callable[[str], str]


def options(server: Server, query: str = "", user: str = "penstock") -> JdbcConnectionOptions:
    return JdbcConnectionOptions(server.url + query, user_name=user, timeout_s=10)


def environment(parallelism: int = 2) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


@pytest.mark.parametrize("make", [JdbcSink.sink, JdbcSink.exactly_once_sink])
def test_values_of_all_types(mariadb: Server, maria_table: Table, make: Any) -> None:
    name = maria_table(
        "a DECIMAL(10, 2), b DATE, c DATETIME(6), d TIMESTAMP(6) NULL, e DECIMAL(30), f BOOLEAN,"
        " g BLOB, h TEXT CHARACTER SET utf8mb4, i BIGINT UNSIGNED, j DOUBLE"
    )
    kind = Types.ROW(
        [
            *(Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.INSTANT()),
            *(Types.BIG_INT(), Types.BOOLEAN(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
            *(Types.STRING(), Types.BIG_INT(), Types.DOUBLE()),
        ]
    )
    noon = datetime.datetime.fromisoformat("2026-01-02 12:00:00.000001")
    day = datetime.date(2026, 1, 2)
    text = "50 % '?' \\ \\' \"%s\" \0 \N{GRINNING FACE}"
    row = Row(
        *(Decimal("1.50"), day, noon, Instant(5, 7_000), 2**70, True),
        *(b"\0\xff'\\", text, 2**64 - 1, 0.1),
    )
    sql = f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    env = environment()
    env.from_collection([row, Row(*[None] * 10)], kind).add_sink(make(sql, kind, options(mariadb)))
    env.execute()
    # As the server has it in UTC, whatever the zone of a session.
    found = mariadb.execute(
        f"SELECT a, b, c, UNIX_TIMESTAMP(d), e, f, g, h, i, j FROM {name} ORDER BY a IS NULL"
    )
    stored = (Decimal("1.50"), day, noon, Decimal("5.000007"), Decimal(2**70), 1)
    assert found == [(*stored, b"\0\xff'\\", text, 2**64 - 1, 0.1), (None,) * 10]


def test_times_are_in_the_zone_of_the_address(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("a DATETIME, b TIMESTAMP")
    kind = Types.ROW([Types.INSTANT(), Types.INSTANT()])
    sql, zone = f"INSERT INTO {name} VALUES (?, ?)", "?serverTimezone=GMT%2B8"
    sink = JdbcSink.sink(sql, kind, options(mariadb, zone))
    env = environment()
    env.from_collection([Row(Instant(0, 0), Instant(3600, 0))], kind).add_sink(sink)
    env.execute()
    assert mariadb.execute(f"SELECT CAST(a AS CHAR), UNIX_TIMESTAMP(b) FROM {name}") == [
        ("1970-01-01 08:00:00", 3600)
    ]


@pytest.mark.parametrize("values", ["VALUES(count)", "count + ?"])
def test_a_job_upserts_exactly_once(mariadb: Server, maria_table: Table, values: str) -> None:
    """What is behind VALUES (...) may have parameters too, and a percent sign."""
    name = maria_table("word VARCHAR(20) PRIMARY KEY, count INT, note TEXT")
    adds = "?" in values
    names, kinds = ["word", "count", "more"], [Types.STRING(), Types.INT(), Types.INT()]
    kind = Types.ROW_NAMED(names[: 2 + adds], kinds[: 2 + adds])
    sql = (
        f"INSERT INTO {name} (word, count) VALUES (?, ?)"
        f" ON DUPLICATE KEY UPDATE count = {values}, note = '7 %'"
    )
    env = environment()
    env.enable_checkpointing(50)
    words = env.from_collection([f"w{n % 7}" for n in range(700)])
    if adds:
        rows = words.map(lambda word: Row(word=word, count=1, more=1), kind)
    else:
        counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
        rows = counts.map(lambda pair: Row(word=pair[0], count=pair[1]), kind)
    rows.sink_to(JdbcSink.exactly_once_sink(sql, kind, options(mariadb)))
    env.execute()
    found = mariadb.execute(f"SELECT * FROM {name} ORDER BY word")
    assert found == [(f"w{n}", 100, "7 %") for n in range(7)]


def test_a_transaction_that_loses_a_deadlock_is_tried_again(
    mariadb: Server, maria_table: Table
) -> None:
    name = maria_table("id INT PRIMARY KEY, count INT")
    mariadb.execute(f"INSERT INTO {name} VALUES (1, 0), (2, 0)")
    kind = Types.ROW([Types.INT(), Types.INT()])
    sql = f"UPDATE {name} SET count = count + ? WHERE id = ?"
    env = environment(1)
    rows = env.from_collection([Row(10, 1), Row(10, 2)], kind)
    rows.add_sink(JdbcSink.sink(sql, kind, options(mariadb)))
    [(_, before)] = mariadb.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    with contextlib.closing(mariadb.connect()) as other:
        other.begin()
        cursor = other.cursor()
        # The server ends the transaction that has changed less.
        cursor.execute(f"INSERT INTO {name} SELECT 10 + seq, 0 FROM seq_1_to_100")
        cursor.execute(f"UPDATE {name} SET count = count + 1 WHERE id = 2")
        job = env.execute_async("deadlock")
        while "LOCK WAIT" not in mariadb.execute("SHOW ENGINE INNODB STATUS")[0][2]:
            assert not job.get_job_status().result().is_globally_terminal_state()
        cursor.execute(f"UPDATE {name} SET count = count + 1 WHERE id = 1")
        other.commit()
    job.get_job_execution_result().result()
    [(_, after)] = mariadb.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    assert int(after) == int(before) + 1
    assert mariadb.execute(f"SELECT * FROM {name} WHERE id < 10") == [(1, 11), (2, 11)]


def test_sinks_whose_names_are_alike(mariadb: Server, maria_table: Table) -> None:
    """The server takes `a`, `A` and `a ` for the same text."""
    name = maria_table("uid TEXT, n INT")
    kind = Types.ROW([Types.STRING(), Types.INT()])
    env = environment()
    env.enable_checkpointing(50)
    for uid in ("a", "A", "a "):
        rows = env.from_collection([Row(uid, n) for n in range(100)], kind)
        insert = f"INSERT INTO {name} VALUES (?, ?)"
        rows.sink_to(JdbcSink.exactly_once_sink(insert, kind, options(mariadb))).uid(uid)
    env.execute()
    assert mariadb.execute(f"SELECT COUNT(*) FROM {name}") == [(300,)]


def test_a_table_without_transactions(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("n INT")
    mariadb.execute(f"ALTER TABLE {name} ENGINE = MyISAM")
    kind = Types.ROW([Types.INT()])
    for target in (name, f"`shop`.`{name}`"):
        env = environment()
        sink = JdbcSink.exactly_once_sink(
            f"INSERT IGNORE INTO {target} VALUES (?)", kind, options(mariadb)
        )
        env.from_collection([Row(1)], kind).sink_to(sink)
        with pytest.raises(JobExecutionError, match=rf"{name} is of the engine MyISAM.*InnoDB"):
            env.execute()
    assert mariadb.execute(f"SELECT * FROM {name}") == []


@pytest.mark.parametrize("is_amid", [False, True], ids=["between", "amid"])
def test_a_process_that_stands_still_keeps_no_other_out(
    mariadb: Server, maria_table: Table, monkeypatch: pytest.MonkeyPatch, is_amid: bool
) -> None:
    """Between two statements, or after the first half of one."""
    monkeypatch.setattr("penstock.connectors.jdbc.mysql.WAIT_S", 1)
    monkeypatch.setattr("penstock.connectors.jdbc.mysql._LOCK_S", 10)
    name = maria_table("sink VARCHAR(20) PRIMARY KEY, epoch INT")
    mariadb.execute(f"INSERT INTO {name} VALUES ('out', 7)")
    database = options(mariadb).database()
    with contextlib.closing(database.connect()) as held:
        database.begin(held)
        assert database.locked(held, "epoch", name, "sink", "out") == (7,)
        database.query(held, f"UPDATE {name} SET epoch = 8")
        if is_amid:
            held._sock.sendall(struct.pack("<I", 100_000)[:3] + b"\0" + b"\x03SELECT")
        with contextlib.closing(database.connect()) as connection:
            database.begin(connection)
            assert database.locked(connection, "epoch", name, "sink", "out") == (7,)
            database.query(connection, "ROLLBACK")
        with pytest.raises(pymysql.OperationalError):
            database.commit(held)
    assert mariadb.execute(f"SELECT epoch FROM {name}") == [(7,)]


def test_refusals_have_an_address(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("word VARCHAR(3), count INT NOT NULL")
    kind = Types.ROW([Types.STRING(), Types.INT()])
    insert = f"INSERT INTO {name} VALUES (?, ?)"
    for bad, text in (
        (Row("b", None), r"row \['b', None\] of .*cannot be null"),
        # Servers that are not strict would keep the first three letters.
        (Row("long", 1), r"row \['long', 1\] of .*too long"),
    ):
        env = environment()
        sink = JdbcSink.sink(insert, kind, options(mariadb))
        env.from_collection([Row("a", 1), bad], kind).add_sink(sink)
        with pytest.raises(JobExecutionError, match=text):
            env.execute()
    assert ("b", None) not in mariadb.execute(f"SELECT * FROM {name}")


@dataclass
class Pair:
    """Its fields are a dict in pending output."""

    a: int
    b: int


def test_a_value_that_the_driver_cannot_send(mariadb: Server, maria_table: Table) -> None:
    """It is refused where it is written: at a commit it would be met again after each restart."""
    name = maria_table("a TEXT")
    kind = Types.ROW([Types.PICKLED_BYTE_ARRAY()])
    statement = f"INSERT INTO {name} VALUES (?)"
    env = environment().enable_checkpointing(1000)
    for make in (JdbcSink.exactly_once_sink, JdbcSink.sink):
        for value in (Pair(1, 2), OrderedDict(a=1), {1}):
            sink = make(statement, kind, options(mariadb))
            env.from_collection([Row(value)], kind).add_sink(sink)
            with pytest.raises(ProgramError, match=f"no type for a {type(value).__name__}"):
                env.execute()


def test_a_server_that_is_not_strict(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("word VARCHAR(3)")
    mariadb.execute("SET GLOBAL sql_mode = ''")
    try:
        database = options(mariadb).database()
        with (
            contextlib.closing(database.connect()) as connection,
            pytest.raises(pymysql.DataError, match="too long"),
        ):
            database.query(connection, f"INSERT INTO {name} VALUES (?)", ["long"])
    finally:
        mariadb.execute("SET GLOBAL sql_mode = DEFAULT")


def test_a_row_that_is_larger_than_the_server_takes(mariadb: Server, maria_table: Table) -> None:
    name = maria_table("n INT, padding LONGTEXT")
    kind = Types.ROW([Types.INT(), Types.STRING()])
    insert = f"INSERT INTO {name} VALUES (?, ?)"

    def run(*sizes: int) -> None:
        env = environment(1)
        rows = env.from_collection([Row(n, "x" * size) for n, size in enumerate(sizes)], kind)
        rows.add_sink(JdbcSink.sink(insert, kind, options(mariadb)))
        env.execute()

    run(3 << 20, 3 << 20, *[100_000] * 50)
    assert mariadb.execute(f"SELECT COUNT(*) FROM {name}") == [(52,)]
    with pytest.raises(JobExecutionError, match=r"4,194,304 bytes \(max_allowed_packet\).*\[1, 'x"):
        run(1, 5 << 20)


def test_logins_that_are_refused_and_a_server_that_is_away(mariadb: Server) -> None:
    with pytest.raises(InputError, match=r"refuses the connection.*nowhere"):
        nowhere = mariadb.url.replace("/shop", "/nowhere")
        JdbcConnectionOptions(nowhere, user_name="penstock").database().connect()
    with pytest.raises(InputError, match=r"refuses the connection.*Access denied") as error:
        JdbcConnectionOptions(mariadb.url, None, "penstock", "hush").database().connect()
    assert "hush" not in str(error.value)
    away = JdbcConnectionOptions("jdbc:mysql://127.0.0.1:1/x", timeout_s=1)
    with pytest.raises(JobExecutionError, match="does not answer"):
        away.database().connect()


def test_hosts_are_tried_in_their_order_and_waits_are_long(mariadb: Server) -> None:
    url = mariadb.url.replace("//", "//127.0.0.1:1,")
    database = JdbcConnectionOptions(url, None, "penstock", timeout_s=1).database()
    with contextlib.closing(database.connect()) as connection:
        database.begin(connection)
        assert database.query(connection, "SELECT @@wait_timeout").fetchone() == (60,)
        database.commit(connection)
        assert database.query(connection, "SELECT @@wait_timeout").fetchone() == (28_800,)
        # Longer than it may take to connect.
        assert database.query(connection, "SELECT SLEEP(1.5)").fetchall() == ((0,),)


def test_tls_that_is_asked_for_is_not_left_out(mariadb: Server) -> None:
    """This server has none."""
    for query in ("?useSSL=true", "?sslMode=VERIFY_IDENTITY"):
        with pytest.raises((InputError, JobExecutionError), match="SSL is required"):
            options(mariadb, query).database().connect()
    options(mariadb, "?sslMode=PREFERRED").database().connect().close()


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
def test_tls_is_as_the_address_says(tmp_path: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=db"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    files = {f"ssl-{name}": f"{tmp_path}/{name}.pem" for name in ("cert", "key")}
    with Server(**files) as server:
        trusted = f"&serverSslCert={tmp_path}/cert.pem"

        def cipher(query: str, host: str = "127.0.0.1") -> str:
            url = f"jdbc:mysql://{host}:{server.port}/shop?{query}"
            database = JdbcConnectionOptions(url, None, "penstock").database()
            with contextlib.closing(database.connect()) as connection:
                found = database.query(connection, "SHOW STATUS LIKE 'Ssl_cipher'").fetchone()
                return str(found[1])

        assert cipher("useSSL=false") == ""
        for query in ("", "useSSL=true", "sslMode=VERIFY_CA" + trusted):
            assert cipher(query, "localhost").startswith("TLS")
        assert cipher("sslMode=VERIFY_IDENTITY" + trusted).startswith("TLS")
        for query in ("sslMode=VERIFY_CA", "sslMode=VERIFY_IDENTITY" + trusted):
            with pytest.raises(JobExecutionError, match="CERTIFICATE_VERIFY_FAILED"):
                cipher(query, "localhost")
        with pytest.raises(InputError, match=r"nowhere\.pem.*cannot be read"):
            cipher("sslMode=VERIFY_CA&serverSslCert=/nowhere.pem")
