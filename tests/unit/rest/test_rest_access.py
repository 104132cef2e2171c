"""Who may do what: a table of requests, and what is refused of them."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError
from penstock.rest.access import has_token, is_flink_client, is_submission, refusal
from penstock.rest.settings import RestSettings, rest_settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-some-length"
LOCAL = RestSettings(token=TOKEN, token_place="/run/token")
RELAXED = replace(LOCAL, require_token=False)
"""What an operator may choose for a machine of one's own."""
OPEN = replace(
    LOCAL,
    host="0.0.0.0",
    allowed_hosts=LOCAL.allowed_hosts | {"flow.example"},
    savepoint_roots=("/s",),
)
HOST = {"host": "localhost:8081"}
AGENT = {"user-agent": "Mozilla/5.0"}
JSON = {"content-type": "application/json; charset=UTF-8"}
OURS = {"x-requested-with": "penstock"}
BEARER = {"authorization": f"Bearer {TOKEN}"}
HERE = {"origin": "http://localhost:8081", "sec-fetch-site": "same-origin"}
THERE = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
FORM = {"content-type": "multipart/form-data; boundary=x"}
SAVEPOINT = "/v1/jobs/0/savepoints"


def status(
    method: str, path: str, headers: dict[str, str], settings: RestSettings = RELAXED
) -> int | None:
    found = refusal(method, path, headers, settings, is_page=path == "/")
    return None if found is None else found.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", None),
        ("localhost:8081", None),
        ("LOCALHOST:8081", None),
        ("127.0.0.1:1", None),
        ("[::1]:8081", None),
        ("evil.example", 403),
        ("evil.example:8081", 403),
        ("localhost.evil.example", 403),
        ("localhost@evil.example", 403),
        ("localhost:8081, evil.example", 403),
        ("127.0.0.1.nip.io", 403),
        ("0.0.0.0", 403),
        ("", 403),
        ("localhost:8081\r\nx: y", 403),
    ],
)
def test_only_our_own_names_are_served(host: str, expected: int | None) -> None:
    assert status("GET", "/jobs", {"host": host} | AGENT) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        # Our page, our command line, Flink's client.
        (AGENT | JSON | OURS | HERE, None),
        (AGENT | JSON | OURS, None),
        (JSON | {"connection": "close", "content-length": "2"}, None),
        (AGENT | JSON | BEARER, None),
        # A stranger's page: by a form, by a script, with everything it could have learnt.
        (AGENT | THERE | {"content-type": "text/plain"}, 403),
        (AGENT | THERE | JSON, 403),
        (AGENT | THERE | JSON | OURS, 403),
        (AGENT | THERE | JSON | BEARER, 403),
        (AGENT | JSON | OURS | {"origin": "null"}, 403),
        (AGENT | JSON | OURS | {"origin": "http://localhost:9999"}, 403),
        (AGENT | JSON | OURS | {"sec-fetch-site": "same-site"}, 403),
        # Not JSON, and neither mark nor token.
        (AGENT | OURS, 415),
        (AGENT | OURS | {"content-type": "application/x-www-form-urlencoded"}, 415),
        (AGENT | OURS | {"content-type": "text/plain; application/json"}, 415),
        (AGENT | JSON, 403),
        (AGENT | JSON | HERE, 403),
        (JSON | {"cookie": "a=b"}, 403),
        (JSON | {"referer": "http://localhost:8081/"}, 403),
        # A token that is wrong is never overlooked.
        (AGENT | JSON | OURS | {"authorization": "Bearer wrong"}, 401),
        (AGENT | JSON | OURS | {"authorization": f"Basic {TOKEN}"}, 401),
        (AGENT | JSON | OURS | {"authorization": "Bearer "}, 401),
        (AGENT | JSON | OURS | {"authorization": "Bearer ü" + TOKEN}, 401),
    ],
)
def test_changes_come_from_here(headers: dict[str, str], expected: int | None) -> None:
    assert status("POST", SAVEPOINT, HOST | headers) == expected


@pytest.mark.parametrize(
    ("headers", "settings", "expected"),
    [
        (FORM | BEARER | AGENT, RELAXED, None),
        (JSON | BEARER | AGENT, RELAXED, None),
        (FORM | OURS | AGENT, RELAXED, 403),
        (JSON, RELAXED, 403),
        (FORM | AGENT | {"authorization": "Bearer no"}, RELAXED, 401),
        (FORM | OURS | AGENT, replace(RELAXED, submit_enabled=True), None),
        (FORM | OURS | AGENT | THERE, replace(RELAXED, submit_enabled=True), 403),
        (FORM | AGENT, replace(RELAXED, submit_enabled=True), 403),
        (FORM | BEARER | AGENT, replace(RELAXED, token=None), 401),
        ({"content-type": "text/plain"} | BEARER, RELAXED, 415),
    ],
)
def test_a_job_is_submitted_with_the_token(
    headers: dict[str, str], settings: RestSettings, expected: int | None
) -> None:
    for path in ("/jobs", "/v1/jobs", "/v1/jobs/"):
        assert is_submission("POST", path)
        assert status("POST", path, HOST | headers, settings) == expected


@pytest.mark.parametrize("path", ["/jobs", "/v1/jobs/0/log", "/metrics", "/jobmanager/config"])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_on_loopback_too_everything_needs_the_token(method: str, path: str) -> None:
    """Other users of the machine, Flink's client among them, and a proxy reach it as well."""
    for more in ({}, AGENT, AGENT | OURS, AGENT | OURS | HERE, {"x-forwarded-for": "10.0.0.1"}):
        found = refusal(method, path, HOST | JSON | more, LOCAL, is_page=False)
        assert found is not None
        assert found.status == 401
        assert "/run/token" in found.message
        assert TOKEN not in found.message
        assert refusal(method, path, HOST | JSON | BEARER | more, LOCAL, is_page=False) is None
    for path_of_all in ("/", "/health/live", "/health/ready"):
        assert status("GET", path_of_all, HOST | AGENT, LOCAL) is None


@pytest.mark.parametrize(
    "mark", ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"]
)
def test_a_proxy_opens_nothing_where_no_token_is_asked_for(mark: str) -> None:
    proxied = HOST | AGENT | JSON | OURS | {mark: "anything"}
    assert status("GET", "/jobs", proxied) == 401
    assert status("POST", SAVEPOINT, proxied) == 401
    assert status("POST", SAVEPOINT, proxied | BEARER) is None


def test_behind_an_open_address_everything_needs_the_token() -> None:
    for path in ("/jobs", "/v1/jobs/overview", "/metrics", "/openapi.json"):
        assert status("GET", path, HOST | AGENT, OPEN) == 401
        assert status("GET", path, HOST | AGENT | BEARER, OPEN) is None
    for path in ("/", "/health/live", "/health/ready"):
        assert status("GET", path, HOST | AGENT, OPEN) is None
    # Neither Flink's client nor our header is enough there.
    assert status("POST", SAVEPOINT, HOST | JSON, OPEN) == 401
    assert status("POST", SAVEPOINT, HOST | JSON | OURS | AGENT, OPEN) == 401
    assert status("POST", SAVEPOINT, {"host": "flow.example"} | JSON | BEARER, OPEN) is None


def test_flinks_client_is_known_by_what_it_does_not_send() -> None:
    assert is_flink_client(HOST | JSON | {"connection": "close"})
    assert not is_flink_client(HOST | JSON | AGENT)
    assert not is_flink_client(HOST | JSON | OURS)


def test_without_a_token_of_its_own_a_service_knows_none() -> None:
    assert has_token(BEARER, LOCAL)
    assert not has_token(BEARER, RestSettings())
    assert not has_token({"authorization": "Bearer"}, RestSettings(token=""))


# -- what may be bound ----------------------------------------------------------------------------


def configured(**pairs: str) -> Configuration:
    configuration = Configuration()
    for key, value in pairs.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    return configuration


def test_an_open_address_needs_a_token_file_and_roots(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    for host in ("0.0.0.0", "::", "10.1.2.3", "flow.example"):
        with pytest.raises(ConfigurationError, match="token-file is not set"):
            rest_settings(configured(rest__bind_address=host))
        with pytest.raises(ConfigurationError, match="savepoint-roots is not set"):
            rest_settings(configured(rest__bind_address=host, penstock__rest__token_file=str(file)))
    settings = rest_settings(
        configured(
            rest__bind_address="10.1.2.3",
            penstock__rest__token_file=str(file),
            penstock__rest__savepoint_roots="/data/savepoints",
            penstock__rest__allowed_hosts="Flow.example",
        )
    )
    assert settings.token == TOKEN
    assert settings.allowed_hosts >= {"10.1.2.3", "flow.example", "localhost"}
    assert TOKEN not in repr(settings)


def test_loopback_is_the_default() -> None:
    settings = rest_settings(Configuration())
    assert (settings.host, settings.port) == ("127.0.0.1", 8081)
    assert not settings.is_open_to_network
    assert rest_settings(Configuration(), "::1", 0).port == 0
    with pytest.raises(ConfigurationError, match=r"bind-port is '50100-50200'"):
        rest_settings(configured(rest__bind_port="50100-50200"))


def test_others_are_told_a_name_that_they_can_reach(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    more = {
        "penstock__rest__token_file": str(file),
        "penstock__rest__savepoint_roots": "/data",
    }
    assert rest_settings(Configuration()).advertised == "localhost"
    exact = rest_settings(configured(rest__bind_address="10.1.2.3", **more))
    assert exact.advertised == "10.1.2.3"
    anywhere = rest_settings(configured(rest__bind_address="0.0.0.0", **more))
    assert anywhere.advertised == socket.gethostname()
    assert anywhere.advertised.lower() in anywhere.allowed_hosts
    assert "0.0.0.0" not in anywhere.allowed_hosts
    named = rest_settings(
        configured(rest__bind_address="0.0.0.0", rest__address="flow.example", **more)
    )
    assert named.advertised == "flow.example"
