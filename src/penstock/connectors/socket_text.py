"""Lines from a socket, as `env.socket_text_stream` reads them: for trying things out.

A socket cannot be read again. Lines that a worker has received since it connected, the last
100,000 of them, are kept, so an epoch that is repeated in the same worker sees them again. What
was sent to a worker that died is lost, as in Flink.
"""

from __future__ import annotations

import logging
import select
import socket
from collections import deque
from typing import Any, Final

from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.core.types import Types

_log = logging.getLogger("penstock.socket")

_KEPT: Final = 100_000
_WAIT_S: Final = 0.05
_CONNECT_S: Final = 10.0
_RETRY_MS: Final = 500


class SocketTextSource(Source):
    """Reads lines from a server, in one subtask.

    Args:
        host: The server.
        port: Its port.
        delimiter: What ends a line.
        max_retries: How often, half a second apart, a server is tried again that does not answer or
            has ended the connection; 0 ends the stream then, and -1 has no end.
    """

    _default_name = "Socket Stream"

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retries: int = 0) -> None:
        if not 0 < port < 1 << 16:
            raise ProgramError(f"socket_text_stream({host!r}, {port!r}): this is no port.")
        if not delimiter or max_retries < -1:
            raise ProgramError(
                f"socket_text_stream(delimiter={delimiter!r}, max_retries={max_retries}) takes a "
                "text that is not empty, and a number from -1 up."
            )
        self.place = host, port
        self.delimiter = delimiter
        self.max_retries = max_retries

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def discover(self, state: Any, now_ms: int) -> Discovery:
        splits = () if state else (Split("socket", None, concurrent=True),)
        return Discovery(splits, {"found": True}, complete=True)

    def create_reader(self) -> SourceReader:
        return _Reader(self)

    def produced_type(self) -> Any:
        return Types.STRING()


class _Reader(SourceReader):
    def __init__(self, source: SocketTextSource) -> None:
        self._source = source
        self._delimiter = source.delimiter.encode()
        self._socket: socket.socket | None = None
        self._lines: deque[str] = deque()
        self._received: int | None = None  # Position behind the last of the lines.
        self._rest = b""
        self._tried_ms = 0
        self._failures = 0
        self._is_done = False

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        if self._received is None:
            self._received = position
        first = self._received - len(self._lines)
        if position < first:
            _log.warning("%d lines from %s:%d are lost", first - position, *self._source.place)
            position = first
        if position >= self._received and not self._is_done:
            position = self._received
            self._receive(budget.now_ms)
            first = self._received - len(self._lines)
        start = position - first
        values = [self._lines[at] for at in range(start, len(self._lines))][: budget.max_records]
        position += len(values)
        has_more = position < self._received
        return ReadResult(
            values, position, has_more=has_more, finished=self._is_done and not has_more
        )

    def _receive(self, now_ms: int) -> None:
        if self._socket is None and not self._connected(now_ms):
            return
        assert self._socket is not None
        try:
            if not select.select([self._socket], [], [], _WAIT_S)[0]:
                return
            data = self._socket.recv(1 << 20)
        except OSError as error:
            self._failed(error, now_ms)
            return
        if data:
            *lines, self._rest = (self._rest + data).split(self._delimiter)
        else:
            lines, self._rest = [self._rest] if self._rest else [], b""
            self._failed(ConnectionError("the server has ended the connection"), now_ms)
        self._add(lines)

    def _add(self, lines: list[bytes]) -> None:
        assert self._received is not None
        texts = [line.decode(errors="replace") for line in lines]
        if self._delimiter == b"\n":
            texts = [text.removesuffix("\r") for text in texts]
        while len(self._lines) > _KEPT:  # All of them have been read.
            self._lines.popleft()
        self._lines.extend(texts)
        self._received += len(texts)

    def _connected(self, now_ms: int) -> bool:
        if self._failures and 0 <= now_ms - self._tried_ms < _RETRY_MS:
            return False
        try:
            self._socket = socket.create_connection(self._source.place, _CONNECT_S)
            # A server whose host has died ends nothing.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            if self._source.max_retries == 0:
                host, port = self._source.place
                raise JobExecutionError(f"{host}:{port} does not answer: {error}") from error
            self._failed(error, now_ms)
            return False
        self._failures = 0
        return True

    def _failed(self, error: OSError, now_ms: int) -> None:
        self.close()
        self._tried_ms = now_ms
        self._failures += 1
        most = self._source.max_retries
        if most >= 0 and self._failures > most:
            self._is_done = True
        _log.info("%s:%d: %s", *self._source.place, error)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
