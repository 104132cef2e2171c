"""A server of HTTP in a thread that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def closed_port() -> int:
    """Returns a port at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Request:
    method: str
    path: str
    headers: Any
    body: bytes


class Double:
    """Answers each request with the next of `answers`, else with the default.

    Args:
        default: Status and document, or a function of the request that returns them.
    """

    def __init__(self, default: Any) -> None:
        self.default: tuple[int, Any] | Callable[[Request], tuple[int, Any]] = default
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[Request] = []
        self._sockets: list[socket.socket] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                double._sockets.append(self.connection)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, self.headers, body)
                double.requests.append(request)
                found: Any = double.answers.pop(0) if double.answers else double.default
                status, document = found(request) if callable(found) else found
                content = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # Connections are dropped on purpose.

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Double:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self.drop_connections()
        self._server.server_close()

    def drop_connections(self) -> None:
        """Ends all connections, as a server does that has waited for long."""
        while self._sockets:
            with contextlib.suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)
