"""Clients that open many connections and take, or send, next to nothing; others are served."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
import zipfile
from typing import TYPE_CHECKING

from filled_dispatcher import filled
from served import TOKEN, served
from stored_jobs_dispatcher import JOB_ID

from penstock.rest import access, routes_submission, server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

LARGE = 4 * 1024 * 1024
HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"


@contextlib.contextmanager
def connections(port: int, number: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            # A small buffer: what is not taken stays at the server.
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(200)
            client.connect(("127.0.0.1", port))
            client.sendall(said)
            opened.append(client)
        yield opened


def all_of(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            found += part
    return found


def wait_for(found: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 200
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_readers_who_take_nothing_are_cut_off_and_hold_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "READER_TIMEOUT_S", 1.0)
    dispatcher = filled()
    dispatcher.log = b"a line of a log\n" * (LARGE // 16)
    ask = f"GET /v1/jobs/{JOB_ID}/log?bytes={LARGE} HTTP/1.1\r\n{HEAD}\r\n".encode()
    with served(dispatcher) as service, connections(service.port, 12, ask) as slow:
        # More of them than the service has threads would wait for ever in a server of threads.
        assert service.get("/jobs").status == 200
        wait_for(lambda: service.server.connections == 0, "the slow readers were not cut off")
        assert all(len(all_of(client)) < LARGE for client in slow)
        whole = service.get(f"/jobs/{JOB_ID}/log?bytes={LARGE}")
        assert len(whole.body) == LARGE // 16 * 16


def test_a_reader_who_is_slow_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READER_TIMEOUT_S", 5.0)
    dispatcher = filled()
    size = 2 * 1024 * 1024
    dispatcher.log = b"x" * size
    ask = (
        f"GET /jobs/{JOB_ID}/log?bytes={size} HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n".encode()
    )
    with served(dispatcher) as service, connections(service.port, 1, ask) as (slow,):
        found = b""
        while part := slow.recv(1 << 15):
            found += part
            threading.Event().wait(0.005)
    assert found.partition(b"\r\n\r\n")[2].count(b"x") == size


def test_silent_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the service has places for; it closes the oldest."""
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 300.0)
    said = b"GET /jobs HTTP/1.1\r\nHo"
    with (
        served(filled()) as service,
        connections(service.port, 2 * server.MOST_SILENT, said) as idle,
    ):
        assert all_of(idle[0]) == b""
        assert service.get("/jobs").status == 200
        assert service.server.connections <= server.MOST_SILENT + 1
        # The newest may still go on.
        idle[-1].sendall(f"st: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert idle[-1].recv(15) == b"HTTP/1.1 200 OK"


def submission() -> tuple[bytes, bytes]:
    """Returns head and body of one."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("app.py", "")
    parts = (
        ("submission", json.dumps({"program": "app.py"}).encode()),
        ("package", package.getvalue()),
    )
    body = b"".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in parts
    )
    body += b"--x--\r\n"
    head = (
        f"POST /jobs HTTP/1.1\r\n{HEAD}Content-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode(), body


def test_of_submissions_a_few_are_under_way_at_once() -> None:
    dispatcher = filled()
    head, body = submission()
    started = head + body[:10]
    most = routes_submission.MOST_AT_ONCE
    with served(dispatcher) as service, connections(service.port, most, started) as slow:

        def answer() -> bytes:
            with connections(service.port, 1, head + body) as (one,):
                return all_of(one)

        spool = service.server.app.state.spool
        wait_for(lambda: spool.count == most, "they do not arrive")
        refused = answer()
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert f"{most} submissions".encode() in refused
        assert b"retry-after: 5" in refused
        assert service.get("/jobs").status == 200
        assert dispatcher.submitted == []
        # One that goes away makes room.
        slow[0].close()
        wait_for(lambda: spool.count == most - 1, "its place is not free")
        assert answer().startswith(b"HTTP/1.1 202 ")
        slow[1].sendall(body[10:])
        assert all_of(slow[1]).startswith(b"HTTP/1.1 202 ")
        assert len(dispatcher.submitted) == 2


def test_a_submission_that_takes_too_long_or_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PACKAGE_TIMEOUT_S", 1.0)
    head, body = submission()
    dispatcher = filled()
    with served(dispatcher) as service, connections(service.port, 1, head) as (slow,):
        slow.sendall(body[:20])
        assert all_of(slow).startswith(b"HTTP/1.1 408 ")
    with served(dispatcher, max_package_bytes=len(body) - 1) as service:
        with connections(service.port, 1, head) as (large,):
            answer = all_of(large)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert f"larger than {len(body) - 1:,} bytes".encode() in answer
    assert dispatcher.submitted == []


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        routes_submission.tempfile,
        "TemporaryFile",
        lambda **_: open("/dev/full", "w+b", buffering=0),  # noqa: SIM115
    )
    head, body = submission()
    said = head + body
    with served(filled()) as service, connections(service.port, 1, said) as (client,):
        answer = all_of(client)
    assert answer.startswith(b"HTTP/1.1 507 ")
    assert b"No space left on device" in answer


def test_streams_that_nobody_reads_leave_the_service_its_threads() -> None:
    dispatcher = filled()
    ask = f"GET /jobs/{JOB_ID}/events HTTP/1.1\r\n{HEAD}\r\n".encode()
    with served(dispatcher) as service, connections(service.port, 60, ask) as streams:
        assert {each.recv(12) for each in streams} == {b"HTTP/1.1 200"}
        before = threading.active_count()
        assert service.get("/jobs").status == 200
        assert service.get("/jobs/overview").status == 200
        assert threading.active_count() <= before + 2
