"""Connections to databases: JDBC's addresses, on DB-API drivers of Python.

    JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url("jdbc:postgresql://localhost:5432/shop")
        .with_user_name("penstock")
        .with_password("...")
        .build()

PostgreSQL is reached through psycopg, MySQL and MariaDB through PyMySQL, SQLite through the
standard library. A driver class of Java's is accepted and means nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.connectors.jdbc.database import Sqlite
from penstock.connectors.jdbc.mysql import MySql
from penstock.connectors.jdbc.postgres import Postgres
from penstock.core.errors import ProgramError
from penstock.core.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.jdbc.database import Database

_URL: Final = re.compile(r"(?:jdbc:)?(?P<scheme>[a-z][a-z0-9+]*):(?P<rest>.*)", re.S)
_SHAPES: Final = (
    "jdbc:postgresql://host:5432/database, jdbc:mysql://host:3306/database, "
    "jdbc:mariadb://host:3306/database and jdbc:sqlite:/path/of/the.db"
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
        if found is not None and scheme in _DATABASES:
            return _DATABASES[scheme](self, found["rest"])
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


_DATABASES: Final[dict[str, Callable[[JdbcConnectionOptions, str], Database]]] = {
    "postgresql": Postgres,
    "postgres": Postgres,
    "mysql": MySql,
    "mariadb": MySql,
    "sqlite": Sqlite,
}
