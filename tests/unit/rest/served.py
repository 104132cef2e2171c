"""A dispatcher behind the real server, and a client that sends exactly what a test says."""

from __future__ import annotations

import contextlib
import http.client
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.rest.server import RestServer, open_server
from penstock.rest.settings import RestSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.jobmanager.dispatching import Dispatcher

TOKEN = "a-token-of-some-length"
PAGE = {
    "User-Agent": "Mozilla/5.0",
    "X-Requested-With": "penstock",
    "Authorization": f"Bearer {TOKEN}",
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def errors(self) -> str:
        return "\n".join(self.json["errors"])


def ask(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Sends a request as it stands: the path is neither cleaned nor encoded."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    try:
        sent = dict(PAGE if headers is None else headers)
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        content = content.encode() if isinstance(content, str) else content
        if method not in ("GET", "HEAD") and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        connection.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        if "Content-Length" not in sent and "Transfer-Encoding" not in sent:
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Service:
    port: int
    server: RestServer

    def get(self, path: str, **headers: str) -> Answer:
        return ask(self.port, "GET", path, headers=PAGE | headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return ask(self.port, "POST", path, {} if body is None else body, PAGE | headers)


@contextlib.contextmanager
def served(dispatcher: Dispatcher, **changes: Any) -> Iterator[Service]:
    settings = replace(RestSettings(port=0, token=TOKEN), **changes)
    server = open_server(dispatcher, settings)
    server.start()
    try:
        yield Service(server.settings.port, server)
    finally:
        server.stop()
