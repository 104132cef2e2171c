"""A job manager that only speaks: REST answers in Flink's shapes from jobs held in a dict.

Small, without Penstock, and strict: what the command line must not send is an error here.
"""

from __future__ import annotations

import hmac
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

ID_RUNNING = "40dcc6d2ba90f13930abce295de8d038"
ID_OTHER = "40dcc6ffba90f13930abce295de8d038"
ID_ENDED = "582e17d2c0a1b2c3d4e5f60718293a4b"


@dataclass
class StubJob:
    """A job as its lists show it."""

    job_id: str
    name: str = "word count"
    state: str = "RUNNING"
    start_ms: int = 1_700_000_000_000

    def overview(self) -> dict[str, Any]:
        names = ("created", "scheduled", "deploying", "running", "finished", "canceling")
        names += ("canceled", "failed", "reconciling", "initializing")
        return {
            "jid": self.job_id,
            "name": self.name,
            "start-time": self.start_ms,
            "end-time": -1,
            "duration": 5,
            "state": self.state,
            "last-modification": self.start_ms,
            "tasks": {"total": 1} | {name: int(name == "running") for name in names},
            "schedulerType": "Default",
            "job-type": "STREAMING",
            "pending-operators": 0,
        }


@dataclass
class StubManager:
    """What the stub knows, what it was asked, and what it will answer.

    Attributes:
        jobs: By id.
        polls: How many polls of an operation answer IN_PROGRESS first.
        failure: Text of the failure that every operation ends with.
        answers: Fixed answers by `METHOD path`; each is used as often as it stands there.
        token: What it proves that it holds.
        requests: `METHOD path`, headers and body of everything asked.
    """

    jobs: dict[str, StubJob] = field(default_factory=dict)
    polls: int = 1
    failure: str | None = None
    answers: dict[str, list[tuple[int, dict[str, str], Any]]] = field(default_factory=dict)
    token: str | None = None
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    statuses: dict[str, list[str]] = field(default_factory=dict)
    url: str = ""

    def add(self, *jobs: StubJob) -> None:
        self.jobs |= {job.job_id: job for job in jobs}

    def asked(self, prefix: str) -> list[Any]:
        """Returns the JSON bodies of the requests that begin so."""
        return [
            json.loads(body) if body else None
            for request, _, body in self.requests
            if request.startswith(prefix)
        ]

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        fixed = self.answers.get(f"{method} {path}")
        if fixed:
            return fixed.pop(0) if len(fixed) > 1 else fixed[0]
        parts = path.strip("/").split("/")
        found = getattr(self, f"{method.lower()}_{parts[0].replace('-', '_')}", None)
        if found is None:
            return 404, {}, {"errors": [f"Not found: {path}"]}
        return found(parts, json.loads(body) if body[:1] == b"{" else body)

    def get_config(self, _parts: list[str], _body: Any) -> tuple[int, dict[str, str], Any]:
        return (
            200,
            {},
            {
                "refresh-interval": 3000,
                "timezone-name": "UTC",
                "timezone-offset": 0,
                "flink-version": "2.3.0",
                "flink-revision": "0",
                "features": {
                    "web-submit": False,
                    "web-cancel": True,
                    "web-rescale": False,
                    "web-history": False,
                },
            },
        )

    def get_jobs(self, parts: list[str], _body: Any) -> tuple[int, dict[str, str], Any]:
        if parts == ["jobs", "overview"]:
            return 200, {}, {"jobs": [job.overview() for job in self.jobs.values()]}
        job = self.jobs.get(parts[1])
        if job is None:
            return 404, {}, {"errors": [f"Job {parts[1]} not found."]}
        if len(parts) == 4 and parts[3] in self.operations:
            return self._operation(parts[3])
        left = self.statuses.get(job.job_id, [])
        if left:
            job.state = left.pop(0)
        if len(parts) == 2:
            return 200, {}, job.overview() | {"vertices": [], "now": job.start_ms + 5}
        if parts[2:] == ["status"]:
            return 200, {}, {"status": job.state}
        return 404, {}, {"errors": [f"Not found: {'/'.join(parts)}"]}

    def _operation(self, trigger: str) -> tuple[int, dict[str, str], Any]:
        operation = self.operations[trigger]
        if operation["left"] > 0:
            operation["left"] -= 1
            return 200, {}, {"status": {"id": "IN_PROGRESS"}}
        if self.failure is not None:
            return 500, {}, {"errors": [self.failure]}
        return 200, {}, {"status": {"id": "COMPLETED"}, "operation": operation["result"]}

    def post_jobs(self, parts: list[str], body: Any) -> tuple[int, dict[str, str], Any]:
        if len(parts) == 1:
            job_id = "0123456789abcdef0123456789abcdef"
            self.add(StubJob(job_id))
            return 200, {}, {"jobid": job_id}
        if parts[1] not in self.jobs:
            return 404, {}, {"errors": [f"Job {parts[1]} not found."]}
        if parts[2] == "checkpoints":
            return self._triggered(body, {"checkpointId": 7})
        folder = body.get("target-directory") or body.get("targetDirectory") or "/savepoints"
        return self._triggered(body, {"location": f"{folder}/savepoint-40dcc6-000000000001"})

    def post_savepoint_disposal(
        self, _parts: list[str], body: Any
    ) -> tuple[int, dict[str, str], Any]:
        return self._triggered({"triggerId": "d" * 32} | body, {})

    def get_savepoint_disposal(
        self, parts: list[str], _body: Any
    ) -> tuple[int, dict[str, str], Any]:
        return self._operation(parts[1])

    def _triggered(self, body: Any, result: Any) -> tuple[int, dict[str, str], Any]:
        trigger = body.get("triggerId") or f"{len(self.operations) + 1:032x}"
        self.operations.setdefault(trigger, {"left": self.polls, "result": result})
        return 202, {}, {"request-id": trigger}

    def patch_jobs(self, parts: list[str], body: Any) -> tuple[int, dict[str, str], Any]:
        if parts[1] not in self.jobs:
            return 404, {}, {"errors": [f"Job {parts[1]} not found."]}
        if parts[2:] == ["rescaling"]:
            return self._triggered(body, {"checkpointId": 7})
        self.jobs[parts[1]].state = "CANCELED"
        return 202, {}, {}


def handler_of(manager: StubManager) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/v1")
            if path == "/health/live":
                # The proof is written out here as the documentation has it.
                challenge = self.headers["X-Penstock-Challenge"]
                port = self.server.server_address[1]
                message = f"penstock job manager at port {port}: {challenge}".encode()
                key = (manager.token or "none").encode()
                self.send_response(200)
                self.send_header("X-Penstock-Proof", hmac.digest(key, message, "sha256").hex())
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            shown = f"{path}?{parts.query}" if parts.query else path
            manager.requests.append((f"{self.command} {shown}", dict(self.headers), body))
            status, headers, document = manager.answer(self.command, path, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, *_arguments: Any) -> None:
            return

    return Handler


@contextmanager
def serving(manager: StubManager) -> Iterator[StubManager]:
    """Serves on a free port of the loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(manager))
    server.daemon_threads = True
    manager.url = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield manager
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serving(StubManager()) as running:
        running.add(
            StubJob(ID_RUNNING),
            StubJob(ID_OTHER, state="CREATED"),
            StubJob(ID_ENDED, "x", "FAILED"),
        )
        print(running.url, flush=True)
        threading.Event().wait()
