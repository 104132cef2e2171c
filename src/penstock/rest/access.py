"""Who may do what: one pure decision about a request's method, path and headers.

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

import hmac
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from penstock.rest.settings import RestSettings


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
