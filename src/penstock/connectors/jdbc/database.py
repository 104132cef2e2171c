"""What the connector asks of a database, and SQLite: statements with `?`, values, what errors mean.

Each kind of database is a class. A connection is one of a DB-API driver of Python.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.redaction import one_line
from penstock.core.times import Instant

Rows = Sequence[Sequence[Any]]
INEXACT: Final = "whose values are not compared exactly"
Ask = Callable[[str], tuple[Any, list[tuple[Any, ...]]]]
"""Runs a query, and returns its cursor and all rows."""

WAIT_S: Final = 60
"""So long a transaction may wait for its next statement."""

_SERVER: Final = re.compile(
    r"(?://(?:(?P<user>[^/@?]*)@)?(?P<hosts>[^/?]*)/)?(?P<database>[^?]*)(?:\?(?P<query>.*))?", re.S
)
# Parts of a statement in which `?` is no parameter: text, names, comments, `$tag$` texts of
# PostgreSQL, and `??`, which is the operator `?` in JDBC.
_PLACES: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|\?\?|\?""",
    re.S,
)


class Address(Protocol):
    """Where a database is, as the program says it."""

    @property
    def url(self) -> str: ...
    @property
    def user_name(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def timeout_s(self) -> int: ...
    @property
    def shown(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Server:
    """What the address of a server consists of."""

    hosts: tuple[tuple[str, str], ...]
    database: str
    properties: dict[str, str]

    @staticmethod
    def of(address: Address, rest: str, port: str) -> Server:
        """Returns the parts of `//user:password@host:port,host/database?property=value`."""
        found = _SERVER.fullmatch(rest)
        assert found is not None
        pairs = [
            host.rpartition(":") if ":" in host else (host, "", port)
            for host in (found["hosts"] or "localhost").split(",")
        ]
        if not all(port.isdigit() for _, _, port in pairs):
            raise ProgramError(
                f"with_url({address.shown!r}): a port is not a number. If the slash is part of a "
                "password, write it as %2F (and @ as %40), or use with_user_name and with_password."
            )
        user, _, password = (found["user"] or "").partition(":")
        given = {"user": unquote(user), "password": unquote(password)}
        given |= dict(parse_qsl(found["query"] or "", keep_blank_values=True))
        given["user"] = address.user_name or given["user"]
        given["password"] = address.password or given["password"]
        hosts = tuple((host, port) for host, _, port in pairs)
        return Server(hosts, unquote(found["database"]), given)


class Database(ABC):
    """One kind of database: how to connect, and what its errors mean."""

    parameter = "?"
    """The mark that the driver wants in place of `?`."""
    escapes_percent = False
    """Whether `%` stands for itself only when doubled."""
    places = _PLACES
    """Finds `?`, and the parts of a statement in which it is no parameter."""
    key_type = "VARCHAR(250)"
    """Of a text that is equal to itself only."""
    table_options = ""
    """What follows the columns of a table that is made."""
    settle_ms = 5_000
    """So long rows that are followed wait, unless the program says something else."""
    unordered: ClassVar[dict[int, tuple[str, str, str]]] = {}
    """Types by which nothing can be read in order: name, reason, and a better type."""

    def __init__(self, address: Address) -> None:
        self.address = address

    @abstractmethod
    def connect(self) -> Any:
        """Opens a connection of the driver, in which nothing is committed by itself."""

    @abstractmethod
    def driver(self) -> Any:
        """Returns the driver's module.

        Raises:
            EnvironmentError_: It is not installed.
        """

    def errors(self) -> type[Exception]:
        """Returns the base of the driver's errors."""
        found: type[Exception] = self.driver().Error
        return found

    @abstractmethod
    def heals(self, error: Exception) -> bool:
        """Whether an error may go away when the same is tried again."""

    @abstractmethod
    def is_no_table(self, error: Exception) -> bool:
        """Whether an error says that a table does not exist."""

    @abstractmethod
    def begin(self, connection: Any) -> None:
        """Begins a transaction that writes."""

    def commit(self, connection: Any) -> None:
        """Commits the transaction."""
        connection.execute("COMMIT")

    def value(self, value: Any) -> Any:
        """Returns a value of a record as the driver takes it."""
        if type(value).__module__ == "numpy":
            # SQLite's driver writes a number of NumPy as its bytes.
            is_instant = value.dtype.kind == "M"
            value = (value.astype("datetime64[us]") if is_instant else value).tolist()
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

    def write(self, connection: Any, statement: str, rows: Rows) -> None:
        """Runs a statement of the driver's for each row."""
        connection.cursor().executemany(statement, rows)

    def check_tables(self, connection: Any, sql: str) -> None:
        """Raises an error if a table to which a statement writes has no transactions."""

    def transactions(self, ask: Ask) -> Any:
        """Returns which transactions are running; None if there is one at a time."""

    def have_ended(self, then: Any, now: Any) -> bool:
        """Whether all transactions that ran then have ended now."""
        return True

    def statement(self, sql: str) -> str:
        """Returns a statement with `?` as the driver takes it."""
        return self.parsed(sql)[0]

    def parsed(self, sql: str) -> tuple[str, int]:
        """Returns a statement with `?` as the driver takes it, and how many there are."""
        count = 0
        parts = []
        end = 0
        for found in self.places.finditer(sql):
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
        if self.escapes_percent:
            changed = changed.replace("%", "%%")
        return changed.replace("\0", self.parameter), count

    def type_of(self, cursor: Any) -> int:
        """Returns the driver's number of the type of a query's first column."""
        return int(cursor.description[0][1] or 0)

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
        text, shown = one_line(error), self.address.shown
        if self.heals(error):
            return JobExecutionError(f"the database {shown} did not take {what}: {text}")
        return InputError(f"the database {shown} refuses {what}: {text}")


class Sqlite(Database):
    """A file of SQLite, which all workers have to see."""

    settle_ms = 0  # It has one transaction that writes at a time.

    def __init__(self, address: Address, rest: str) -> None:
        super().__init__(address)
        # jdbc:sqlite:/path of Java's, sqlite:////path of SQLAlchemy's; a query says nothing to us.
        path = rest.partition("?")[0].removeprefix("file:")
        self._path = unquote(path[3:] if path.startswith("///") else path)
        if not self._path or ":memory:" in self._path:
            raise ProgramError(
                f"with_url({address.shown!r}) is a database in memory, which each process would "
                "have for itself; name a file: jdbc:sqlite:/path/of/the.db"
            )

    def connect(self) -> Any:
        try:
            return sqlite3.connect(
                self._path, timeout=WAIT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise JobExecutionError(f"SQLite cannot open {self._path}: {error}.") from None

    def driver(self) -> Any:
        return sqlite3

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
        if isinstance(value, list | tuple | dict | set):
            raise ProgramError(f"SQLite has no type for a {type(value).__name__}: {value!r:.200}")
        return value
