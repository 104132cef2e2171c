"""Servers of your own as sinks, at least once: requests by HTTP, and commands for Redis.

    HttpSink("https://shop.example/hooks", batch_size=100)
    HttpSink("https://shop.example/items", method="PUT", path=lambda row: f"/{row.id}")
    RedisSink("redis://localhost:6379/0", lambda row: ("HSET", "totals", row.word, row.count))

Commands that may be repeated, such as `SET`, `HSET`, `SADD` and `ZADD`, give the same as exactly
once; `INCR` and `LPUSH` do not.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.connectors.sink import BatchWriter, DirectSink, SinkWriter, WriterContext
from penstock.connectors.web.client import HttpClient, HttpSettings, checked_hosts
from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten
from penstock.core.redaction import without_secrets
from penstock.core.times import BackOff, Tries

if TYPE_CHECKING:
    from penstock.connectors.serialization import SerializationSchema

_log = logging.getLogger("penstock.redis")

_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_JSON: Final = "application/json"


class HttpSink(DirectSink):
    """Sends records to an address.

    Args:
        url: The address, with a login if the server wants one: `https://user:password@host/path`.
        method: `POST`, `PUT`, `PATCH` or `DELETE`.
        path: Returns what is added to the address for a record, such as its id; with `PUT`, what a
            failure repeats then changes nothing.
        headers: Further headers, or a function that returns them for a record: a server may tell by
            an `Idempotency-Key` what it has already.
        serializer: Makes the body of a record; JSON unless given.
        batch_size: How many records are one request, as a JSON array.
    """

    _default_name = "HTTP Sink"

    def __init__(  # noqa: PLR0913
        self,
        url: str,
        *,
        method: str = "POST",
        path: Callable[[Any], str] | None = None,
        headers: Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None = None,
        serializer: SerializationSchema | None = None,
        batch_size: int = 1,
    ) -> None:
        checked_hosts((url,), "an HttpSink")
        if method not in _METHODS:
            raise ProgramError(f"an HttpSink takes a method of {', '.join(_METHODS)}: {method!r}.")
        if batch_size < 1 or (batch_size > 1 and (path or serializer or callable(headers))):
            raise ProgramError(
                f"batch_size={batch_size} of an HttpSink: requests with several records are JSON "
                "arrays, without path, headers or serializer of a record."
            )
        self._http = HttpSettings((url,))
        self._method = method
        self._path = path
        self._headers = headers or {}
        self._serializer = serializer
        self._batch_size = batch_size

    def connect(self) -> HttpClient:
        return HttpClient(self._http)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return BatchWriter(self._send, self._batch_size)

    def _send(self, records: list[Any]) -> None:
        record = records if self._batch_size > 1 else records[0]
        headers = {} if self._serializer else {"Content-Type": _JSON}
        headers |= self._headers(record) if callable(self._headers) else self._headers
        body = _json(record) if self._serializer is None else self._serializer.serialize(record)
        path = "" if self._path is None else self._path(record)
        self.client().send(self._method, path, body, headers)


def _json(record: Any) -> bytes:
    try:
        return msgspec.json.encode(record, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProgramError(
            f"the record {shorten(record)} of an HttpSink cannot be JSON: {error}. Convert it in a "
            "map(), or give the sink a serializer."
        ) from error


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict(True)
    raise TypeError(f"it has a {type(value).__name__} in it")


_PIPELINE: Final = 1_000
_TIMEOUT_S: Final = 30.0
_HEALING: Final = ("LOADING", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "OOM")
"""How replies begin that another try may not meet again."""

Command = tuple[Any, ...]


class RedisSink(DirectSink):
    """Sends commands to a Redis server.

    Args:
        url: `redis://user:password@host:6379/database`, or `rediss://` for TLS.
        command: Returns the parts of the command for a record, or None to leave it out. Parts are
            text, bytes or numbers.
        max_retries: How often a pipeline is sent again when the server does not take it.
        ca_file: Certificates to trust, instead of the system's.
    """

    _default_name = "Redis Sink"

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
        _RedisAddress(url)
        self._url = url
        self._ca_file = ca_file
        self._command = command
        self._backoff = BackOff(max_retries)

    def connect(self) -> _RedisClient:
        return _RedisClient(self._url, self._ca_file, self._backoff)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return BatchWriter(self.client().send, _PIPELINE, self._commands)

    def _commands(self, values: list[Any]) -> list[Command]:
        commands = [self._command(value) for value in values]
        return [found for found in commands if found is not None]


class _RedisAddress:
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


class _RedisClient:
    """One connection; made again after a failure."""

    def __init__(self, url: str, ca_file: str | None, backoff: BackOff) -> None:
        self._address = _RedisAddress(url)
        self._ca_file = ca_file
        self._backoff = backoff
        self._shown = f"Redis at {self._address.host}:{self._address.port}"
        self._socket: socket.socket | None = None
        self._replies: IO[bytes] | None = None

    def send(self, commands: list[Command]) -> None:
        """Sends commands, again as long as the server may take them later."""
        data = b"".join(map(_encoded, commands))
        tries = Tries(self._backoff, _log)
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
            tries.failed(
                JobExecutionError(
                    f"{self._shown} did not take {len(commands):,} commands: {reason}"
                ),
                f"{self._shown} takes nothing, trying again: {reason}",
            )

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
