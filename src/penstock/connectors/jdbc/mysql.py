"""MySQL and MariaDB, through PyMySQL.

PyMySQL joins the rows of an INSERT into few statements: of the drivers that need no compiler it
took 35 ms for 5,000 rows of 100 bytes, mysql-connector-python 120 ms, mariadb 270 ms.

Sessions are in UTC unless the address says otherwise, refuse values that do not fit, as Java's
drivers do, and isolate by READ COMMITTED: with REPEATABLE READ, the server's default, upserts lock
gaps between rows, in which those of other subtasks belong.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import socket
import ssl
import time
from decimal import Decimal
from typing import Any, ClassVar, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from penstock.connectors.jdbc.database import (
    INEXACT,
    WAIT_S,
    Address,
    Ask,
    Database,
    Rows,
    Server,
)
from penstock.core.errors import (
    EnvironmentError_,
    InputError,
    JobExecutionError,
    ProgramError,
    install_extra,
    module_of_extra,
    shorten,
)
from penstock.core.redaction import one_line

_LOCK_S: Final = 2 * WAIT_S
_TOO_LARGE: Final = (1153, 2006, 2013)
"""What is met where a statement is larger than the server takes: it hangs up."""
_HEALING: Final = frozenset(
    (
        *(1021, 1026, 1030, 1114),  # Disks that are full or fail.
        *(1040, 1203, 1226),  # Too many connections.
        *(1047, 1290, 1792, 1836),  # A member that is read only for now.
        *(1053, 1077, 1079, 1080, 1317, 1927, 4031),  # The server, or a person, ended it.
        *(1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161),  # The network.
        *(1205, 1213, 1297, 1412, 1614, 1637, 1969, 3024),  # Other transactions; time is over.
    )
)
_NO_SUCH_TABLE: Final = 1146
_READ_ONLY_IDS: Final = 1 << 48
"""MySQL gives numbers from here to transactions that have not written."""
_TRANSACTIONS: Final = (
    "SELECT trx_mysql_thread_id, trx_started, trx_id, trx_mysql_thread_id = CONNECTION_ID()"
    " AND LOCATE('asked {}', trx_query) FROM information_schema.innodb_trx"
    " WHERE trx_mysql_thread_id = CONNECTION_ID()"
    f" OR (trx_id > 0 AND trx_id < {_READ_ONLY_IDS})"
)
"""Transactions that have written; the last column says whether it is this very question."""
_ENUM: Final = 1 << 8
_SET: Final = 1 << 11
"""Flags of columns whose type the server gives as that of a text."""
_VALUES: Final = (
    *(type(None), bool, float, str, bytes, bytearray, Decimal),
    *(datetime.date, datetime.time, datetime.timedelta),
)
_TWO_ORDERS: Final = "whose values are sorted by their numbers, but compared as texts"
_CACHED_S: Final = 0.11
_TRIES: Final = 10
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|Z)?(?:(?P<sign>[+ -])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?)?", re.I
)
"""A plus in an address stands for a blank."""
_NAME: Final = r"(?:`[^`]+`|[\w$]+)"
_WRITTEN: Final = re.compile(
    r"\s*(?:INSERT|REPLACE|UPDATE|DELETE)"
    r"(?:\s+(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|QUICK|IGNORE|INTO|FROM)\b)*"
    rf"\s+(?:(?P<schema>{_NAME})\s*\.\s*)?(?P<table>{_NAME})",
    re.I,
)
_ENGINE: Final = (
    "SELECT t.engine FROM information_schema.tables t JOIN information_schema.engines e"
    " ON e.engine = t.engine WHERE e.transactions <> 'YES'"
    " AND t.table_schema = COALESCE(?, DATABASE()) AND t.table_name = ?"
)


class MySql(Database):
    """A server of MySQL or MariaDB."""

    parameter = "%s"
    escapes_percent = True
    # A backslash escapes in texts, names have backquotes, `#` begins a comment, and `--` does so
    # only before a blank.
    places = re.compile(
        r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|(?:#|--(?=\s|\Z))[^\n]*"""
        r"""|/\*.*?\*/|\?""",
        re.S,
    )
    # Texts are equal to others there: in upper and lower case, and with blanks behind them.
    key_type = "VARBINARY(750)"
    table_options = " ENGINE = InnoDB, DEFAULT CHARACTER SET = utf8mb4"
    unordered: ClassVar = {
        4: ("FLOAT", INEXACT, "DOUBLE"),
        0: ("DECIMAL", INEXACT, "DOUBLE"),
        246: ("DECIMAL", INEXACT, "DOUBLE"),
        _ENUM: ("ENUM", _TWO_ORDERS, "CHAR"),
        _SET: ("SET", _TWO_ORDERS, "CHAR"),
    }

    def __init__(self, address: Address, rest: str) -> None:
        super().__init__(address)
        if not rest.startswith("//"):
            raise ProgramError(
                f"with_url({address.shown!r}): an address of MySQL begins with jdbc:mysql://host; "
                "several hosts stand there with commas, and are tried in their order."
            )
        server = Server.of(address, rest, "3306")
        self.hosts = server.hosts
        self.database = server.database
        self.properties = _properties(address, server.properties)
        self._zone = _zone(address, self.properties)
        self._packet_bytes = 0
        self._asked = 0
        variables = [
            f"time_zone = '{_name_of(self._zone)}'",
            "sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
            # A process that stands still in the middle of a statement must not keep others out.
            *(f"net_read_timeout = {WAIT_S}", f"net_write_timeout = {WAIT_S}"),
            f"innodb_lock_wait_timeout = {_LOCK_S}",
            self.properties.get("sessionVariables", ""),
        ]
        self._session = f"SET SESSION {', '.join(filter(None, variables))}"

    def connect(self) -> Any:
        driver, tls = self.driver(), _tls(self.address, self.properties)
        failure: Exception | None = None
        for host, port in self.hosts:
            try:
                return self._connected(host, int(port), tls)
            except RuntimeError as error:  # It wants a package for the way the user logs in.
                raise EnvironmentError_(
                    f"PyMySQL cannot log in to {self.address.shown}: {error}. Install it with: "
                    f"{install_extra('jdbc')}."
                ) from None
            except (OSError, driver.Error) as error:
                failure = error
        assert failure is not None
        text, shown = one_line(failure), self.address.shown
        if isinstance(failure, driver.Error) and not self.heals(failure):
            raise InputError(f"the database {shown} refuses the connection: {text}") from None
        raise JobExecutionError(f"the database {shown} does not answer: {text}") from None

    def _connected(self, host: str, port: int, tls: dict[str, Any]) -> Any:
        timeout_s = self.address.timeout_s
        connection = self.driver().Connection(
            host=host,
            port=port,
            user=self.properties["user"],
            password=self.properties["password"],
            database=self.database or None,
            charset="utf8mb4",
            autocommit=True,
            read_timeout=timeout_s,
            defer_connect=True,
            **tls,
        )
        link = socket.create_connection((host, port), timeout_s)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A server whose host or network is gone answers nothing, for hours by the system's
        # settings.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {
            "TCP_KEEPIDLE": WAIT_S,
            "TCP_KEEPINTVL": 10,
            "TCP_KEEPCNT": 3,
            "TCP_USER_TIMEOUT": WAIT_S * 1000,
        }.items():
            if hasattr(socket, name):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.connect(link)
        # It was for the greeting; a query takes as long as it takes.
        connection._read_timeout = None
        try:
            self.query(connection, self._session)
            self.query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            found = self.query(connection, "SELECT @@max_allowed_packet").fetchone()
        except BaseException:
            connection.close()
            raise
        self._packet_bytes = int(found[0])
        return connection

    def driver(self) -> Any:
        return module_of_extra("pymysql", "MySQL and MariaDB need", "PyMySQL", "jdbc")

    def heals(self, error: Exception) -> bool:
        code = _code(error)
        if code is None:  # An answer that is none: the connection is of no use any more.
            return isinstance(error, self.driver().InternalError)
        # From 2000 on they are the client's own: the connection is gone, or there was none.
        return code in _HEALING or code == 0 or (2000 <= code < 3000 and code not in (2026, 2059))

    def is_no_table(self, error: Exception) -> bool:
        return _code(error) == _NO_SUCH_TABLE

    def begin(self, connection: Any) -> None:
        # The server ends the session of a process that stands still, and so its transaction.
        self.query(connection, f"SET SESSION wait_timeout = {WAIT_S}")
        self.query(connection, "START TRANSACTION")

    def locked(self, connection: Any, columns: str, table: str, key: str, value: str) -> Any:
        query = f"SELECT {columns} FROM {table} WHERE {key} = ? FOR UPDATE"
        return self.query(connection, query, [value]).fetchone()

    def commit(self, connection: Any) -> None:
        self.query(connection, "COMMIT")
        with contextlib.suppress(self.errors()):  # If it is gone, the next transaction says so.
            self.query(connection, "SET SESSION wait_timeout = DEFAULT")

    def value(self, value: Any) -> Any:
        value = super().value(value)
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return value.astimezone(self._zone).replace(tzinfo=None)
        if isinstance(value, UUID):
            return str(value)
        # Of any other class the driver writes what str() says, `Color.RED` of a number, too.
        if isinstance(value, int) and type(value) is not bool:
            return int(value)
        if not isinstance(value, _VALUES):
            raise ProgramError(f"MySQL has no type for a {type(value).__name__}: {value!r:.200}")
        return value

    def type_of(self, cursor: Any) -> int:
        flags: int = cursor._result.fields[0].flags
        return flags & (_ENUM | _SET) or super().type_of(cursor)

    def write(self, connection: Any, statement: str, rows: Rows) -> None:
        cursor = connection.cursor()
        try:
            try:
                cursor.executemany(statement, rows)
            except TypeError:  # It takes no parameters behind VALUES (...), and has sent nothing.
                for row in rows:
                    cursor.execute(statement, row)
        except self.errors() as error:
            if _code(error) in _TOO_LARGE:
                self._check_sizes(cursor, statement, rows)
            raise

    def _check_sizes(self, cursor: Any, statement: str, rows: Rows) -> None:
        for row in rows:
            size = len(cursor.mogrify(statement, row).encode())
            if size >= self._packet_bytes:
                raise InputError(
                    f"the database {self.address.shown} takes statements of less than "
                    f"{self._packet_bytes:,} bytes (max_allowed_packet), and one with the row "
                    f"{shorten(list(row))} has {size:,}. Raise max_allowed_packet of the server, "
                    "and start the job again."
                )

    def check_tables(self, connection: Any, sql: str) -> None:
        found = _WRITTEN.match(sql)
        if found is None:
            return
        schema, table = ((found[group] or "").strip("`") for group in ("schema", "table"))
        for (engine,) in self.query(connection, _ENGINE, [schema or None, table]).fetchall():
            raise InputError(
                f"the table {table} is of the engine {engine}, which has no transactions, so "
                "nothing can be written to it exactly once. Change it with ALTER TABLE "
                f"{table} ENGINE = InnoDB, or use JdbcSink.sink."
            )

    def transactions(self, ask: Ask) -> Any:
        """Returns the transactions that have written and did not end.

        The server copies its list for those who ask, and makes a new copy only when no one has
        asked for a tenth of a second. So a transaction of our own has to be in it, with this query.
        """
        for tried in range(_TRIES):
            self._asked += 1
            ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            found = ask(_TRANSACTIONS.format(self._asked))[1]
            ask("COMMIT")
            if any(is_this for *_, is_this in found):
                return frozenset(tuple(each) for *each, is_this in found if not is_this)
            time.sleep(_CACHED_S * (tried + 1))
        raise JobExecutionError(
            f"the database {self.address.shown} gives an old list of its transactions, since it is "
            "asked for one again and again. Have the programs that read "
            "information_schema.innodb_trx do so less often."
        )

    def have_ended(self, then: Any, now: Any) -> bool:
        return bool(then.isdisjoint(now))


def _code(error: Exception) -> int | None:
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else None


_READ: Final = frozenset(
    (
        *("user", "password", "sslMode", "useSSL", "useSsl", "requireSSL", "serverSslCert"),
        *("verifyServerCertificate", "ssl_ca", "ssl_cert", "ssl_key", "serverTimezone"),
        *("connectionTimeZone", "sessionVariables"),
    )
)
_NEEDLESS: Final = frozenset(
    (
        *("useUnicode", "characterEncoding", "connectionCollation", "rewriteBatchedStatements"),
        *("allowPublicKeyRetrieval", "autoReconnect", "maxReconnects", "failOverReadOnly"),
        *("zeroDateTimeBehavior", "useLegacyDatetimeCode", "useJDBCCompliantTimezoneShift"),
        *("cachePrepStmts", "prepStmtCacheSize", "prepStmtCacheSqlLimit", "useServerPrepStmts"),
        *("useCursorFetch", "defaultFetchSize", "tinyInt1isBit", "allowMultiQueries"),
        *("nullCatalogMeansCurrent", "useInformationSchema", "tcpKeepAlive", "useCompression"),
        *("socketTimeout", "connectTimeout", "useBulkStmts", "permitMysqlScheme", "charset"),
        *("forceConnectionTimeZoneToSession", "yearIsDateType", "useAffectedRows"),
    )
)
# What Java's drivers call it: that of MySQL, and that of MariaDB.
_TLS: Final = {
    "disabled": "off",
    "disable": "off",
    "preferred": "",
    "prefer": "",
    "required": "on",
    "trust": "on",
    "verify_ca": "ca",
    "verify-ca": "ca",
    "verify_identity": "host",
    "verify-full": "host",
}


def _properties(address: Address, given: dict[str, str]) -> dict[str, str]:
    """Returns properties of Java's drivers that mean something here."""
    if unknown := sorted(given.keys() - _READ - _NEEDLESS):
        raise ProgramError(
            f"with_url({address.shown!r}): the property {unknown[0]!r} is not known. Leave it out; "
            f"known are {', '.join(sorted(_READ))}."
        )
    mode = given.get("sslMode", "").lower()
    if mode and mode not in _TLS:
        raise ProgramError(
            f"with_url({address.shown!r}): sslMode is one of {', '.join(sorted(_TLS))}."
        )
    if not mode:
        is_on = given.get("useSSL") or given.get("useSsl") or ""
        is_checked = given.get("verifyServerCertificate", "").lower() == "true"
        if is_on.lower() == "true" or given.get("requireSSL", "").lower() == "true":
            mode = "verify_ca" if is_checked else "required"
        elif is_on:
            mode = "disabled"
    return {**given, "sslMode": _TLS.get(mode, "")}


def _tls(address: Address, given: dict[str, str]) -> dict[str, Any]:
    """Returns what PyMySQL takes for it; unless something is said, TLS if the server has it."""
    level = given["sslMode"]
    if level == "off":
        return {"ssl_disabled": True}
    if not level:
        return {}
    try:
        context = ssl.create_default_context(
            cafile=given.get("serverSslCert") or given.get("ssl_ca") or None
        )
        # Certificates that MySQL makes for itself do not pass what Python 3.13 asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = level == "host"
        context.verify_mode = ssl.CERT_NONE if level == "on" else ssl.CERT_REQUIRED
        if given.get("ssl_cert"):
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    except OSError as error:
        raise InputError(
            f"with_url({address.shown!r}): a certificate cannot be read: {error}"
        ) from None
    return {"ssl": context}


def _zone(address: Address, given: dict[str, str]) -> datetime.tzinfo:
    """Returns the zone in which the program says that times are in the database."""
    name = given.get("connectionTimeZone") or given.get("serverTimezone") or "UTC"
    found = _OFFSET.fullmatch(name)
    if found is not None:
        hours, minutes = int(found["hours"] or 0), int(found["minutes"] or 0)
        offset = datetime.timedelta(hours=hours, minutes=minutes)
        return datetime.timezone(-offset if found["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # There is none of the name.
        raise ProgramError(
            f"with_url({address.shown!r}): {name!r} is no zone of time; name one, such as UTC, "
            "%2B08:00 (for +08:00) or Asia/Shanghai."
        ) from None


def _name_of(zone: datetime.tzinfo) -> str:
    """Returns what MySQL calls a zone."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    minutes = int(zone.utcoffset(None).total_seconds()) // 60  # type: ignore[union-attr]
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
