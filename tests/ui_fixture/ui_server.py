"""A small server with the routes of the service and made-up documents, for the web pages alone.

Run as a program it serves one look until it is stopped:

    python tests/ui_fixture/ui_server.py normal 8090
"""

from __future__ import annotations

import email.utils
import hmac
import json
import mimetypes
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ui_scenarios import LOOKS, Look

STATIC = Path(__file__).resolve().parents[2] / "src" / "penstock" / "rest" / "static"
POLICY = "default-src 'self'"
mimetypes.add_type("text/javascript", ".js")


class UiServer:
    """Serves a look; remembers what it was asked to change."""

    def __init__(self, look: Look, port: int = 0) -> None:
        self.look = look
        self.asked: list[tuple[str, str, dict[str, Any], dict[str, str]]] = []
        self.refusal: tuple[int, str] | None = None
        """What changing requests are answered with, if not with success."""
        self.token: str | None = None
        """What documents are only shown with, if anything."""
        self.proves_with: str | None = None
        """Another token, of a program that has taken the port."""
        self.challenges = 0
        """How often it was asked for a proof."""
        self.tokens: list[str] = []
        """What was sent as a token."""
        self.leader: str | None = None
        """Who leads instead of this service, and does not answer; if anybody."""
        self.fetched: list[str] = []
        self._changes: list[str] = []
        self._changed = threading.Condition()
        self.is_open = True
        self._port = port
        self._start()

    def _start(self) -> None:
        server = self

        class Handler(_Handler):
            ui = server

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._http.daemon_threads = True
        self._port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def tell(self, document: str) -> None:
        """Tells all who listen that a document has changed."""
        with self._changed:
            self._changes.append(document)
            self._changed.notify_all()

    def changes(self, seen: int) -> list[str] | None:
        """Waits for changes after the first `seen`; None when the service goes away."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._changes) > seen or not self.is_open)
            return self._changes[seen:] if self.is_open else None

    def stop(self) -> None:
        with self._changed:
            self.is_open = False
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def start_again(self) -> None:
        """Comes back on the same port."""
        self.is_open = True
        self._start()


def _part(document: dict[str, Any], newest: int, older_than: str | None) -> dict[str, Any]:
    """Returns a part of the history, as the service does."""
    history = document["history"]
    numbers = [line["id"] for line in history]
    first = 0 if older_than is None else sum(number >= int(older_than) for number in numbers)
    shown = history[first : first + newest]
    return document | {"history": shown, "history_total": len(history), "history_first": first}


class _Handler(BaseHTTPRequestHandler):
    ui: UiServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Keeps quiet."""

    def parse_request(self) -> bool:
        if not self.ui.is_open:
            # A process that is gone answers nothing on connections that it had, either.
            self.close_connection = True
            return False
        return super().parse_request()

    def date_time_string(self, timestamp: float | None = None) -> str:
        moment = self.ui.look.now_ms / 1_000 if timestamp is None else timestamp
        return email.utils.formatdate(moment, usegmt=True)

    def do_GET(self) -> None:
        path = self.path.split("?")[0].strip("/")
        look = self.ui.look
        token = self.ui.token
        if self.headers["Authorization"]:
            self.ui.tokens.append(self.headers["Authorization"])
        if path == "health/live":
            self._live()
        elif path in look.documents and self.ui.leader is not None:
            self._json(503, {"errors": ["The leader does not answer."]})
        elif (
            path in look.documents and token and f"Bearer {token}" != self.headers["Authorization"]
        ):
            self._json(401, {"errors": ["Send the job manager's token."]})
        elif path in look.documents:
            self.ui.fetched.append(path)
            found = look.documents[path]
            query = dict(parse_qsl(urlsplit(self.path).query))
            if callable(found):
                found = found(query)
            if "newest" in query:
                found = _part(found, int(query["newest"]), query.get("older_than"))
            self._json(*found) if isinstance(found, tuple) else self._json(200, found)
        elif path in look.texts:
            self._send(200, "text/plain; charset=utf-8", look.texts[path].encode())
        elif path.endswith("/events") and path.removesuffix("/events") in look.documents:
            self._events()
        elif path.split("/")[0] in ("jobs", "jobmanager"):
            self._json(404, {"errors": [f"Not found: {path}"]})
        else:
            self._file(path or "index.html")

    def _live(self) -> None:
        """Answers as the service does: with a proof that it holds the token."""
        self.ui.challenges += 1
        message = f"penstock job manager at port {self.ui.port}: "
        message += self.headers["X-Penstock-Challenge"]
        key = (self.ui.proves_with or self.ui.token or "none").encode()
        self.send_response(200)
        self.send_header("X-Penstock-Proof", hmac.digest(key, message.encode(), "sha256").hex())
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        seen = 0
        try:
            self.wfile.write(b"retry: 3000\n\n")
            while (names := self.ui.changes(seen)) is not None:
                seen += len(names)
                for name in names:
                    self.wfile.write(f"event: changed\ndata: {name}\n\n".encode())
        except OSError:
            return  # The page was closed.

    def do_POST(self) -> None:
        self._change()

    def do_PATCH(self) -> None:
        self._change()

    def _change(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length) or b"{}")
        self.ui.asked.append((self.command, self.path, body, dict(self.headers)))
        if self.ui.refusal is not None:
            status, text = self.ui.refusal
            self._json(status, {"errors": [text]})
            return
        trigger = body.get("triggerId", "0" * 32)
        base, _, last = self.path.split("?")[0].strip("/").rpartition("/")
        location = f"{body.get('target-directory') or 's3://streams/savepoints'}/savepoint-ab12cd-1"
        done: dict[str, Any] = {"location": location}
        kind = "savepoints"
        if last in ("checkpoints", "rescaling"):
            kind, done = last, {"checkpointId": 126}
        self.ui.look.documents[f"{base}/{kind}/{trigger}"] = {
            "status": {"id": "COMPLETED"},
            "operation": done,
        }
        self._json(202, {"request-id": trigger} if self.command == "POST" else {})

    def _file(self, name: str) -> None:
        path = (STATIC / name).resolve()
        if not path.is_file() or STATIC not in path.parents:
            self._json(404, {"errors": [f"Not found: {name}"]})
            return
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._send(200, kind, path.read_bytes())

    def _json(self, status: int, document: Any) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == 503 and self.ui.leader is not None:
            self.send_header("X-Penstock-Leader", self.ui.leader)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    shown = UiServer(LOOKS[sys.argv[1]](int(time.time() * 1_000)), int(sys.argv[2]))
    print(shown.url, flush=True)
    threading.Event().wait()
