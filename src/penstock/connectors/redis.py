"""Redis as a sink: one command for each record, in pipelines, at least once.

    RedisSink("redis://localhost:6379/0", lambda row: ("HSET", "totals", row.word, row.count))

Commands that may be repeated, such as `SET`, `HSET`, `SADD` and `ZADD`, give the same as exactly
once; `INCR` and `LPUSH` do not.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from penstock.connectors.sink import Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.user_sink import NothingToCommit
from penstock.connectors.web.client import BackOff
from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten
from penstock.core.redaction import without_secrets

_PIPELINE: Final = 1_000
_TIMEOUT_S: Final = 30.0
_HEALING: Final = ("LOADING", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "OOM")
"""How replies begin that another try may not meet again."""

Command = tuple[Any, ...]


class RedisSink(Sink):
    """Sends commands to a Redis server.

    Args:
        url: `redis://user:password@host:6379/database`, or `rediss://` for TLS.
        command: Returns the parts of the command for a record, or None to leave it out. Parts are
            text, bytes or numbers.
        max_retries: How often a pipeline is sent again when the server does not take it.
        ca_file: Certificates to trust, instead of the system's.
    """

    def __init__(
        self,
        url: str,
        command: Callable[[Any], Command | None],
        *,
        max_retries: int = 8,
        ca_file: str | None = None,
    ) -> None:
        if not callable(command):
            raise ProgramError(f"RedisSink(..., {command!r:.80}) takes a function of a record.")
        _Address(url)
        self._url = url
        self._ca_file = ca_file
        self._command = command
        self._backoff = BackOff(max_retries)
        self._client: _Client | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._client is None:
            self._client = _Client(self._url, self._ca_file, self._backoff)
        return _Writer(self._client, self._command)

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def default_name(self) -> str:
        return "Redis Sink"


class _Writer(SinkWriter):
    def __init__(self, client: _Client, command: Callable[[Any], Command | None]) -> None:
        self._client = client
        self._command = command
        self._commands: list[Command] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        self._commands += [found for found in map(self._command, values) if found is not None]
        while len(self._commands) >= _PIPELINE:
            self._client.send(self._commands[:_PIPELINE])
            del self._commands[:_PIPELINE]

    def prepare_commit(self) -> list[Any]:
        if self._commands:
            self._client.send(self._commands)
            self._commands = []
        return []


_log = logging.getLogger("penstock.redis")


class _Address:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            database = int(parts.path.strip("/") or 0)
            self.port = parts.port or 6379
        except ValueError:
            database = -1
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or database < 0:
            raise ProgramError(
                f"{without_secrets(url)!r} is no address of Redis: write "
                "redis://user:password@host:6379/0, or rediss:// for TLS."
            )
        self.is_secure = parts.scheme == "rediss"
        self.host = parts.hostname
        self.greetings: list[Command] = []
        if parts.password:
            login = (unquote(parts.username), unquote(parts.password)) if parts.username else None
            self.greetings.append(("AUTH", *(login or (unquote(parts.password),))))
        if database:
            self.greetings.append(("SELECT", database))


class _Client:
    """One connection; made again after a failure."""

    def __init__(self, url: str, ca_file: str | None, backoff: BackOff) -> None:
        self._address = _Address(url)
        self._ca_file = ca_file
        self._backoff = backoff
        self._shown = f"Redis at {self._address.host}:{self._address.port}"
        self._socket: socket.socket | None = None
        self._replies: IO[bytes] | None = None

    def send(self, commands: list[Command]) -> None:
        """Sends commands, again as long as the server may take them later."""
        data = b"".join(map(_encoded, commands))
        delays = self._backoff.delays()
        has_warned = False
        while True:
            reason: str | Exception
            try:
                refused = self._replied(data, commands)
            except OSError as error:
                self.close()
                reason = error
            else:
                if not refused:
                    return
                command, reason = refused
                if not reason.startswith(_HEALING):
                    raise InputError(f"{self._shown} refuses {shorten(command)}: {reason}")
            wait_s = next(delays, None)
            if wait_s is None:
                raise JobExecutionError(
                    f"{self._shown} did not take {len(commands):,} commands: {reason}"
                ) from (reason if isinstance(reason, Exception) else None)
            if not has_warned:
                has_warned = True
                _log.warning("%s takes nothing, trying again: %s", self._shown, reason)
            time.sleep(wait_s)

    def _replied(self, data: bytes, commands: list[Command]) -> tuple[Command, str] | None:
        """Returns the first command that was refused, with the reason."""
        if self._socket is None:
            self._connect()
        assert self._socket is not None
        self._socket.sendall(data)
        found = [(command, error) for command in commands if (error := self._reply()) is not None]
        lasting = [pair for pair in found if not pair[1].startswith(_HEALING)]
        return next(iter(lasting or found), None)

    def _connect(self) -> None:
        address = self._address
        made = socket.create_connection((address.host, address.port), _TIMEOUT_S)
        if address.is_secure:
            trusted = ssl.create_default_context(cafile=self._ca_file)
            made = trusted.wrap_socket(made, server_hostname=address.host)
        self._socket, self._replies = made, made.makefile("rb")
        for greeting in address.greetings:
            made.sendall(_encoded(greeting))
            error = self._reply()
            if error is not None and error.startswith(_HEALING):
                raise ConnectionError(error)
            if error is not None:
                self.close()
                raise InputError(f"{self._shown} refuses {greeting[0]}: {error}")

    def _reply(self) -> str | None:
        """Reads a reply; returns its text if it is an error."""
        assert self._replies is not None
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has ended the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return rest.decode(errors="replace")
        if kind == b"$" and int(rest) >= 0:
            if len(self._replies.read(int(rest) + 2)) < int(rest) + 2:
                raise ConnectionError("the server has ended the connection")
        elif kind == b"*":
            errors = [self._reply() for _ in range(max(0, int(rest)))]
            return next((error for error in errors if error is not None), None)
        elif kind not in (b"+", b":", b"$"):
            raise InputError(f"{self._shown} does not answer as Redis does: {line[:80]!r}")
        return None

    def close(self) -> None:
        if self._socket is not None:
            assert self._replies is not None
            self._replies.close()
            self._socket.close()
        self._socket = self._replies = None


def _encoded(command: Iterable[Any]) -> bytes:
    """Returns a command as Redis reads it: each part with its length."""
    parts = []
    for part in command:
        if isinstance(part, bytes | bytearray):
            parts.append(bytes(part))
        elif isinstance(part, str | int | float) and not isinstance(part, bool):
            parts.append(str(part).encode())
        else:
            raise ProgramError(
                f"the command {shorten(command)} of a RedisSink has the part {part!r:.80}; parts "
                "are text, bytes or numbers."
            )
    if not parts:
        raise ProgramError("the function of a RedisSink returned a command without parts.")
    head = b"*%d\r\n" % len(parts)
    return head + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
