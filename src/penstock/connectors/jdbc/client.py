"""Connections to databases: JDBC's addresses and `?`, on DB-API drivers of Python.

    JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url("jdbc:postgresql://localhost:5432/shop")
        .with_user_name("penstock")
        .with_password("...")
        .build()

PostgreSQL is reached through psycopg, SQLite through the standard library. A driver class of Java's
is accepted and means nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import logging
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from penstock.core.errors import (
    EnvironmentError_,
    InputError,
    JobExecutionError,
    ProgramError,
    install_extra,
)
from penstock.core.redaction import without_secrets
from penstock.core.times import Instant

Rows = Sequence[Sequence[Any]]

_log: Final = logging.getLogger("penstock.jdbc")

_WAIT_S: Final = 60
_HOLDER_S: Final = 90
"""So long another session may keep a row that only processes of one job write."""
_END_HOLDER: Final = """
SELECT pg_terminate_backend(held.pid) FROM {table} AS wanted
JOIN pg_locks AS held ON held.locktype = 'transactionid' AND held.granted
AND held.mode = 'ExclusiveLock' AND held.transactionid = wanted.xmax WHERE wanted.{key} = ?
"""
_URL: Final = re.compile(r"(?:jdbc:)?(?P<scheme>[a-z][a-z0-9+]*):(?P<rest>.*)", re.S)
_SERVER: Final = re.compile(
    r"(?://(?:(?P<user>[^/@?]*)@)?(?P<hosts>[^/?]*)/)?(?P<database>[^?]*)(?:\?(?P<query>.*))?", re.S
)
_SHAPES: Final = "jdbc:postgresql://host:5432/database and jdbc:sqlite:/path/of/the.db"
# Parts of a statement in which `?` is no parameter: text, names, comments, `$tag$` texts of
# PostgreSQL, and `??`, which is the operator `?` in JDBC.
_PLACES: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|\?\?|\?""",
    re.S,
)


@dataclass(frozen=True, slots=True)
class JdbcConnectionOptions:
    """Where a database is; made by `JdbcConnectionOptionsBuilder`."""

    url: str
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = None
    timeout_s: int = 30

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.shown!r}, user_name={self.user_name!r})"

    @property
    def shown(self) -> str:
        """The address without its secrets."""
        return without_secrets(self.url)

    def get_db_url(self) -> str:
        return self.url

    def get_driver_name(self) -> str | None:
        return self.driver_name

    def get_user_name(self) -> str | None:
        return self.user_name

    def get_password(self) -> str | None:
        return self.password

    def database(self) -> Database:
        """Returns what opens connections.

        Raises:
            ProgramError: The address is none that Penstock knows.
        """
        found = _URL.fullmatch(self.url)
        scheme = "" if found is None else found["scheme"].partition("+")[0]
        if found is not None and scheme in ("postgresql", "postgres"):
            return Postgres(self, found["rest"])
        if found is not None and scheme == "sqlite":
            return Sqlite(self, found["rest"])
        raise ProgramError(
            f"with_url({self.shown!r}) names no database that Penstock can reach; addresses are "
            f"{_SHAPES}. For another database write a PythonSink around its driver, or use Spark's "
            'JDBC: stream.to_spark(lambda df, epoch: df.write.format("jdbc")...).'
        )

    class JdbcConnectionOptionsBuilder:
        """Builds `JdbcConnectionOptions`; an address is needed."""

        def __init__(self) -> None:
            self._given: dict[str, Any] = {}

        def with_url(self, url: str) -> Self:
            """Sets the address, such as `jdbc:postgresql://localhost:5432/shop`."""
            return self._set("url", str(url))

        def with_driver_name(self, driver_name: str) -> Self:
            """Is accepted; the address says which driver it is."""
            return self._set("driver_name", driver_name)

        def with_user_name(self, user_name: str) -> Self:
            """Sets the user."""
            return self._set("user_name", user_name)

        def with_password(self, password: str) -> Self:
            """Sets the password."""
            return self._set("password", password)

        def with_connection_check_timeout_seconds(self, seconds: int) -> Self:
            """Sets how long an answer of the database is waited for when connecting."""
            return self._set("timeout_s", int(seconds))

        def _set(self, name: str, value: Any) -> Self:
            self._given[name] = value
            return self

        def build(self) -> JdbcConnectionOptions:
            """Returns the options."""
            if not self._given.get("url"):
                raise ProgramError(f"JdbcConnectionOptions need with_url(...): {_SHAPES}.")
            options = JdbcConnectionOptions(**self._given)
            options.database()
            return options


def with_parameters(sql: str, parameter: str, escaped: bool) -> tuple[str, int]:
    """Returns a statement with other marks in place of `?`, and how many there are.

    Args:
        sql: The statement, with `?` as JDBC has it.
        parameter: The mark that the driver wants.
        escaped: Whether `%` stands for itself only when doubled.
    """
    count = 0
    parts = []
    end = 0
    for found in _PLACES.finditer(sql):
        parts.append(sql[end : found.start()])
        text = found[0]
        if text == "?":
            count += 1
            parts.append("\0")
        else:
            parts.append("?" if text == "??" else text)
        end = found.end()
    parts.append(sql[end:])
    changed = "".join(parts)
    if escaped:
        changed = changed.replace("%", "%%")
    return changed.replace("\0", parameter), count


class Database(ABC):
    """One kind of database: how to connect, and what its errors mean."""

    parameter = "?"
    escapes_percent = False

    def __init__(self, options: JdbcConnectionOptions) -> None:
        self.options = options

    @abstractmethod
    def connect(self) -> Any:
        """Opens a connection of the driver, in which nothing is committed by itself."""

    @abstractmethod
    def errors(self) -> type[Exception]:
        """Returns the base of the driver's errors."""

    @abstractmethod
    def heals(self, error: Exception) -> bool:
        """Whether an error may go away when the same is tried again."""

    @abstractmethod
    def is_no_table(self, error: Exception) -> bool:
        """Whether an error says that a table does not exist."""

    @abstractmethod
    def begin(self, connection: Any) -> None:
        """Begins a transaction that writes."""

    def value(self, value: Any) -> Any:
        """Returns a value of a record as the driver takes it."""
        if type(value) is Instant:
            return datetime.datetime.fromtimestamp(
                value.seconds, datetime.UTC
            ) + datetime.timedelta(microseconds=value.nanos // 1_000)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return str(value)
        return value

    def locked(self, connection: Any, columns: str, table: str, key: str, value: str) -> Any:
        """Returns the row with a key, or None; inside a transaction, which then has it alone."""
        query = f"SELECT {columns} FROM {table} WHERE {key} = ?"
        return self.query(connection, query, [value]).fetchone()

    def statement(self, sql: str) -> str:
        """Returns a statement with `?` as the driver takes it."""
        return with_parameters(sql, self.parameter, self.escapes_percent)[0]

    def query(self, connection: Any, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Runs a statement with `?`, and returns the cursor."""
        cursor = connection.cursor()
        cursor.execute(self.statement(sql), tuple(parameters))
        return cursor

    @contextlib.contextmanager
    def asked(self, what: str) -> Iterator[None]:
        """Says of the driver's errors what was asked for, and whether they may heal."""
        try:
            yield
        except self.errors() as error:
            raise self.failed(error, what) from error

    def failed(self, error: Exception, what: str) -> JobExecutionError:
        """Returns the error for what the driver raised."""
        text = without_secrets(" ".join(str(error).split()))
        shown = self.options.shown
        if self.heals(error):
            return JobExecutionError(f"the database {shown} did not take {what}: {text}")
        return InputError(f"the database {shown} refuses {what}: {text}")


class Sqlite(Database):
    """A file of SQLite, which all workers have to see."""

    def __init__(self, options: JdbcConnectionOptions, rest: str) -> None:
        super().__init__(options)
        # jdbc:sqlite:/path of Java's, sqlite:////path of SQLAlchemy's; a query says nothing to us.
        path = rest.partition("?")[0].removeprefix("file:")
        self._path = unquote(path[3:] if path.startswith("///") else path)
        if not self._path or ":memory:" in self._path:
            raise ProgramError(
                f"with_url({options.shown!r}) is a database in memory, which each process would "
                "have for itself; name a file: jdbc:sqlite:/path/of/the.db"
            )

    def connect(self) -> Any:
        try:
            return sqlite3.connect(
                self._path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise JobExecutionError(f"SQLite cannot open {self._path}: {error}.") from None

    def errors(self) -> type[Exception]:
        return sqlite3.Error

    def heals(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorname", "").startswith(
            ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL")
        )

    def is_no_table(self, error: Exception) -> bool:
        return "no such table" in str(error)

    def begin(self, connection: Any) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def value(self, value: Any) -> Any:
        value = super().value(value)
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ")
        if isinstance(value, datetime.date | datetime.time | Decimal | UUID):
            return str(value)
        if type(value) in (list, tuple, dict):
            raise ProgramError(f"SQLite has no type for a {type(value).__name__}: {value!r:.200}")
        return value


class Postgres(Database):
    """A server of PostgreSQL, or of what speaks its protocol."""

    parameter = "%s"
    escapes_percent = True

    def __init__(self, options: JdbcConnectionOptions, rest: str) -> None:
        super().__init__(options)
        self.settings = dict(_postgres_settings(options, rest))

    def connect(self) -> Any:
        driver = psycopg()
        try:
            return driver.connect(**self.settings, autocommit=True)
        except driver.Error as error:
            text = without_secrets(" ".join(str(error).split()))
            shown = self.options.shown
            # Errors of connecting have no code: a server that answers says FATAL.
            if "FATAL:" in text and not any(word in text for word in _SOON):
                raise InputError(f"the database {shown} refuses the connection: {text}") from None
            raise JobExecutionError(f"the database {shown} does not answer: {text}") from None

    def errors(self) -> type[Exception]:
        found: type[Exception] = psycopg().Error
        return found

    def heals(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state is None:  # The connection is gone, or there was none.
            return isinstance(error, psycopg().OperationalError)
        return str(state).startswith(("08", "25", "40", "53", "55", "57", "58", "XX"))

    def is_no_table(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) == "42P01"

    def begin(self, connection: Any) -> None:
        connection.execute("BEGIN")
        # A process that stands still in a transaction must not keep others out for ever.
        connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{_WAIT_S}s'")
        connection.execute(f"SET LOCAL lock_timeout = '{2 * _WAIT_S}s'")

    def locked(self, connection: Any, columns: str, table: str, key: str, value: str) -> Any:
        # The server ends a transaction that waits for its next statement, as that of a process that
        # stands still does, but not one that waits in the middle of many rows.
        connection.execute(f"SET LOCAL lock_timeout = '{_HOLDER_S}s'")
        query = f"SELECT {columns} FROM {table} WHERE {key} = ? FOR UPDATE"
        try:
            found = self.query(connection, query, [value]).fetchone()
        except self.errors() as error:
            if getattr(error, "sqlstate", None) != "55P03":
                raise
            connection.execute("ROLLBACK")
            if not self._end_holder(connection, table, key, value):
                raise
            _log.warning(
                "A session of %s has kept the row of '%s' in %s for %d s, and was ended: "
                "the process that it belongs to stands still. What it wrote was rolled back.",
                *(self.options.shown, value, table, _HOLDER_S),
            )
            self.begin(connection)
            found = self.query(connection, query, [value]).fetchone()
        connection.execute(f"SET LOCAL lock_timeout = '{2 * _WAIT_S}s'")
        return found

    def _end_holder(self, connection: Any, table: str, key: str, value: str) -> bool:
        try:
            query = _END_HOLDER.format(table=table, key=key)
            return self.query(connection, query, [value]).fetchone() is not None
        except self.errors():
            return False  # It belongs to another user; or the server is none of PostgreSQL's own.


def psycopg() -> Any:
    """Returns the driver of PostgreSQL.

    Raises:
        EnvironmentError_: It is not installed.
    """
    try:
        return importlib.import_module("psycopg")
    except ImportError:
        raise EnvironmentError_(
            f"PostgreSQL needs the package psycopg. Install it with: {install_extra('jdbc')}."
        ) from None


_SAME: Final = (
    *("user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "options"),
    *("application_name", "connect_timeout", "target_session_attrs"),
)
_RENAMED: Final = {
    **{name: name for name in _SAME},
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
_NEEDLESS: Final = (
    *("reWriteBatchedInserts", "stringtype", "socketTimeout", "tcpKeepAlive", "autosave"),
    *("preparedStatementCacheQueries", "preparedStatementCacheSizeMiB", "binaryTransfer"),
    *("defaultRowFetchSize", "loggerLevel", "loggerFile", "useUnicode", "characterEncoding"),
    *("assumeMinServerVersion", "cleanupSavepoints", "preferQueryMode", "readOnly"),
)
_SOON: Final = ("starting up", "shutting down", "recovery", "too many", "slots", "terminating")
_TARGETS: Final = {"any": "any", "primary": "read-write", "master": "read-write"}


def _postgres_settings(options: JdbcConnectionOptions, rest: str) -> Iterator[tuple[str, Any]]:
    """Yields settings of libpq for an address of pgjdbc's, or of libpq's own."""
    found = _SERVER.fullmatch(rest)
    assert found is not None
    login, hosts = found["user"] or "", found["hosts"] or "localhost"
    pairs = [
        host.rpartition(":") if ":" in host else (host, "", "5432") for host in hosts.split(",")
    ]
    if not all(port.isdigit() for _, _, port in pairs):
        raise ProgramError(
            f"with_url({options.shown!r}): a port is not a number. If the slash is part of a "
            "password, write it as %2F (and @ as %40), or use with_user_name and with_password."
        )
    yield "host", ",".join(host for host, _, _ in pairs)
    yield "port", ",".join(port for _, _, port in pairs)
    user, _, password = login.partition(":")
    given = {"user": unquote(user), "password": unquote(password)}
    given |= dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    given |= {"user": options.user_name or given["user"]}
    given |= {"password": options.password or given["password"]}
    yield "dbname", unquote(found["database"]) or given["user"] or "postgres"
    yield "connect_timeout", options.timeout_s
    # A server whose host or network is gone answers nothing, for hours by the system's settings.
    yield from {"keepalives_idle": _WAIT_S, "keepalives_interval": 10}.items()
    yield from {"keepalives_count": 3, "tcp_user_timeout": _WAIT_S * 1000}.items()
    for key, value in given.items():
        if not value or key in _NEEDLESS:
            continue
        if key in _RENAMED:
            yield _RENAMED[key], value
        elif key == "currentSchema":
            yield "options", f"-c search_path={value}"
        elif key == "ssl":
            yield "sslmode", "verify-full" if value.lower() == "true" else "prefer"
        elif key == "targetServerType":
            yield "target_session_attrs", _TARGETS.get(value, "any")
        elif key == "prepareThreshold":
            yield "prepare_threshold", int(value) or None
        else:
            raise ProgramError(
                f"with_url({options.shown!r}): the property {key!r} has no counterpart in libpq, "
                f"which Penstock uses. Leave it out; known are {', '.join(sorted(_RENAMED))}, "
                "currentSchema, ssl, targetServerType and prepareThreshold."
            )
