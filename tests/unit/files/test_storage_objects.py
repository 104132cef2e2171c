"""S3 through a network that misbehaves: lost replies, 409, 412, 500, 503.

A real S3 server (moto) behind a proxy that answers as told. The client is the real one.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import threading
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.versioned import Committed, Rejected, Unknown
from penstock.files.contract import Content
from penstock.files.errors import ContentError, ObjectExistsError, StorageError, UnknownOutcomeError
from penstock.files.objects import ObjectStorage, open_objects
from penstock.files.records import open_record
from penstock.files.urls import Storages

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Network:
    """What happens to the next requests with a method, and what has happened."""

    target: str
    plan: dict[str, list[str]] = field(default_factory=dict)
    seen: list[tuple[str, str, int]] = field(default_factory=list)

    def next(self, method: str) -> str:
        script = self.plan.get(method, [])
        return script.pop(0) if script else ""


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on, loses replies, or answers by itself."""

    network: Network
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        word = self.network.next(self.command)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if word.isdigit():
            self.answer(int(word), {}, b"<Error><Code>Told</Code></Error>")
            return
        # Not urllib: it would add a content type, and the server take the body for a form.
        connection = http.client.HTTPConnection(self.network.target.removeprefix("http://"))
        connection.request(self.command, self.path, body, dict(self.headers))
        reply = connection.getresponse()
        status, found, content = reply.status, dict(reply.headers), reply.read()
        connection.close()
        if word == "reply lost":
            status, found, content = 500, {}, b"<Error><Code>InternalError</Code></Error>"
        self.answer(status, found, content)

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.network.seen.append((self.command, self.path, status))
        self.send_response(status)
        length = headers.get("Content-Length", str(len(content)))
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = Network(f"http://{host}:{port}")
    handler = type("Handler", (Proxy,), {"network": found})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    proxy.daemon_threads = True
    # A client that gives an upload up closes its connection; that is no news.
    proxy.handle_error = lambda request, address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    request = urllib.request.Request(f"{found.target}/bucket", method="PUT")
    with urllib.request.urlopen(request):
        pass
    found.endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"  # type: ignore[attr-defined]
    yield found
    proxy.shutdown()
    proxy.server_close()
    server.stop()


@pytest.fixture
def storage(network: Network, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    network.plan.clear()
    network.seen.clear()
    # As a user would: the usual environment.
    monkeypatch.setenv("AWS_ENDPOINT_URL", network.endpoint)  # type: ignore[attr-defined]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return open_objects("s3://bucket", {})


@pytest.fixture
def key() -> str:
    return os.urandom(8).hex()


def statuses(network: Network, method: str) -> list[int]:
    return [status for found, _, status in network.seen if found == method]


@pytest.mark.parametrize("trouble", ["503", "500", "reply lost"])
def test_the_client_repeats_and_recognises_its_own(
    storage: ObjectStorage, network: Network, key: str, trouble: str
) -> None:
    network.plan["PUT"] = [trouble]
    storage.put_if_absent(key, Content.of_bytes(b"mine"))
    assert storage.read(key) == b"mine"
    last = 412 if trouble == "reply lost" else 200
    assert statuses(network, "PUT") == [int(trouble) if trouble.isdigit() else 500, last]


def test_an_object_of_somebody_else_with_the_same_bytes_is_not_ours(
    storage: ObjectStorage, key: str
) -> None:
    other = open_objects("s3://bucket", {})
    other.put_if_absent(key, Content.of_bytes(b"mine"))
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent(key, Content.of_bytes(b"mine"))
    with pytest.raises(ObjectExistsError):
        other.put_if_absent(key, Content.of_bytes(b"mine"))


def test_a_conflict_is_tried_again(storage: ObjectStorage, network: Network, key: str) -> None:
    network.plan["PUT"] = ["409", "409"]
    storage.put_if_absent(key, Content.of_bytes(b"mine"))
    assert storage.read(key) == b"mine"


def test_conflicts_without_end_are_unknown(
    storage: ObjectStorage, network: Network, key: str
) -> None:
    network.plan["PUT"] = ["409"] * 50
    with pytest.raises(UnknownOutcomeError):
        storage.put_if_absent(key, Content.of_bytes(b"mine"))


def test_access_denied_is_final_and_says_where_to_look(
    storage: ObjectStorage, network: Network, key: str
) -> None:
    network.plan["PUT"] = ["403"]
    with pytest.raises(StorageError, match="Check credentials") as caught:
        storage.put_if_absent(key, Content.of_bytes(b"mine"))
    assert not caught.value.retryable
    assert "secret" not in str(caught.value).replace("AWS_SECRET_ACCESS_KEY", "")
    assert f"s3://bucket/{key}" in str(caught.value)


def test_a_server_that_fails_leaves_the_outcome_unknown(
    storage: ObjectStorage, network: Network, key: str
) -> None:
    network.plan["PUT"] = ["500"] * 50
    with pytest.raises(UnknownOutcomeError, match=f"s3://bucket/{key}"):
        storage.put_if_absent(key, Content.of_bytes(b"mine"))
    network.plan.clear()
    assert storage.size(key) is None


def test_large_objects_are_written_in_parts(
    storage: ObjectStorage, network: Network, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files.objects._WHOLE_BYTES", 1_000_000)
    data = os.urandom(12_000_000)
    pieces = [data[i : i + 1_000_000] for i in range(0, len(data), 1_000_000)]
    digest = hashlib.sha256(data).hexdigest()
    storage.put_if_absent(key, Content(len(data), digest, lambda: iter(pieces)))
    storage.check(key, len(data), digest)
    assert statuses(network, "POST")
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent(key, Content(len(data), digest, lambda: iter(pieces)))
    wrong = Content(len(data), "0" * 64, lambda: iter(pieces))
    with pytest.raises(ContentError):
        storage.put_if_absent(f"{key}-wrong", wrong)
    assert storage.size(f"{key}-wrong") is None


@pytest.mark.parametrize("trouble", ["reply lost", "503"])
def test_a_record_changes_once(
    storage: ObjectStorage, network: Network, key: str, trouble: str
) -> None:
    record = open_record(storage, key)
    first = record.compare_and_set(None, b"1", leader_epoch=1, write_id="w1")
    assert isinstance(first, Committed)
    network.plan["PUT"] = [trouble]
    second = record.compare_and_set(first.current, b"2", leader_epoch=1, write_id="w2")
    assert isinstance(second, Committed)
    assert second.current.version == 2
    late = record.compare_and_set(first.current, b"3", leader_epoch=1, write_id="w3")
    assert late == Rejected(second.current, fenced=False)


def test_a_record_on_a_failing_server_is_settled_later(
    storage: ObjectStorage, network: Network, key: str
) -> None:
    record = open_record(storage, key)
    first = record.compare_and_set(None, b"1", leader_epoch=1, write_id="w1")
    assert isinstance(first, Committed)
    network.plan["PUT"] = ["reply lost", *["500"] * 50]
    unknown = record.compare_and_set(first.current, b"2", leader_epoch=1, write_id="w2")
    assert isinstance(unknown, Unknown)
    network.plan.clear()
    settled = record.settle(unknown)
    assert isinstance(settled, Committed)
    assert settled.current.value == b"2"
    assert settled.current.version == 2


def test_a_bucket_that_does_not_exist(storage: ObjectStorage) -> None:
    nowhere = open_objects("s3://nowhere", {})
    with pytest.raises(StorageError, match="s3://nowhere/a"):
        nowhere.put_if_absent("a", Content.of_bytes(b"x"))


def test_one_client_for_a_bucket(storage: ObjectStorage) -> None:
    storages = Storages()
    one, other = storages.at("s3://bucket/a/chk-1"), storages.at("s3a://bucket/a/chk-2/")
    assert one.inner.inner is other.inner.inner  # type: ignore[attr-defined]
    assert other.url == "s3://bucket/a/chk-2"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'obstore<1,>="):
        Storages().at("s3://bucket/a")
