"""On a standby, requests go to the leader: clients of Flink follow no redirect.

A request is passed on once and no further. Without a leader the answer is 503.
"""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from penstock.rest.context import LEADER_HEADER, problem
from penstock.rest.trust import TLS_ADVICE, client_context, has_proved, is_loopback

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Dispatcher
    from penstock.rest.settings import RestSettings

    Body = tempfile.SpooledTemporaryFile[bytes]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_PASSED_ON: Final = "x-penstock-passed-on"
_TIMEOUT_S: Final = 30.0
_MOST_THREADS: Final = 16
_SPOOL_BYTES: Final = 1024 * 1024
_OWN: Final = ("/health/", "/metrics", "/openapi.json")
_KEPT: Final = ("authorization", "content-type", "accept", "user-agent", "x-requested-with")


class ToLeader:
    """ASGI middleware behind the guard.

    Args:
        app: Serves when this process leads.
        dispatcher: Knows who leads.
        is_own: Whether a path is a file of the page, which a standby has too.
        settings: Has the token, and says whom to trust, where the leader speaks TLS.
    """

    def __init__(
        self,
        app: Application,
        dispatcher: Dispatcher,
        is_own: Callable[[str], bool],
        settings: RestSettings,
    ) -> None:
        self._app = app
        self._settings = settings
        self._threads: CapacityLimiter | None = None
        self._dispatcher = dispatcher
        self._is_own = is_own

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path.startswith(_OWN) or self._is_own(path):
            await self._app(scope, receive, send)
            return
        leadership = await run_in_threadpool(self._dispatcher.leadership)
        if leadership.is_leader:
            await self._app(scope, receive, send)
            return
        response = await self._passed_on(scope, receive, leadership.leader_url)
        await response(scope, receive, send)

    async def _passed_on(
        self, scope: MutableMapping[str, Any], receive: Receive, leader_url: str | None
    ) -> Response:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        is_stream = scope["path"].endswith("/events")
        if leader_url is None or _PASSED_ON in headers or is_stream:
            text = "No job manager leads at the moment; try again in a few seconds."
            if leader_url is not None:
                text = f"This job manager is a standby; the leader is {leader_url}."
            return problem(503, text, leader_url=leader_url)
        path = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            path += "?" + scope["query_string"].decode("latin-1")
        kept = {name: headers[name] for name in _KEPT if name in headers} | {_PASSED_ON: "1"}
        if "authorization" in kept and not self._may_be_told(leader_url):
            text = (
                f"This job manager is a standby; the leader is {leader_url}, to which it does not "
                f"pass the token on without TLS. {TLS_ADVICE}"
            )
            return problem(503, text, leader_url=leader_url)
        if self._threads is None:
            self._threads = CapacityLimiter(_MOST_THREADS)
        try:
            # The guard bounds the body; a package waits in a file, and not in memory.
            with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as body:
                while True:
                    message = await receive()
                    body.write(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
                ask = partial(self._ask, leader_url, scope["method"], path, body, kept)
                # Of its own: a leader that hangs must not keep health and the page from answering.
                return await to_thread.run_sync(ask, limiter=self._threads)
        except (OSError, http.client.HTTPException) as error:
            return problem(
                503, f"The leader {leader_url} does not answer: {error}.", leader_url=leader_url
            )

    def _may_be_told(self, url: str) -> bool:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or is_loopback(parts.hostname or "")
        return is_safe or self._settings.token_in_clear

    def _ask(
        self, url: str, method: str, path: str, body: Body, headers: dict[str, str]
    ) -> Response:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        if parts.scheme == "https":
            trusted = client_context(self._settings.configuration)
            connection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_S, context=trusted
            )
        token = self._settings.token
        try:
            if (
                parts.scheme == "http"
                and "authorization" in headers
                and not self._settings.token_in_clear
                and not (token and has_proved(connection, token))
            ):
                return problem(
                    503,
                    f"What listens at {url}, where the leader was, does not hold the token of this "
                    "job manager, so it was not passed on. All job managers need the same "
                    "penstock.rest.token-file.",
                )
            return _answer(connection, method, path, body, headers)
        finally:
            connection.close()


def _answer(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Body,
    headers: dict[str, str],
) -> Response:
    # Without a user agent, should the client have none: the leader goes by that.
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("content-length", str(body.tell()))
    body.seek(0)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    passed = {"content-type": answer.getheader("content-type") or "application/json"}
    leader = answer.getheader(LEADER_HEADER)
    if leader is not None:
        passed[LEADER_HEADER] = leader
    return Response(content, answer.status, passed)
