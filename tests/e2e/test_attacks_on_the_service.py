"""A real job manager on a machine with other users: who gets in, and who gets to see the token."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crafted_snapshots import handle, write_snapshot
from service_kit import Manager

from penstock.cli.report import NoManagerError
from penstock.cli.rest_client import RestClient
from penstock.rest.trust import CHALLENGE_HEADER, PROOF_HEADER, find_token, proof, token_path

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

STRANGER = 65_534
JOB = "0" * 32
READING = [
    *("/", "/jobs", "/v1/jobs", "/jobs/overview", "/v1/config", "/overview", "/taskmanagers"),
    *("/jobmanager/config", "/jobmanager/environment", "/jobmanager/log", "/jobmanager/logs"),
    *(f"/jobs/{JOB}", f"/jobs/{JOB}/log", f"/jobs/{JOB}/events", "/metrics", "/openapi.json"),
    *("/v1/jobmanager/logs/jobmanager.log", f"/jobs/{JOB}/stdout", "/nothing", "//jobs"),
]
CHANGES = [
    ("POST", "/jobs"),
    ("POST", "/v1/jobs"),
    ("PATCH", f"/jobs/{JOB}?mode=cancel"),
    ("POST", f"/jobs/{JOB}/savepoints"),
    ("POST", f"/jobs/{JOB}/stop"),
    ("POST", f"/jobs/{JOB}/checkpoints"),
    ("POST", "/savepoint-disposal"),
]
WAYS: list[dict[str, str]] = [
    {},
    {"X-Requested-With": "penstock", "User-Agent": "Mozilla/5.0"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer a-token-of-some-length"},
    {"Authorization": "Basic dTpw"},
    {"X-Forwarded-For": "127.0.0.1", "X-Requested-With": "penstock"},
    {"Cookie": "token=a-token-of-some-length"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example"},
]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    found = Manager(tmp_path_factory.mktemp("attacked") / "state")
    yield found
    found.kill_all()


def port_of(manager: Manager) -> int:
    return int(manager.url.rpartition(":")[2])


def ask(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize("headers", WAYS, ids=str)
def test_without_the_token_nothing_is_shown_or_done(
    manager: Manager, headers: dict[str, str]
) -> None:
    for path in READING:
        if path == "/" and "Host" not in headers and "Authorization" not in headers:
            continue  # The page itself: it holds nothing.
        status, body = ask(port_of(manager), "GET", path, headers)
        assert status in (401, 403), path
        assert set(json.loads(body)) == {"errors"}
    for method, path in CHANGES:
        assert ask(port_of(manager), method, path, headers, b"{}")[0] in (401, 403), path


def test_the_refusal_says_where_the_token_is_and_the_file_is_closed(manager: Manager) -> None:
    status, body = ask(port_of(manager), "GET", "/jobs", {})
    token = manager.home / "penstock" / f"rest-{port_of(manager)}.token"
    assert status == 401
    assert str(token) in json.loads(body)["errors"][0]
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    assert token.read_text().strip() not in body.decode()


def test_what_is_written_to_a_log_has_no_token(manager: Manager) -> None:
    """Its standard output is a file here, as below a service manager."""
    token = manager.token
    manager.call("/jobs")
    assert token not in manager.said()
    assert token not in (manager.directory / "jobmanager.log").read_text()
    assert "#token=" not in manager.said()


AS_ANOTHER = """
import encodings.idna, http.client, os
from pathlib import Path
os.setgid({user}); os.setuid({user})
connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=100)
connection.request("GET", "/v1/jobs/overview", headers={{"X-Requested-With": "penstock"}})
print(connection.getresponse().status)
try:
    print(Path({token!r}).read_text())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_nothing(manager: Manager) -> None:
    token = manager.home / "penstock" / f"rest-{port_of(manager)}.token"
    code = AS_ANOTHER.format(user=STRANGER, port=port_of(manager), token=str(token))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    assert ran.stdout.split() == ["401", "PermissionError"]


# -- whom the token is shown to -------------------------------------------------------------------


class Impostor:
    """Takes a port, answers everything with success, and remembers what it was sent."""

    def __init__(self, port: int = 0, relays_to: int | None = None) -> None:
        impostor = self
        self.heard: list[tuple[str, dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sent = {name.lower(): value for name, value in self.headers.items()}
                impostor.heard.append((self.path, sent, body))
                self.send_response(200)
                challenge = sent.get(CHALLENGE_HEADER.lower())
                if challenge and relays_to:
                    self.send_header(PROOF_HEADER, relayed(relays_to, challenge))
                content = b'{"jobs": [], "jobid": "0"}'
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_GET

            def log_message(self, *_: Any) -> None:
                """Keeps quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def relayed(port: int, challenge: str) -> str:
    """Has a real job manager answer the challenge."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    with contextlib.closing(connection):
        connection.request("GET", "/health/live", headers={CHALLENGE_HEADER: challenge})
        answer = connection.getresponse()
        return answer.getheader(PROOF_HEADER) or ""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write_token(path: Path, token: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(token)


def sees_no_token(impostor: Impostor, token: str) -> None:
    assert impostor.heard
    for path, headers, body in impostor.heard:
        assert path == "/health/live"
        assert token not in str(headers)
        assert body == b""


def test_who_took_the_port_after_a_crash_gets_neither_token_nor_program(
    tmp_path: Path, home: Path
) -> None:
    killed = Manager(tmp_path / "state")
    try:
        port = port_of(killed)
        token = killed.token
        write_token(token_path(port), token)
        client = RestClient(f"http://localhost:{port}", find_token, patience_seconds=0)
        assert client.get("/jobs") == {"jobs": []}
    finally:
        killed.kill_all()
    impostor = Impostor(port)
    try:
        for attempt in (
            lambda: client.get("/jobs"),
            lambda: client.submit("/jobs", b"the program", "application/zip"),
            lambda: RestClient(f"http://localhost:{port}", find_token).get("/jobs"),
        ):
            with pytest.raises(NoManagerError, match="did not prove"):
                attempt()
        sees_no_token(impostor, token)
    finally:
        impostor.stop()


def test_a_proof_is_not_relayed_from_another_port(tmp_path: Path, home: Path) -> None:
    """A token file is shared by several job managers; one that died is not stood in for."""
    token = "one-token-for-all-managers"
    write_token(tmp_path / "token", token)
    file = {"penstock.rest.token-file": str(tmp_path / "token")}
    alive = Manager(tmp_path / "state", **file)
    impostor = Impostor(relays_to=port_of(alive))
    try:
        client = RestClient(f"http://localhost:{port_of(alive)}", lambda _, __: token)
        assert client.get("/jobs") == {"jobs": []}
        client = RestClient(f"http://localhost:{impostor.port}", lambda _, __: token)
        with pytest.raises(NoManagerError, match="did not prove"):
            client.get("/jobs")
        sees_no_token(impostor, token)
    finally:
        impostor.stop()
        alive.kill_all()


def test_a_connection_that_breaks_after_the_proof_is_not_made_again(home: Path) -> None:
    """Another process may listen by then; the request goes to who proved it, or nowhere."""
    token = "one-token-for-all-managers"
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            first, _ = listening.accept()
            with first:
                asked = first.recv(10_000).decode()
                header = next(each for each in asked.split("\r\n") if CHALLENGE_HEADER in each)
                answer = proof(token, port, header.partition(": ")[2])
                first.sendall(
                    f"HTTP/1.1 200 OK\r\n{PROOF_HEADER}: {answer}\r\nContent-Length: 0\r\n"
                    "Connection: close\r\n\r\n".encode()
                )
            listening.settimeout(2)
            with contextlib.suppress(TimeoutError):
                second, _ = listening.accept()
                with second:
                    heard.append(second.recv(10_000))

        thread = threading.Thread(target=serve)
        thread.start()
        client = RestClient(f"http://127.0.0.1:{port}", lambda _, __: token, patience_seconds=0)
        with pytest.raises(NoManagerError):
            client.get("/jobs")
        thread.join()
    assert heard == []


@pytest.mark.parametrize("address", ["http://flow.example:8081", "http://10.0.0.1:8081"])
def test_the_token_goes_to_no_other_host_in_clear(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    monkeypatch.setattr(http.client.HTTPConnection, "connect", lambda _: None)
    monkeypatch.setattr(http.client.HTTPConnection, "send", lambda _, data: sent.append(data))
    client = RestClient(address, lambda _, __: "one-token-for-all-managers", patience_seconds=0)
    with pytest.raises(NoManagerError, match=r"without TLS.*security\.ssl\.rest\.enabled.*ssh -L"):
        client.get("/jobs")
    assert sent == []


# -- what a request may delete --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["REST", "command line"])
def test_a_crafted_savepoint_is_disposed_of_without_its_links(
    manager: Manager, tmp_path: Path, way: str
) -> None:
    (tmp_path / "home").mkdir()
    victim = tmp_path / "home" / "thesis.txt"
    victim.write_bytes(b"the only copy")
    evil = write_snapshot(tmp_path / "evil", handle("sub/thesis.txt", b"the only copy"))
    (tmp_path / "evil" / "sub").symlink_to(victim.parent)
    if way == "REST":
        told = manager.dispose(evil)
    else:
        command = [str(Path(sys.executable).with_name("penstock")), "savepoint", "-d", evil]
        command += ["-m", manager.url.removeprefix("http://")]
        ran = subprocess.run(
            command, env=manager.environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 1
        told = ran.stderr
    assert victim.read_bytes() == b"the only copy"
    assert "symbolic link" in told
