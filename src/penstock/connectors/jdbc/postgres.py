"""PostgreSQL, through psycopg."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from penstock.connectors.jdbc.database import INEXACT, WAIT_S, Address, Ask, Database, Server
from penstock.core.errors import InputError, JobExecutionError, ProgramError, module_of_extra
from penstock.core.redaction import one_line

_log: Final = logging.getLogger("penstock.jdbc")

_HOLDER_S: Final = 90
"""So long another session may keep a row that only processes of one job write."""
_END_HOLDER: Final = """
SELECT pg_terminate_backend(held.pid) FROM {table} AS wanted
JOIN pg_locks AS held ON held.locktype = 'transactionid' AND held.granted
AND held.mode = 'ExclusiveLock' AND held.transactionid = wanted.xmax WHERE wanted.{key} = ?
"""
_TRANSACTIONS: Final = (
    "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint"
    " FROM pg_current_snapshot() s"
)
"""The oldest transaction that is still running, and the next one that will begin."""


class Postgres(Database):
    """A server of PostgreSQL, or of what speaks its protocol."""

    parameter = "%s"
    escapes_percent = True

    unordered: ClassVar = {700: ("real", INEXACT, "double precision")}

    def __init__(self, address: Address, rest: str) -> None:
        super().__init__(address)
        self.settings = dict(_settings(address, Server.of(address, rest, "5432")))

    def connect(self) -> Any:
        try:
            return self.driver().connect(**self.settings, autocommit=True)
        except self.errors() as error:
            text, shown = one_line(error), self.address.shown
            # Errors of connecting have no code: a server that answers says FATAL.
            if "FATAL:" in text and not any(word in text for word in _SOON):
                raise InputError(f"the database {shown} refuses the connection: {text}") from None
            raise JobExecutionError(f"the database {shown} does not answer: {text}") from None

    def driver(self) -> Any:
        return module_of_extra("psycopg", "PostgreSQL needs", "psycopg", "jdbc")

    def heals(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state is None:  # The connection is gone, or there was none.
            return isinstance(error, self.driver().OperationalError)
        return str(state).startswith(("08", "25", "40", "53", "55", "57", "58", "XX"))

    def is_no_table(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) == "42P01"

    def begin(self, connection: Any) -> None:
        connection.execute("BEGIN")
        # A process that stands still in a transaction must not keep others out.
        connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{WAIT_S}s'")
        connection.execute(f"SET LOCAL lock_timeout = '{2 * WAIT_S}s'")

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
                *(self.address.shown, value, table, _HOLDER_S),
            )
            self.begin(connection)
            found = self.query(connection, query, [value]).fetchone()
        connection.execute(f"SET LOCAL lock_timeout = '{2 * WAIT_S}s'")
        return found

    def transactions(self, ask: Ask) -> Any:
        return ask(_TRANSACTIONS)[1][0]

    def have_ended(self, then: Any, now: Any) -> bool:
        return bool(now[0] >= then[1])

    def _end_holder(self, connection: Any, table: str, key: str, value: str) -> bool:
        try:
            query = _END_HOLDER.format(table=table, key=key)
            return self.query(connection, query, [value]).fetchone() is not None
        except self.errors():
            return False  # It belongs to another user; or the server is none of PostgreSQL's own.


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


def _settings(address: Address, server: Server) -> Iterator[tuple[str, Any]]:
    """Yields settings of libpq for an address of pgjdbc's, or of libpq's own."""
    yield "host", ",".join(host for host, _ in server.hosts)
    yield "port", ",".join(port for _, port in server.hosts)
    yield "dbname", server.database or server.properties["user"] or "postgres"
    yield "connect_timeout", address.timeout_s
    # A server whose host or network is gone answers nothing, for hours by the system's settings.
    yield from {"keepalives_idle": WAIT_S, "keepalives_interval": 10}.items()
    yield from {"keepalives_count": 3, "tcp_user_timeout": WAIT_S * 1000}.items()
    for key, value in server.properties.items():
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
                f"with_url({address.shown!r}): the property {key!r} has no counterpart in libpq, "
                f"which Penstock uses. Leave it out; known are {', '.join(sorted(_RENAMED))}, "
                "currentSchema, ssl, targetServerType and prepareThreshold."
            )
