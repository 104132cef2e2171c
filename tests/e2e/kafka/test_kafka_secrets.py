"""A password of Kafka is shown nowhere: REST, command line, logs, errors and snapshots."""

from __future__ import annotations

import gzip
import json
import logging
import re
import time
import urllib.error
import urllib.request
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from kafka_kit import configuration

from penstock.cli.main import run as penstock
from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.core.errors import JobExecutionError
from penstock.core.redaction import SecretlessFormatter
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.launch import local
from penstock.rest.trust import find_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka_broker import Broker

SECRETS = {
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ann" password="jaas-71kx";'
    ),
    "ssl.key.password": "key-71kx",
    "ssl.keystore.password": "store-71kx",
}
SECRET = "71kx"
PATIENCE_S = 120
STREAMS = ("/events", "/stdout", "/log")

pytest_plugins = ["ui_browser"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    local.close_all()


def properties(kafka: Broker) -> dict[str, str]:
    return {"bootstrap.servers": kafka.address, "group.id": "secretive", **SECRETS}


def copying(kafka: Broker, given: str, out: str, directory: Path) -> StreamExecutionEnvironment:
    """Returns the job; the broker asks for no login, so that the properties have no effect."""
    env = StreamExecutionEnvironment.get_execution_environment(
        configuration(
            directory,
            rest_port="0",
            restart__strategy_type="disable",
            execution_checkpointing_externalized__checkpoint__retention="RETAIN_ON_CANCELLATION",
        )
    )
    source = KafkaSource.builder().set_properties(properties(kafka)).set_topics(given)
    source.set_value_only_deserializer(SimpleStringSchema())
    schema: Any = KafkaRecordSerializationSchema.builder().set_topic(out)
    schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_record_serializer(schema)
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    for key, value in properties(kafka).items():
        if key != "group.id":
            sink.set_property(key, value)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in").uid("in")
    stream.map(_checked).uid("map").sink_to(sink.build()).uid("out")
    return env


def _checked(value: str) -> str:
    if value == "poison":
        raise ValueError("poisoned")
    return value


class Page:
    def __init__(self, output: str) -> None:
        found = re.search(r"Web interface of job ([0-9a-f]{32}): (http://localhost:(\d+))", output)
        assert found is not None, output
        self.job_id, self.url, self.port = found[1], found[2], int(found[3])

    def get(self, path: str) -> str:
        token = find_token("localhost", self.port)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return refused.read().decode()

    def everything(self) -> dict[str, str]:
        """Returns what each route answers that needs no name but the job's or a vertex's."""
        job = json.loads(self.get(f"/v1/jobs/{self.job_id}"))
        vertices = [vertex["id"] for vertex in job["vertices"]]
        routes = json.loads(self.get("/openapi.json"))["paths"]
        found = {}
        for route, operations in routes.items():
            if "get" not in operations or route.endswith(STREAMS):
                continue
            for vertex in vertices if "{vertex_id}" in route else vertices[:1]:
                path = route.replace("{job_id}", self.job_id).replace("{vertex_id}", vertex)
                path = path.replace("{subtask}", "0").replace("{subtask_index}", "0")
                if "{" not in path:
                    found[path] = self.get(path)
        return found


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def clear(data: bytes) -> bytes:
    """Returns bytes with what they hold compressed."""
    found = [data]
    for begin in (
        match.start() for match in re.finditer(rb"\x1f\x8b|\x78[\x01\x5e\x9c\xda]", data)
    ):
        for unpack in (gzip.decompress, zlib.decompress):
            try:
                found.append(unpack(data[begin:]))
            except (OSError, EOFError, zlib.error):
                continue
    return b"".join(found)


def test_nowhere(
    kafka: Broker,
    topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(SecretlessFormatter("%(message)s"))
    given, out, directory = topic(), topic(), tmp_path / "checkpoints"
    kafka.produce(given, ["a", "b"])
    client = copying(kafka, given, out, directory).execute_async("secretive", ui=True)
    page = Page(capsys.readouterr().out)
    wait_until(lambda: kafka.values(out) == [b"a", b"b"])

    shown = page.everything()
    for wanted in ("config", "plan", "effective-config"):
        assert f"/v1/jobs/{page.job_id}/{wanted}" in shown, sorted(shown)
    assert [path for path in shown if "/vertices/" in path], sorted(shown)
    assert [path for path, text in shown.items() if SECRET in text] == []
    assert "secretive" in shown[f"/v1/jobs/{page.job_id}"]

    kafka.produce(given, ["poison"])
    with pytest.raises(JobExecutionError, match="poisoned") as failed:
        client.get_job_execution_result().result()
    error: BaseException | None = failed.value
    while error is not None:
        assert SECRET not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__
    ended = page.everything()
    assert [path for path, text in ended.items() if SECRET in text] == []
    checkpoints = [path for path in directory.rglob("*") if path.is_file()]
    assert [path for path in checkpoints if path.name == "_metadata"]
    assert [str(path) for path in checkpoints if SECRET.encode() in clear(path.read_bytes())] == []

    newest = max(directory.rglob("_metadata"), key=lambda path: path.stat().st_mtime).parent
    assert penstock(["verify", str(newest)]) == 0
    output = capsys.readouterr()
    assert output.out
    assert SECRET not in caplog.text + output.out + output.err


PROGRAM = """
import json, sys
from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import KafkaSource

properties = json.loads({properties!r})
source = KafkaSource.builder().set_properties(properties).set_topics("any")
source = source.set_value_only_deserializer(SimpleStringSchema()).build()
print(source, properties["bootstrap.servers"], file=sys.stderr)
env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(source, WatermarkStrategy.no_watermarks(), "in").print()
env.execute("secretive")
"""


def test_the_plan_of_a_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    given = json.dumps({"bootstrap.servers": "127.0.0.1:1", **SECRETS})
    program.write_text(PROGRAM.format(properties=given))
    assert penstock(["info", str(program)]) == 0
    output = capfd.readouterr()
    assert "Source: in" in output.out
    assert SECRET not in output.out + output.err


def test_the_page(
    tmp_path: Path, open_tab: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """No broker is there; beside the source that waits for one, a function fails with the login."""
    given = {"bootstrap.servers": "127.0.0.1:1", **SECRETS}

    def fails(_: str) -> str:
        logging.getLogger("penstock.program").error("login: %s", json.dumps(json.dumps(given)))
        raise ValueError(f"no connection with {json.dumps(given)}")

    env = StreamExecutionEnvironment.get_execution_environment(
        configuration(rest_port="0", restart__strategy_type="disable", my_password=SECRET)
    )
    source = KafkaSource.builder().set_properties(given).set_topics("any")
    source.set_value_only_deserializer(SimpleStringSchema())
    waiting = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "waiting")
    waiting.union(env.from_collection(["a"]).map(fails)).print()
    client = env.execute_async("secretive", ui=True)
    page = Page(capsys.readouterr().out)
    with pytest.raises(JobExecutionError, match="no connection"):
        client.get_job_execution_result().result(PATIENCE_S)
    shown = {
        "exceptions": "no connection with",
        "configuration": "my.password",
        "logs": "login:",
        "graph": "waiting",
    }
    token = find_token("localhost", page.port)
    tab = open_tab(page.url, f"#token={token}", made_up=False)
    for name, wanted in shown.items():
        tab.go(f"{page.url}/#/jobs/{page.job_id}/{name}")
        tab.until(lambda wanted=wanted: wanted in tab.page.content(), f"'{wanted}' on {name}")  # type: ignore[misc]
        assert SECRET not in tab.page.content()
