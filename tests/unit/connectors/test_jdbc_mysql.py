"""Addresses and statements of MySQL and MariaDB, without a server."""

from __future__ import annotations

import enum

import pytest

from penstock.connectors.jdbc.mysql import MySql
from penstock.core.errors import ProgramError
from penstock.core.times import Instant
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions


def options(url: str) -> JdbcConnectionOptions:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()


def test_addresses_of_mysql() -> None:
    database = options(
        "jdbc:mysql://db.example:6306,b/shop?user=ann&password=x%20y&useSSL=true"
        "&rewriteBatchedStatements=true&serverTimezone=UTC"
    ).database()
    assert isinstance(database, MySql)
    assert database.hosts == (("db.example", "6306"), ("b", "3306"))
    assert (database.database, database.properties["user"]) == ("shop", "ann")
    assert (database.properties["password"], database.properties["sslMode"]) == ("x y", "on")
    given = JdbcConnectionOptions("jdbc:mariadb://ann:p%40w@h/d?sslMode=verify-full", None, "bob")
    other = given.database()
    assert isinstance(other, MySql)
    assert (other.properties["user"], other.properties["password"]) == ("bob", "p@w")
    assert (other.hosts, other.properties["sslMode"]) == ((("h", "3306"),), "host")


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "1970-01-01 00:00:00"),
        ("GMT%2B8", "1970-01-01 08:00:00"),
        ("+05:30", "1970-01-01 05:30:00"),
        ("-03:30", "1969-12-31 20:30:00"),
        ("Asia/Shanghai", "1970-01-01 08:00:00"),
    ],
)
def test_zones_of_mysql(zone: str, expected: str) -> None:
    database = options(f"jdbc:mysql://h/d?serverTimezone={zone}").database()
    assert database.value(Instant(0, 0)).isoformat(" ") == expected


class Color(int, enum.Enum):
    RED = 1


def test_values_whose_class_the_driver_does_not_know() -> None:
    """It would write what `str` says of them."""
    database = options("jdbc:mysql://db/shop").database()
    number = database.value(Color.RED)
    assert (number, type(number)) == (1, int)
    for value in (enum.Enum("Kind", "A")["A"], object(), memoryview(b"x"), [1]):
        with pytest.raises(ProgramError, match=f"no type for a {type(value).__name__}"):
            database.value(value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("jdbc:mysql://h/d?unheardOf=1", "'unheardOf' is not known"),
        ("jdbc:mysql://h/d?sslMode=maybe", "sslMode is one of disable,"),
        ("jdbc:mysql://h/d?serverTimezone=Mars", "'Mars' is no zone of time"),
        ("jdbc:mysql:replication://h,i/d", "begins with jdbc:mysql://host"),
        ("jdbc:mysql://ann:hun/ter@h/d", r"//\*{6}@h/d'\): a port is not a number.*%2F"),
    ],
)
def test_addresses_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        options(url)


@pytest.mark.parametrize(
    ("sql", "expected", "count"),
    [
        ("INSERT INTO t VALUES (?, '%')", "INSERT INTO t VALUES (%s, '%%')", 1),
        (r"""SELECT 'it\'s ?', "\"?", ?""", r"""SELECT 'it\'s ?', "\"?", %s""", 1),
        (r"SELECT 'c:\\', ?, '?'", r"SELECT 'c:\\', %s, '?'", 1),
        ("SELECT `a?`, ? # ?\n, ?", "SELECT `a?`, %s # ?\n, %s", 2),
        # Two minus signs are a comment before a blank only.
        ("SELECT 1--?, ? -- ?", "SELECT 1--%s, %s -- ?", 2),
        ("SELECT a$b, ?, c$b /* ? */", "SELECT a$b, %s, c$b /* ? */", 1),
    ],
)
def test_parameters_of_mysql(sql: str, expected: str, count: int) -> None:
    assert options("jdbc:mysql://h/d").database().parsed(sql) == (expected, count)
