"""Talks to a job manager over REST, with the standard library alone.

1. A request goes to the configured address, or to the leader that the coordination store names; a
   standby's answer names the leader, who is asked next.
2. Once a manager has answered, one that is away for a moment is asked again: reads, and operations
   whose trigger id we chose, are the same when they are asked twice. A submission is not.
3. A long operation is triggered with an id of ours and polled until it has ended.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from penstock.cli.report import NoManagerError, RequestFailedError
from penstock.core.times import jittered
from penstock.rest.trust import TLS_ADVICE as TLS_IN_CLEAR, has_proved, is_loopback

LEADER_HEADER: Final = "X-Penstock-Leader"
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_TIMEOUT_SECONDS: Final = 30.0
_MAX_HOPS: Final = 3
_UNAVAILABLE: Final = 503
_NOT_FOUND: Final = 404
_INTERNAL_ERROR: Final = 500

START_ADVICE: Final = "Start one with `penstock jobmanager`, or name its address with -m host:port."

TLS_ADVICE: Final = (
    "If it speaks TLS, set security.ssl.rest.enabled, or write -m https://host:port."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and JSON of an answer."""

    status: int
    headers: Mapping[str, str]
    document: Any


class _Unreachable(Exception):
    """No answer came.

    Attributes:
        was_reached: Something listens there.
        was_sent: The request may have arrived.
    """

    def __init__(self, cause: BaseException, *, was_reached: bool, was_sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause
        self.was_reached = was_reached
        self.was_sent = was_sent


@dataclass(slots=True)
class RestClient:
    """One user's conversation with the job manager."""

    url: str  # Where the manager is, as `http://host:port`.
    # Returns the token for a host and port, or None.
    token_of: Callable[[str, int], str | None] = lambda _host, _port: None
    # How long a manager that had answered, or a leader, is waited for.
    patience_seconds: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic  # Monotonic seconds.
    # Looks the leader up again; None without high availability.
    find_leader: Callable[[], str | None] | None = None
    token_in_clear: bool = False  # Whether the token may travel without TLS.
    # Returns whom to trust, where the manager speaks TLS.
    trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context
    _has_answered: bool = field(default=False, init=False)

    def page(self, path: str) -> str:
        """Returns the address of a page; on a terminal, which is no log, it has the token."""
        parts = urlsplit(self.url)
        token = self.token_of(parts.hostname or "localhost", parts.port or 8081)
        shown = f"token={token}" if token and sys.stdout.isatty() and sys.stderr.isatty() else ""
        return f"{self.url}/#{shown}{path}"

    def get(self, path: str) -> Any:
        """Returns the JSON document at a path."""
        return self._checked(self._request("GET", path, None), path)

    def find(self, path: str) -> Any:
        """Returns the JSON document at a path, or None when there is none."""
        answer = self._request("GET", path, None)
        return None if answer.status == _NOT_FOUND else self._checked(answer, path)

    def patch(self, path: str) -> Any:
        """Changes what is at a path."""
        return self._checked(self._request("PATCH", path, b"{}"), path)

    def submit(self, path: str, content: bytes, content_type: str) -> Any:
        """Posts what must not arrive twice; a lost answer is an error."""
        headers = {"Content-Type": content_type}
        return self._checked(self._request("POST", path, content, headers, is_same=False), path)

    def trigger(self, path: str, document: Mapping[str, Any], method: str = "POST") -> str:
        """Starts an operation; returns its trigger id."""
        body = json.dumps({"triggerId": secrets.token_hex(16)} | dict(document)).encode()
        answer = self._checked(self._request(method, path, body), path)
        return str(answer["request-id"])

    def wait(self, path: str) -> dict[str, Any]:
        """Polls a triggered operation until it has ended; returns what it has led to.

        Raises:
            RequestFailedError: It failed.
        """
        pause = 0.05
        while True:
            document = self.get(path)
            if document.get("status", {}).get("id") != "IN_PROGRESS":
                break
            self.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        operation: dict[str, Any] = document.get("operation") or {}
        cause = operation.get("failure-cause")
        if cause:
            raise RequestFailedError(_cause_text(cause))
        return operation

    # -- one request ---------------------------------------------------------------------------

    def _checked(self, answer: Answer, path: str) -> Any:
        if answer.status < 400:
            return answer.document
        errors = []
        if isinstance(answer.document, dict):
            errors = [str(error) for error in answer.document.get("errors") or []]
        text = "\n".join(_first_cause(error) for error in errors)
        if answer.status in (401, 403):
            raise RequestFailedError(
                f"{text or 'The job manager refused.'}\nThe manager's token lets its own user in: "
                "run this command as that user on that machine, or set penstock.rest.token-file.",
                answer.status,
            )
        raise RequestFailedError(
            text or f"{self.url}{path} answered with status {answer.status}.", answer.status
        )

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None = None,
        *,
        is_same: bool = True,
    ) -> Answer:
        """Asks, follows to the leader, and asks again while a job manager may still answer."""
        deadline = self.now() + self.patience_seconds
        pause, hops = 0.1, 0
        while True:
            try:
                answer = self._once(method, path, body, headers or {})
            except _Unreachable as error:
                _check_tls(self.url, error.cause)
                if error.was_sent and not is_same:
                    raise RequestFailedError(
                        f"{self.url} went away before it answered ({error}). The job may have "
                        "been taken: see `penstock list` before you submit it again."
                    ) from None
                is_awaited = self._has_answered or self.find_leader is not None
                if not is_awaited or self.now() >= deadline:
                    advice = TLS_ADVICE if error.was_reached else START_ADVICE
                    raise NoManagerError(
                        f"No job manager answers at {self.url} ({error}). {advice}"
                    ) from None
            else:
                self._has_answered = True
                leader = answer.headers.get(LEADER_HEADER.lower())
                if answer.status != _UNAVAILABLE:
                    return answer
                if leader and _base(leader) != self.url and hops < _MAX_HOPS:
                    self.url, hops = _base(leader), hops + 1
                    continue
                if self.now() >= deadline:
                    raise NoManagerError(
                        f"{self.url} does not lead, and no job manager does after "
                        f"{self.patience_seconds:.0f} s. Look at the job managers' logs, and at "
                        "the store of high-availability.type."
                    )
            self.sleep(jittered(pause))
            pause = min(pause * 2, 1.0)
            if self.find_leader is not None:
                self.url = self.find_leader() or self.url

    def _once(self, method: str, path: str, body: bytes | None, more: Mapping[str, str]) -> Answer:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "localhost", parts.port or 8081
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_SECONDS, context=self.trusted()
            )
        headers = {"Accept": "application/json", "X-Requested-With": "penstock"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers |= dict(more)
        token = self.token_of(host, port)
        was_reached = was_sent = False
        try:
            connection.connect()
            was_reached = True
            if token is not None:
                self._check_holder(connection, token, parts)
                headers["Authorization"] = f"Bearer {token}"
            was_sent = True
            connection.request(method, f"{parts.path}/v1{path}", body, headers)
            response = connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, socket.gaierror) as error:
            raise _Unreachable(error, was_reached=was_reached, was_sent=was_sent) from None
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, self._json(content, response.status))

    def _check_holder(
        self, connection: http.client.HTTPConnection, token: str, parts: SplitResult
    ) -> None:
        """Checks that the token goes to a job manager that holds it, and through no open network.

        Raises:
            ConnectionResetError: It was started meanwhile, with a new token; ask again.
            NoManagerError: It does not; nothing was sent.
        """
        if parts.scheme == "https" or self.token_in_clear:
            return
        if not is_loopback(connection.host):
            raise NoManagerError(
                f"The token is not sent to {self.url}, which is reached without TLS. {TLS_IN_CLEAR}"
            )
        if not has_proved(connection, token, parts.path):
            if self.token_of(connection.host, connection.port) != token:
                raise ConnectionResetError("it has just been started again")
            raise NoManagerError(
                f"What listens at {self.url} did not prove that it holds the token of this user's "
                "job manager, so nothing was sent to it. Another program or another user's job "
                "manager has the port; name the address of yours with -m host:port. If it is that "
                "of another user or a tunnel, penstock.rest.token-file names its token, and both "
                "ends of the tunnel have the same port."
            )

    def _json(self, content: bytes, status: int) -> Any:
        try:
            return json.loads(content) if content.strip() else {}
        except ValueError:
            if status >= _INTERNAL_ERROR:
                return {"errors": []}
            raise NoManagerError(
                f"{self.url} answers, but not as a job manager. Something else listens there; "
                "name the job manager's address with -m host:port."
            ) from None


def _check_tls(url: str, cause: BaseException) -> None:
    """Says what is wrong where the ends do not agree about TLS: asking again changes nothing."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise NoManagerError(
            f"{url} shows a certificate that is not trusted: {cause.verify_message.rstrip('.')}. "
            "Name the PEM file of its authority in security.ssl.rest.ca-certificate, and call the "
            "job manager by a name that the certificate has."
        ) from None
    if isinstance(cause, ssl.SSLError):
        raise NoManagerError(
            f"{url} cannot be spoken to with TLS ({cause.reason}). Does the job manager have "
            "security.ssl.rest.enabled? Without it, write -m http://host:port."
        ) from None


def _base(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return f"{parts.scheme}://{parts.netloc}"


def _cause_text(cause: Any) -> str:
    if not isinstance(cause, dict):
        return str(cause)
    text = str(cause.get("stack-trace") or cause.get("class") or "The operation failed.")
    return _first_cause(text)


def _first_cause(text: str) -> str:
    """Returns an error without the lines of a Java stack trace."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(lines).strip() or text.strip()
