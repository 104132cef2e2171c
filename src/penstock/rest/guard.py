"""The guard before all routes: access, size and pace of bodies, headers of every answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException

from penstock.rest.access import is_submission, refusal
from penstock.rest.token_file import CHALLENGE_HEADER, PROOF_HEADER, PROOF_PATH, proof

if TYPE_CHECKING:
    from penstock.rest.settings import RestSettings

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_log = logging.getLogger("penstock.rest")

BODY_TIMEOUT_S: Final = 30.0
PIECE_BYTES: Final = 64 * 1024
PACKAGE_TIMEOUT_S: Final = 300.0
MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 16 * 1024
MAX_PATH_CHARACTERS: Final = 2_000
_ALWAYS: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class _RefusedError(HTTPException):
    """The body is too large or too slow; wherever it is read, it is answered so."""


class Guard:
    """ASGI middleware.

    Args:
        app: What it guards.
        settings: Of the service.
        is_page: Whether a path is a file of the web page.
    """

    def __init__(
        self, app: Application, settings: RestSettings, is_page: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._settings = settings
        self._is_page = is_page

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no web sockets here.
            return
        path, method = scope["path"], scope["method"]
        is_page = method in ("GET", "HEAD") and self._is_page(path)
        answered = False

        async def send_with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                headers = [*message.get("headers", ()), *_ALWAYS, *self._proof(path, given)]
                if not is_page:
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            body = message.get("body", b"")
            last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
            # Piece by piece, so that the time that a reader has is for a piece.
            for start in range(0, last, PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                await send({**message, "body": piece, "more_body": True})
            if last > 0:
                message = {**message, "body": body[last:]}
            await send(message)

        given = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        if _is_too_large(scope["headers"], path):
            await _answer(send_with_headers, 431, "The request has too many or too long headers.")
            return
        refused = refusal(method, path, given, self._settings, is_page=is_page)
        if refused is not None:
            _log.info("%s %s refused with %d.", method, path, refused.status)
            await _answer(send_with_headers, refused.status, refused.message)
            return
        bounded = _Body(receive, given, self._settings, submits=is_submission(method, path))
        try:
            await self._app(scope, bounded, send_with_headers)
        except _RefusedError as error:
            if not answered:
                await _answer(send_with_headers, error.status_code, error.detail)

    def _proof(self, path: str, given: dict[str, str]) -> list[tuple[bytes, bytes]]:
        """Returns the header that shows a client that this service holds the token."""
        challenge = given.get(CHALLENGE_HEADER.lower())
        token, port = self._settings.token, self._settings.port
        if path != PROOF_PATH or challenge is None or not token:
            return []
        return [(PROOF_HEADER.lower().encode(), proof(token, port, challenge).encode())]


class _Body:
    """Receives a body within its bounds."""

    def __init__(
        self, receive: Receive, headers: dict[str, str], settings: RestSettings, *, submits: bool
    ) -> None:
        self._receive = receive
        self._limit = settings.max_package_bytes if submits else settings.max_body_bytes
        self._left = self._limit
        self._declared = headers.get("content-length", "0")
        self._seconds = PACKAGE_TIMEOUT_S if submits else BODY_TIMEOUT_S
        self._deadline: float | None = None
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        if not self._declared.isdigit() or int(self._declared) > self._limit:
            raise self._too_large()
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._seconds
        try:
            message = await asyncio.wait_for(self._receive(), max(self._deadline - now, 0.0))
        except TimeoutError:
            raise _RefusedError(408, f"The body took longer than {self._seconds:.0f} s.") from None
        self._left -= len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._left < 0:
            raise self._too_large()
        return message

    def _too_large(self) -> _RefusedError:
        return _RefusedError(413, f"The body is larger than {self._limit:,} bytes.")


def _is_too_large(headers: Sequence[tuple[bytes, bytes]], path: str) -> bool:
    size = sum(len(name) + len(value) for name, value in headers)
    return len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES or len(path) > MAX_PATH_CHARACTERS


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps({"errors": [message]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
