"""`execute(ui=True)`: a program serves the page of its own job."""

from __future__ import annotations

import builtins
import json
import re
import socket
import sys
import threading
import time
import types
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigurationError, JobExecutionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.launch import local
from penstock.rest.trust import find_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    local.close_all()


def environment(tmp_path: Path, **more: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    values = {
        "penstock.spark.master": "in-process",
        "io.tmp.dirs": str(tmp_path / "tmp"),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        "execution.checkpointing.num-retained": "20",
        "restart-strategy.type": "disable",
        "penstock.epoch.max-records": "100",
        "rest.port": "0",
    }
    for key, value in (values | more).items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def endless(env: StreamExecutionEnvironment) -> Any:
    from penstock.common import WatermarkStrategy
    from penstock.datastream.connectors.number_seq import NumberSequenceSource

    source = NumberSequenceSource(0, 10**12)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.key_by(lambda value: value % 3).reduce(max).uid("largest")
    counted.filter(lambda value: value < 0).print()
    return env.execute_async("an endless <job>", ui=True)


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not come")


class Page:
    """The service as its page sees it."""

    def __init__(self, output: str) -> None:
        match = re.search(r"Web interface of job ([0-9a-f]{32}): (http://localhost:(\d+))", output)
        assert match is not None, output
        self.job_id, self.url, self.port = match[1], match[2], int(match[3])
        self.headers = {"Authorization": f"Bearer {find_token('localhost', self.port)}"}

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}/v1{path}", headers=self.headers)
        with urllib.request.urlopen(request, timeout=200) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any], method: str = "POST") -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **self.headers},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=200) as answer:
            return json.load(answer)

    def done(self, path: str, body: dict[str, Any], answers: str) -> dict[str, Any]:
        """Triggers an operation and returns what came of it."""
        trigger = self.post(f"/jobs/{self.job_id}/{path}", body)["request-id"]
        place = f"/jobs/{self.job_id}/{answers}/{trigger}"
        wait_for(lambda: self.get(place)["status"]["id"] == "COMPLETED")
        result: dict[str, Any] = self.get(place)["operation"]
        return result


def test_a_running_job_is_watched_and_steered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = endless(environment(tmp_path))
    page = Page(capsys.readouterr().out)
    job = f"/jobs/{page.job_id}"
    assert str(client.get_job_id()) == page.job_id
    wait_for(lambda: page.get(f"{job}/checkpoints")["counts"]["completed"] >= 2)
    shown = wait_for(lambda: page.get(job) if page.get(job)["epoch"] > 3 else None)
    assert (shown["state"], shown["name"]) == ("RUNNING", "an endless <job>")
    assert shown["status-counts"]["RUNNING"] == len(shown["vertices"]) == 2
    source, largest = shown["vertices"]
    assert source["metrics"]["write-records"] > 0
    assert largest["figures"]["state-bytes"] > 0
    (listed,) = page.get("/jobs/overview")["jobs"]
    assert (listed["jid"], listed["tasks"]["running"]) == (page.job_id, 2)
    settings = {each["key"]: each for each in page.get(f"{job}/effective-config")["settings"]}
    assert settings["penstock.epoch.max-records"]["value"] == "100"
    assert page.get(f"{job}/checkpoints/config")["interval"] == 100

    checkpoint = page.done("checkpoints", {}, "checkpoints")["checkpointId"]
    wait_for(
        lambda: page.get(f"{job}/checkpoints/details/latest?status=COMPLETED")["id"] >= checkpoint
    )
    place = page.done("savepoints", {"formatType": "NATIVE"}, "savepoints")["location"]
    assert place.startswith(str(tmp_path / "savepoints"))
    # The same trigger id is the same operation.
    body = {"triggerId": "a" * 32, "target-directory": str(tmp_path / "others")}
    first = page.done("savepoints", body, "savepoints")
    assert page.done("savepoints", body, "savepoints") == first
    assert len(list((tmp_path / "others").iterdir())) == 1

    held = page.get(f"{job}/state")
    assert held["job_id"] == page.job_id
    assert {each["uid"] for each in held["operators"]} >= {"largest"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        page.get(f"{job}/state?checkpoint=999999")
    with refused.value as answer:
        assert answer.code == 404

    stopped = page.done("stop", {"drain": False}, "savepoints")["location"]
    assert stopped != place
    wait_for(lambda: page.get(job)["state"] == "FINISHED")
    # The page stays; what cannot be done any more is refused.
    with pytest.raises(urllib.error.HTTPError) as refused:
        page.post(f"/jobs/{page.job_id}/savepoints", {})
    with refused.value as answer:
        assert answer.code == 409
    assert page.get(f"{job}/execution-result")["status"] == {"id": "COMPLETED"}


def test_a_failure_can_be_looked_at_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path)
    env.from_collection([1, 0]).map(lambda value: 1 // value).name("Inverse").print()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        env.execute(ui=True)
    page = Page(capsys.readouterr().out)
    wait_for(lambda: page.get(f"/jobs/{page.job_id}")["state"] == "FAILED")
    history = wait_for(
        lambda: page.get(f"/jobs/{page.job_id}/exceptions")["exceptionHistory"]["entries"]
    )
    assert history[0]["exceptionName"] == "ZeroDivisionError"
    assert "Inverse" in history[0]["taskName"]


def test_cancelling_and_submitting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endless(environment(tmp_path))
    page = Page(capsys.readouterr().out)
    token = find_token("localhost", page.port)
    request = urllib.request.Request(
        f"{page.url}/jobs",
        json.dumps({"module": "a", "package": "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=200)
    with refused.value as answer:
        assert answer.code == 409
        assert b"penstock jobmanager" in answer.read()
    assert page.post(f"/jobs/{page.job_id}?mode=cancel", {}, "PATCH") == {}
    wait_for(lambda: page.get(f"/jobs/{page.job_id}")["state"] == "CANCELED")


def test_who_cancels_a_job_hears_that_it_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `penstock cancel` asks an application, whose process ends with its job."""
    client = endless(environment(tmp_path))
    page = Page(capsys.readouterr().out)
    assert page.post(f"/jobs/{page.job_id}?mode=cancel", {}, "PATCH") == {}
    with pytest.raises(JobExecutionError):
        client.get_job_execution_result().result(200)
    closing = threading.Thread(target=local.close_all)
    closing.start()
    closing.join(0.5)
    assert page.get(f"/jobs/{page.job_id}/status") == {"status": "CANCELED"}
    closing.join()


def test_a_port_in_use_is_replaced_by_a_free_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        env = environment(tmp_path, **{"rest.port": str(taken)})
        env.from_collection([1]).print()
        env.execute(ui=True)
        page = Page(capsys.readouterr().out)
    assert page.port != taken
    assert find_token("localhost", page.port) is not None
    local.close_all()
    assert find_token("localhost", page.port) is None
    with pytest.raises(urllib.error.URLError):
        page.get("/jobs")


def test_the_next_job_takes_the_place_of_the_last_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        env = environment(tmp_path)
        env.from_collection([1]).print()
        env.execute(ui=True)
    first, second = capsys.readouterr().out.split("Web interface")[1:]
    pages = [Page("Web interface" + text) for text in (first, second)]
    assert pages[1].get("/jobs")["jobs"][0]["id"] == pages[1].job_id
    with pytest.raises((urllib.error.URLError, AssertionError)):
        assert pages[0].get("/jobs")["jobs"][0]["id"] == pages[0].job_id


def test_without_the_extra_the_job_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "fastapi":
            raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
        return imported(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "fastapi", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    env = environment(tmp_path)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"pip install 'fastapi>=.*' 'uvicorn>="):
        env.execute(ui=True)


def test_a_running_job_keeps_its_checkpoints_and_gives_up_savepoints(tmp_path: Path) -> None:
    # No further checkpoint takes the place of this one.
    client = endless(environment(tmp_path, **{"execution.checkpointing.interval": "1 h"}))
    dispatcher = local._pages[-1][0]
    number = client.trigger_checkpoint().result(200)
    savepoint = client.trigger_savepoint().result(200)
    own = tmp_path / "checkpoints" / str(client.get_job_id()) / f"chk-{number}"

    def disposed(path: str) -> Any:
        trigger_id = dispatcher.dispose_savepoint(path)
        return wait_for(
            lambda: (done := dispatcher.disposal(trigger_id)).status.value != "IN_PROGRESS" and done
        )

    refused = disposed(str(own))
    assert refused.status.value == "FAILED"
    assert "has not ended and may need it" in refused.error
    assert (own / "_metadata").exists()
    assert disposed(savepoint).status.value == "COMPLETED"
    client.cancel()


@pytest.mark.parametrize("where", ["a terminal", "a notebook", "a file"])
def test_a_terminal_and_a_notebook_show_the_token_and_a_log_does_not(
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if where == "a terminal":
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    if where == "a notebook":
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    client = endless(environment(tmp_path))
    (printed,) = [line for line in capsys.readouterr().out.splitlines() if "Web interface" in line]
    page = Page(printed)
    token = str(find_token("localhost", page.port))
    if where == "a file":
        assert token not in printed
        assert printed.endswith(f"(token: {tmp_path}/penstock/rest-{page.port}.token)")
    else:
        assert printed.endswith(f"{page.url}/#token={token}")
    client.cancel().result()
