"""The guard before all routes: access, size and pace of bodies, headers of every answer.

Who may do what is one pure decision about a request's method, path and headers:

1. The `Host` must be one of ours, so that a rebound name of a stranger's page is refused.
2. A token that is sent must be right. Every request needs it, except health and the files of the
   page: other users of this machine reach loopback too, and so does a proxy on it.
3. What changes something must be JSON, which a stranger's page cannot send without asking first,
   and must come from where the page came from.

With `penstock.rest.require-token: false`, on loopback and not through a proxy, reading needs no
token. What changes something needs it, or the header that our page and command line send, or must
be Flink's own Java client, which no browser can pass for: it sends no `User-Agent`. To submit a job
is to run code: it needs the token, unless `web.submit.enable` says otherwise.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException

from penstock.rest.trust import CHALLENGE_HEADER, PROOF_HEADER, PROOF_PATH, proof

if TYPE_CHECKING:
    from penstock.rest.settings import RestSettings

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HEALTH: Final = frozenset({"/health/live", "/health/ready"})
SUBMISSION_TYPES: Final = ("application/json", "multipart/form-data", "application/zip")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_PROXIED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_FETCHED_HERE: Final = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served."""

    status: int  # HTTP status.
    message: str  # What to do instead.


def is_flink_client(headers: Mapping[str, str]) -> bool:
    """Says whether a request comes from Flink's Java client.

    It names no user agent, and neither what every browser adds by itself.
    """
    marks = ("user-agent", "origin", "referer", "cookie", "sec-fetch-site", "x-requested-with")
    return not any(mark in headers for mark in marks)


def is_submission(method: str, path: str) -> bool:
    """Says whether a request hands in a job."""
    return method == "POST" and path.removeprefix("/v1").rstrip("/") == "/jobs"


def has_token(headers: Mapping[str, str], settings: RestSettings) -> bool:
    """Compares the token in constant time."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if not settings.token or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), settings.token.encode())


def refusal(
    method: str, path: str, headers: Mapping[str, str], settings: RestSettings, *, is_page: bool
) -> Refusal | None:
    """Decides about a request.

    Args:
        method: HTTP method.
        path: Without query.
        headers: By lower-case name.
        settings: Of the service.
        is_page: Whether the path is a file of the web page.
    """
    if not _is_host_allowed(headers.get("host", ""), settings):
        return Refusal(
            403,
            "This service is not known by the name in the Host header. Add the name to "
            "penstock.rest.allowed-hosts if it is yours.",
        )
    trusted = has_token(headers, settings)
    place = settings.token_place or "that penstock.rest.token-file names"
    if "authorization" in headers and not trusted:
        return Refusal(
            401, f"The token is not the one of this service; that is in the file {place}."
        )
    needs_token = (
        settings.require_token
        or settings.is_open_to_network
        or any(mark in headers for mark in _PROXIED)
    )
    if needs_token and not trusted and not (is_page or path in HEALTH):
        return Refusal(
            401,
            f"Every request needs the token of this service. It is in the file {place}; commands "
            "of the user who started it find it there. In a browser, add #token=<token> to the "
            "address of the page; elsewhere, send the header Authorization: Bearer <token>.",
        )
    if method in READING:
        return None
    return _refusal_of_change(method, path, headers, settings, trusted=trusted)


def _refusal_of_change(
    method: str, path: str, headers: Mapping[str, str], settings: RestSettings, *, trusted: bool
) -> Refusal | None:
    if not _is_from_here(headers):
        return Refusal(403, "Requests from other sites' pages are refused.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    submits = is_submission(method, path)
    allowed = SUBMISSION_TYPES if submits else SUBMISSION_TYPES[:1]
    if kind not in allowed:
        return Refusal(415, f"Send the body as {' or '.join(allowed)}.")
    if trusted:
        return None
    if submits and not settings.submit_enabled:
        return Refusal(
            403,
            "A job is accepted with the job manager's token only, which its own user's "
            "`penstock run` finds by itself; or set web.submit.enable: true.",
        )
    if "x-requested-with" in headers or (is_flink_client(headers) and not submits):
        return None
    return Refusal(403, "Send the job manager's token, or the header X-Requested-With.")


def _is_host_allowed(host: str, settings: RestSettings) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and match["name"].strip("[]").lower() in settings.allowed_hosts


def _is_from_here(headers: Mapping[str, str]) -> bool:
    if headers.get("sec-fetch-site", "none") not in _FETCHED_HERE:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def check_place(place: str | None, roots: Iterable[str]) -> None:
    """Checks a place that a client named.

    Raises:
        HTTPException: It cannot be a directory, or does not lie below any of the roots.
    """
    if place is None:
        return
    if "\0" in place or any(ord(character) < 32 for character in place):
        raise HTTPException(400, "The place of a savepoint holds characters that no path has.")
    roots = list(roots)
    if roots and not any(_is_below(place, root) for root in roots):
        raise HTTPException(
            403,
            "Savepoints lie below the directories of penstock.rest.savepoint-roots only; name one "
            "of those, or none for the job's own.",
        )


def _is_below(place: str, root: str) -> bool:
    place_scheme, place_path = _parts(place)
    root_scheme, root_path = _parts(root)
    if place_scheme != root_scheme:
        return False
    return place_path == root_path or place_path.startswith(root_path.rstrip("/") + "/")


def _parts(place: str) -> tuple[str, str]:
    """Returns scheme and host, and the path without links and `..`."""
    if "://" not in place:
        return "file://", os.path.realpath(place)
    parts = urlsplit(place)
    if parts.scheme == "file":
        return "file://", os.path.realpath(unquote(parts.path) or "/")
    # Unquoted twice: storage clients may unquote it once more.
    path = unquote(unquote(parts.path))
    return f"{parts.scheme}://{parts.netloc}", os.path.normpath(path or "/")


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
