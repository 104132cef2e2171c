"""Sinks for Redis and for servers of HTTP, and lines from a socket."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from http_double import Double, closed_port
from penstock.common import Configuration, Row
from penstock.connectors.sink import WriterContext
from penstock.connectors.socket_text import SocketTextSource
from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.services import HttpSink, RedisSink
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
CONTEXT = WriterContext("a" * 32, "out", 0, 1, 1, "at", 0, "")


def written(sink: Any, *epochs: list[Any]) -> None:
    sink = pickle.loads(pickle.dumps(sink)) if not hasattr(sink, "_command") else sink
    with contextlib.closing(sink):
        for records in epochs:
            writer = sink.create_writer(CONTEXT)
            with contextlib.closing(writer):
                writer.write(records, None, 0)
                assert writer.prepare_commit() == []


# -- Redis ----------------------------------------------------------------------------------------


class Redis:
    """A real server, which can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.url = f"redis://:s3c@127.0.0.1:{self.port}/2"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        options += ["--requirepass", "s3c", "--appendonly", "yes", "--appendfsync", "no"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(["redis-server", *options], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self.ask("PING").strip() != "PONG":
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, *command: str) -> str:
        client = ["redis-cli", "-p", str(self.port), "-a", "s3c", "--no-auth-warning", "-n", "2"]
        return subprocess.run([*client, *command], capture_output=True, text=True).stdout


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        subprocess.run([ROOT / "tools" / "install_redis.sh"], check=False)
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis; install it (Debian, Ubuntu: apt-get install redis-server)")
    server = Redis(tmp_path)
    server.start()
    yield server
    server.kill()


def test_commands_of_a_job(redis: Redis) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    sink = RedisSink(redis.url, lambda n: ("HSET", "squares", n, n * n) if n % 2 else None)
    env.from_collection(list(range(5000))).sink_to(sink)
    env.execute()
    found = redis.ask("HGETALL", "squares").split()
    pairs = {int(key): int(value) for key, value in zip(found[::2], found[1::2], strict=True)}
    assert pairs == {n: n * n for n in range(1, 5000, 2)}


def test_a_redis_that_restarts(redis: Redis) -> None:
    sink = RedisSink(redis.url, lambda n: ("SADD", b"seen", n, 0.5, "é\r\n"))
    with contextlib.closing(sink):
        for number in range(2):
            writer = sink.create_writer(CONTEXT)
            writer.write([number], None, 0)
            writer.prepare_commit()
            redis.kill()
            redis.start()
        assert redis.ask("SCARD", "seen").strip() == "4"


def test_commands_that_redis_refuses(redis: Redis) -> None:
    commands = {1: ("SET", "text", "x"), 2: ("HSET", "text", "a", 1), 3: ("GET", "text")}
    with pytest.raises(InputError, match=r"refuses \('HSET', 'text', 'a', 1\): WRONGTYPE"):
        written(RedisSink(redis.url, commands.__getitem__), [1, 2, 3])
    with pytest.raises(InputError, match=r"Redis at 127.* refuses AUTH: WRONGPASS") as found:
        written(RedisSink(redis.url.replace("s3c", "other"), commands.__getitem__), [1])
    assert "other" not in str(found.value)
    for command, text in ((("SET", None, 1), "the part None; parts are"), ((), "without parts")):
        with pytest.raises(ProgramError, match=text):
            written(RedisSink(redis.url, lambda _, command=command: command), [1])


def test_addresses_of_redis(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    away = RedisSink(f"redis://127.0.0.1:{closed_port()}", lambda n: ("GET", n))
    with pytest.raises(JobExecutionError, match=r"did not take 1 commands: .*refused"):
        written(away, [1])
    (said,) = [each.getMessage() for each in caplog.records]
    assert "takes nothing, trying again: " in said
    for url in ("http://x", "redis://", "redis://x/name", "redis://x:port"):
        with pytest.raises(ProgramError, match="is no address of Redis"):
            RedisSink(url, lambda n: ("GET", n))


def test_a_server_that_is_not_redis() -> None:
    """Each line of its answer would be taken for a reply."""
    server = Server()
    sending = threading.Thread(
        target=server.send, args=(b"HTTP/1.1 400 Bad Request\r\nA: b\r\nC: d\r\n\r\n",)
    )
    sending.start()
    with pytest.raises(InputError, match=r"does not answer as Redis does: b'HTTP/1.1 400"):
        written(RedisSink(f"redis://127.0.0.1:{server.port}", lambda n: ("GET", n)), [1, 2, 3])
    sending.join()
    server.listening.close()


# -- HTTP -----------------------------------------------------------------------------------------


def item(record: Any) -> str:
    return f"/{record.id}?force=yes"


def key(record: Any) -> dict[str, str]:
    return {"Idempotency-Key": str(record.id)}


def test_requests_of_records() -> None:
    with Double(default=(200, {})) as server:
        rows = [Row(id=1, of=Row(x=None)), Row(id=2, of=Row(x=5))]
        written(HttpSink(f"http://ada:s3c@{server.address}/items/", method="PUT", path=item), rows)
        written(HttpSink(f"http://{server.address}/hook?t=1", headers=key), rows)
        written(HttpSink(server.address, batch_size=2, headers={"X": "y"}), [1, 2, 3], ["é"])
        asked = [(each.method, each.path, json.loads(each.body)) for each in server.requests]
        first, second = {"id": 1, "of": {"x": None}}, {"id": 2, "of": {"x": 5}}
        assert asked == [
            ("PUT", "/items/1?force=yes", first),
            ("PUT", "/items/2?force=yes", second),
            ("POST", "/hook?t=1", first),
            ("POST", "/hook?t=1", second),
            ("POST", "/", [1, 2]),
            ("POST", "/", [3]),
            ("POST", "/", ["é"]),
        ]
        headers = [each.headers for each in server.requests]
        assert headers[0]["Authorization"] == "Basic YWRhOnMzYw=="
        assert [each["Idempotency-Key"] for each in headers[2:4]] == ["1", "2"]
        assert (headers[4]["X"], headers[4]["Content-Type"]) == ("y", "application/json")


def below(name: str) -> str:
    return f"/{name}"


def test_paths_and_headers_of_any_letters() -> None:
    with Double(default=(200, {})) as server:
        url = f"http://{server.address}/é items"
        written(HttpSink(url, method="PUT", path=below), ["à #1", "a%20b?x=1"])
        paths = [each.path for each in server.requests]
        assert paths == ["/%C3%A9%20items/%C3%A0%20%231", "/%C3%A9%20items/a%20b?x=1"]
        for value in ("s3cr3t\n", "s3cr3t\u20ac"):
            with pytest.raises(ProgramError, match=r"header 'X-Api-Key' for .*Latin-1") as found:
                written(HttpSink(url, headers={"X-Api-Key": value}), [1])
            assert "s3cr3t" not in str(found.value)


def test_requests_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with Double(default=(422, {"why": "no such item"})) as server:
        server.answers = [(503, {}), (200, {})]
        sink = HttpSink(f"http://{server.address}/hook")
        written(sink, [1])
        assert len(server.requests) == 2
        with pytest.raises(InputError, match=r"POST  ?with 422: .*no such item"):
            written(sink, [1])
        with pytest.raises(ProgramError, match="cannot be JSON: it has a object in it"):
            written(sink, [object()])
    for call, text in (
        (lambda: HttpSink("ftp://x"), "is none"),
        (lambda: HttpSink("http://x", method="GET"), "takes a method of POST"),
        (lambda: HttpSink("http://x", batch_size=2, path=item), "batch_size=2"),
    ):
        with pytest.raises(ProgramError, match=text):
            call()


# -- a socket -------------------------------------------------------------------------------------


class Server:
    """Sends to whom connects what a test says."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]

    def send(self, data: bytes) -> None:
        connection, _ = self.listening.accept()
        with connection:
            connection.sendall(data)


def test_lines_of_a_socket() -> None:
    server = Server()
    sending = threading.Thread(target=server.send, args=("to\r\nbé\n\nor".encode(),))
    sending.start()
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    with env.socket_text_stream("127.0.0.1", server.port).execute_and_collect() as lines:
        assert list(lines) == ["to", "bé", "", "or"]
    sending.join()
    server.listening.close()


def test_reads_of_a_socket_are_repeated_and_connections_made_again() -> None:
    server = Server()
    source = pickle.loads(pickle.dumps(SocketTextSource("127.0.0.1", server.port, "|", 1)))
    found = source.discover(None, 0)
    assert source.discover(found.state, 0).splits == ()
    reader, (split,) = source.create_reader(), found.splits
    sending = threading.Thread(target=lambda: [server.send(b"a|b|c"), server.send(b"d|")])
    sending.start()
    position, now_ms, values, finished = 0, 0, [], False
    while not finished:
        now_ms += 1000
        result = reader.read(split, position, Budget(2, 1 << 20, now_ms))
        again = reader.read(split, position, Budget(2, 1 << 20, now_ms))
        assert again.values[: len(result.values)] == result.values
        values += result.values
        position, finished = result.position, result.finished
        if values == ["a", "b", "c", "d"]:
            server.listening.close()
    assert values == ["a", "b", "c", "d"]
    sending.join()
    reader.close()


def test_many_short_lines_at_once() -> None:
    """More lines than are kept for repeated epochs arrive in one piece."""
    server, number = Server(), 400_000
    sending = threading.Thread(target=server.send, args=(b"1\n" * number,))
    sending.start()
    source = SocketTextSource("127.0.0.1", server.port)
    (split,) = source.discover(None, 0).splits
    with contextlib.closing(source.create_reader()) as reader:
        read, finished = 0, False
        while not finished:
            result = reader.read(split, read, Budget(50_000, 1 << 20, 0))
            read, finished = result.position, result.finished
            assert set(result.values) <= {"1"}
            assert len(result.values) <= 50_000
            number -= len(result.values)
    assert number == 0
    sending.join()
    server.listening.close()


def test_sockets_that_are_none() -> None:
    source = SocketTextSource("127.0.0.1", closed_port())
    with pytest.raises(JobExecutionError, match=r"127.0.0.1:\d+ does not answer"):
        source.create_reader().read(source.discover(None, 0).splits[0], 0, Budget(1, 1, 0))
    for arguments, text in ((("x", 0), "this is no port"), (("x", 1, ""), "takes a text")):
        with pytest.raises(ProgramError, match=text):
            SocketTextSource(*arguments)
