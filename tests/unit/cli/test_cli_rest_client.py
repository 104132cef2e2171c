"""The client over REST: leaders, lost answers, tokens, operations that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from stub_manager import ID_RUNNING, StubManager, serving

from penstock.cli.report import NoManagerError, RequestFailedError
from penstock.cli.rest_client import RestClient, _Unreachable
from penstock.cli.verb import configuration_with, open_client
from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.configuration import Configuration

PATH = "/jobs/overview"


class Times:
    """A clock that moves when somebody waits; what else happens then is up to the test."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.seconds = 0.0
        self.on_sleep = on_sleep

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.on_sleep()


def client_of(manager: StubManager, times: Times | None = None, **more: Any) -> RestClient:
    times = times or Times()
    return RestClient(f"http://{manager.url}", sleep=times.sleep, now=times.now, **more)


def test_the_leader_is_followed_with_its_own_token(manager: StubManager) -> None:
    standby = StubManager()
    with serving(standby):
        standby.answers[f"GET {PATH}"] = [
            (503, {"X-Penstock-Leader": f"http://{manager.url}"}, {"errors": ["standby"]})
        ]
        for stub in (standby, manager):
            stub.token = f"token-of-{stub.url.replace(':', '-')}"
        client = client_of(standby, token_of=lambda host, port: f"token-of-{host}-{port}")
        assert client.get(PATH)["jobs"][0]["jid"] == ID_RUNNING
        assert client.url == f"http://{manager.url}"
        client.get(PATH)
    assert len(standby.requests) == 1
    for stub in (standby, manager):
        token = f"Bearer token-of-{stub.url.replace(':', '-')}"
        assert [headers["Authorization"] for _, headers, _ in stub.requests] == [token] * len(
            stub.requests
        )


def test_a_manager_that_makes_a_new_token_meanwhile_is_asked_with_that(
    manager: StubManager,
) -> None:
    """It was killed and started again: who read the old token and waits is no stranger."""
    tokens = iter(["the-old", "the-old", "the-old", "the-new", "the-new", "the-new"])
    manager.token = "the-old"
    client = client_of(manager, token_of=lambda _, __: next(tokens))
    client.get(PATH)
    manager.token = "the-new"
    with pytest.raises(NoManagerError, match="did not prove"):
        client.get(PATH)
    tokens = iter(["the-old", *["the-new"] * 5])
    assert client.get(PATH)["jobs"]
    sent = [headers["Authorization"] for _, headers, _ in manager.requests]
    assert sent == ["Bearer the-old", "Bearer the-new"]


def test_leaders_that_name_each_other_are_not_followed_for_ever(manager: StubManager) -> None:
    for number in range(2):
        manager.answers[f"GET /{number}"] = [
            (503, {"X-Penstock-Leader": f"http://127.0.0.1:{number + 1}"}, {})
        ]
    other = StubManager()
    with serving(other):
        manager.answers["GET /x"] = [(503, {"X-Penstock-Leader": f"http://{other.url}"}, {})]
        other.answers["GET /x"] = [(503, {"X-Penstock-Leader": f"http://{manager.url}"}, {})]
        with pytest.raises(NoManagerError, match="no job manager does after 30 s"):
            client_of(manager).get("/x")
    assert len(manager.requests) + len(other.requests) < 100


def test_a_leader_is_waited_for(manager: StubManager) -> None:
    manager.answers[f"GET {PATH}"] = [(503, {}, {"errors": ["none"]})] * 3 + [
        (200, {}, {"jobs": []})
    ]
    times = Times()
    assert client_of(manager, times).get(PATH) == {"jobs": []}
    assert len(manager.requests) == 4
    assert 0 < times.seconds < 30


def test_a_manager_that_went_away_is_asked_again(manager: StubManager) -> None:
    """Its successor listens at the same address after a while."""
    client = client_of(manager)
    client.get("/config")
    real_once, failures = client._once, [OSError("reset"), OSError("refused")]

    def once(self: RestClient, *request: Any) -> Any:
        if failures:
            raise _Unreachable(failures.pop(), was_reached=True, was_sent=True)
        return real_once(*request)

    class Flaky(RestClient):
        _once = once

    times = Times()
    flaky = Flaky(client.url, sleep=times.sleep, now=times.now)
    flaky._has_answered = True
    assert flaky.trigger(f"/jobs/{ID_RUNNING}/savepoints", {})
    failures[:] = [OSError("gone")] * 1000
    with pytest.raises(NoManagerError):
        flaky.get(PATH)
    assert times.seconds >= 30


def test_commands_that_wait_for_a_leader_do_not_ask_together(manager: StubManager) -> None:
    waits = []
    for _ in range(5):
        manager.answers[f"GET {PATH}"] = [(503, {}, {"errors": ["none"]})] * 100
        times = Times()
        with pytest.raises(NoManagerError):
            client_of(manager, times).get(PATH)
        waits.append(times.seconds)
    assert len(set(waits)) > 1


def test_one_that_never_answered_is_not_waited_for() -> None:
    times = Times()
    with pytest.raises(NoManagerError):
        RestClient("http://127.0.0.1:1", sleep=times.sleep, now=times.now).get(PATH)
    assert times.seconds == 0


def test_the_leader_is_looked_up_until_one_answers(manager: StubManager) -> None:
    """Its lease outlives a leader that was killed; then another one holds it."""
    found: list[str | None] = ["http://127.0.0.1:1", None, f"http://{manager.url}"]
    times = Times()
    client = RestClient(
        "http://127.0.0.1:1",
        sleep=times.sleep,
        now=times.now,
        find_leader=lambda: found.pop(0) if len(found) > 1 else found[0],
    )
    assert client.get(PATH)["jobs"][0]["jid"] == ID_RUNNING
    assert 0 < times.seconds < 30


def test_a_store_that_is_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[str | None] = ["node1:8081", None]

    def find(_: Configuration) -> str | None:
        if not answers:
            raise ConfigurationError("no ZooKeeper answers")
        return answers.pop(0)

    monkeypatch.setattr("penstock.jobmanager.high_availability.coordination.find_leader_url", find)
    configuration = configuration_with({"high-availability.type": "zookeeper"})
    client = open_client(configuration, None)
    assert client.url == "http://node1:8081"
    assert client.find_leader is not None
    assert [client.find_leader(), client.find_leader()] == [None, None]
    with pytest.raises(ConfigurationError, match="no ZooKeeper answers"):
        open_client(configuration, None)


def test_a_submission_is_not_sent_twice(manager: StubManager) -> None:
    class Lost(RestClient):
        def _once(self, *_request: Any) -> Any:
            raise _Unreachable(OSError("reset"), was_reached=True, was_sent=True)

    lost = Lost(f"http://{manager.url}", sleep=lambda _: None)
    lost._has_answered = True
    with pytest.raises(RequestFailedError, match=r"may have been taken: see `penstock list`"):
        lost.submit("/jobs", b"", "application/zip")


def test_an_operation_is_polled_until_it_has_ended(manager: StubManager) -> None:
    manager.polls = 5
    client = client_of(manager)
    trigger = client.trigger(f"/jobs/{ID_RUNNING}/savepoints", {"target-directory": "/x"})
    found = client.wait(f"/jobs/{ID_RUNNING}/savepoints/{trigger}")
    assert found == {"location": "/x/savepoint-40dcc6-000000000001"}
    assert len([1 for request, _, _ in manager.requests if request.startswith("GET")]) == 6


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ({"class": "X", "stack-trace": "X: no space\n\tat a.b(C.java:1)"}, "X: no space"),
        ({"class": "org.Timeout"}, "org.Timeout"),
    ],
)
def test_a_failure_cause_is_raised(manager: StubManager, cause: Any, text: str) -> None:
    document = {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
    manager.answers["GET /op"] = [(200, {}, document)]
    with pytest.raises(RequestFailedError) as caught:
        client_of(manager).wait("/op")
    assert str(caught.value) == text


def test_a_missing_token_says_where_it_is_found(manager: StubManager) -> None:
    manager.answers["GET /x"] = [(403, {}, {"errors": ["A job is accepted with the token only."]})]
    with pytest.raises(
        RequestFailedError, match=r"(?s)token only\..*run this command as that user"
    ):
        client_of(manager).get("/x")


def test_what_is_no_job_manager_is_said(manager: StubManager) -> None:
    class Page(RestClient):
        def _json(self, content: bytes, status: int) -> Any:
            return super()._json(b"<html>hello</html>", status)

    for path in ("/config", "/there-is-none"):
        with pytest.raises(NoManagerError, match="Something else listens there"):
            Page(f"http://{manager.url}").get(path)
