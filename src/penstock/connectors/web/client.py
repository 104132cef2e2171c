"""A small HTTP client: several hosts, one connection, and requests that are tried again."""

from __future__ import annotations

import base64
import http.client
import logging
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.redaction import one_line, without_secrets
from penstock.core.times import BackOff, Tries

HEALING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another try may not meet again."""
_LONGEST_S: Final = 60.0
_log = logging.getLogger("penstock.http")
_SHOWN: Final = 300
_UNFIT: Final = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_SAFE: Final = "/?&=%:@!$'()*+,;~[]"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where servers are, and how they are asked.

    Attributes:
        hosts: Addresses: `host:port`, or with a scheme and a path.
        ca_file: Certificates to trust, instead of the system's.
        timeouts_s: For a connection, and for an answer.
    """

    hosts: tuple[str, ...]
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    path_prefix: str = ""
    ca_file: str | None = None
    timeouts_s: tuple[float, float] = (10.0, 60.0)
    backoff: BackOff = field(default_factory=BackOff)
    headers: tuple[tuple[str, str], ...] = ()

    def shown(self) -> str:
        """Returns the addresses without what is secret in them."""
        return without_secrets(", ".join(self.hosts))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server said."""

    status: int
    body: bytes

    def text(self) -> str:
        """Returns the beginning of the body, for an error."""
        text = one_line(self.body.decode(errors="replace"))
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def checked_hosts(hosts: Sequence[str], who: str, *, default_port: int | None = None) -> None:
    """Refuses addresses that are none."""
    if not hosts:
        raise ProgramError(f"{who} needs the address of a host.")
    for host in hosts:
        _Host(host, default_port)


class _Host:
    """One address, taken apart."""

    def __init__(self, address: str, default_port: int | None = None) -> None:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        shown = without_secrets(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ProgramError(f"the address {shown!r} is none: write http(s)://host:port.")
        try:
            port = parts.port
        except ValueError:
            raise ProgramError(f"the address {shown!r} has a port that is none.") from None
        self.is_secure = parts.scheme == "https"
        self.name = parts.hostname
        self.port = port or default_port or (443 if self.is_secure else 80)
        self.path = parts.path.rstrip("/")
        self.query = f"?{parts.query}" if parts.query else ""
        self.user = None if parts.username is None else unquote(parts.username)
        self.password = unquote(parts.password or "")


def _reason(error: Exception) -> str:
    """Returns what went wrong, and what it most often means."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, ssl.SSLError):
        return f"{text}. If it does not speak TLS, write http:// instead of https://."
    return f"{text}. Is the address right, and the server running?"


class HttpClient:
    """Sends requests, each to the first of several hosts that answers.

    Args:
        settings: Where, and how.
        default_port: Port of a host that names none.
    """

    def __init__(self, settings: HttpSettings, default_port: int | None = None) -> None:
        self._settings = settings
        self._hosts = [_Host(each, default_port) for each in settings.hosts]
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Returns the answer to a request, after as many tries as the settings allow.

        Raises:
            InputError: The server refuses the request; it would do so again.
            JobExecutionError: No server answers, or all of them say that they cannot now.
        """
        tries = Tries(self._settings.backoff, _log)
        while True:
            is_used = self._connection is not None
            try:
                answer, asked_s = self._once(method, path, body, headers or {})
            except ssl.SSLCertVerificationError as error:
                raise InputError(
                    f"{self._settings.shown()} has a certificate that is not trusted: "
                    f"{error.verify_message}. Name the file of its authority."
                ) from error
            except (OSError, http.client.HTTPException) as error:
                if is_used and not isinstance(error, TimeoutError):
                    # Servers end connections that were not used for a while.
                    self.close()
                    continue
                self._next_host()
                shown, reason = self._settings.shown(), _reason(error)
                request = f"{method} {path}".rstrip()
                tries.failed(
                    JobExecutionError(f"{shown} does not answer {request}: {reason}"),
                    f"{shown} does not answer, trying again: {reason}",
                )
            else:
                if answer.status < 300:
                    return answer
                refusal = self._refused(method, path, answer)
                if answer.status not in HEALING:
                    raise refusal
                if answer.status in (502, 503, 504):
                    self._next_host()
                tries.failed(refusal, at_least_s=asked_s)

    def _once(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HttpAnswer, float]:
        settings, host = self._settings, self._hosts[self._at]
        if self._connection is None:
            self._connection = self._connected(host)
        sent = {**dict(settings.headers), **headers}
        user = host.user if settings.user_name is None else settings.user_name
        if user is not None:
            password = host.password if settings.user_name is None else settings.password or ""
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            sent["Authorization"] = f"Basic {login}"
        for name, value in sent.items():
            if _UNFIT.search(str(value)):  # The value may be secret.
                raise ProgramError(
                    f"the header {name!r} for {settings.shown()} has a value with the end of a "
                    "line in it, or with letters that are not in Latin-1."
                )
        prefix = f"/{settings.path_prefix.strip('/')}" if settings.path_prefix else ""
        target = quote(f"{host.path}{prefix}{path}{host.query}", _SAFE) or "/"
        self._connection.request(method, target, body or None, sent)
        response = self._connection.getresponse()
        content = response.read()
        try:
            asked_s = min(float(response.headers.get("Retry-After") or 0), _LONGEST_S)
        except ValueError:  # It may also be a date.
            asked_s = 0.0
        return HttpAnswer(response.status, content), asked_s

    def _connected(self, host: _Host) -> http.client.HTTPConnection:
        connect_s, answer_s = self._settings.timeouts_s
        connection: http.client.HTTPConnection
        if host.is_secure:
            trusted = ssl.create_default_context(cafile=self._settings.ca_file)
            connection = http.client.HTTPSConnection(
                host.name, host.port, timeout=connect_s, context=trusted
            )
        else:
            connection = http.client.HTTPConnection(host.name, host.port, timeout=connect_s)
        connection.connect()
        connection.sock.settimeout(answer_s)
        return connection

    def _next_host(self) -> None:
        self.close()
        self._at = (self._at + 1) % len(self._hosts)

    def _refused(self, method: str, path: str, answer: HttpAnswer) -> JobExecutionError:
        text = f"{self._settings.shown()} answered {method} {path} with {answer.status}"
        if answer.status in (401, 403):
            user = self._settings.user_name
            who = "without a user" if user is None else f"asked by the user {user!r}"
            text += f", {who}; check name, password and rights"
        kind = JobExecutionError if answer.status in HEALING else InputError
        return kind(f"{text}: {answer.text()}")

    def close(self) -> None:
        """Ends the connection; the next request makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
