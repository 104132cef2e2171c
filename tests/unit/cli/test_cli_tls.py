"""The service over TLS: with a certificate of this test, trusted or not."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from command_line import penstock

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError
from penstock.core.times import SystemClock
from penstock.jobmanager.dispatcher import DispatcherSettings, JobDispatcher
from penstock.jobmanager.processes import DriverLauncher
from penstock.rest.server import open_server
from penstock.rest.settings import rest_settings
from penstock.rest.trust import server_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIX = "security.ssl.rest."


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `a.pem`, `a.key`, `b.pem`, `b.key`."""
    directory = tmp_path_factory.mktemp("pems")
    for name in "ab":
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(
            [*command.split(), *names, *files], cwd=directory, check=True, capture_output=True
        )
    return directory


def settings(**values: object) -> Configuration:
    configuration = Configuration()
    configuration.put(f"{PREFIX}enabled", "true", Rank.FILE, "config.yaml")
    for key, value in values.items():
        configuration.put(PREFIX + key.replace("_", "-"), str(value), Rank.FILE, "config.yaml")
    return configuration


@pytest.fixture
def address(pems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    dispatcher = JobDispatcher(
        DispatcherSettings(tmp_path / "work"),
        DriverLauncher("nothing.is.started"),
        SystemClock(),
        new_id=lambda: "0" * 32,
        random=lambda: 0.5,
    )
    dispatcher.start()
    dispatcher.lead()
    configuration = settings(certificate=pems / "a.pem", private_key=pems / "a.key")
    server = open_server(dispatcher, rest_settings(configuration, port=0))
    server.start()
    try:
        assert server.url.startswith("https://localhost:")
        yield server.url.removeprefix("https://")
    finally:
        server.stop()
        dispatcher.close()


def test_a_client_speaks_tls_and_trusts_whom_it_is_told_to(address: str, pems: Path) -> None:
    enabled = ("-D", f"{PREFIX}enabled=true", "-m", address)
    for key in ("ca-certificate", "certificate"):
        ran = penstock("list", "-D", f"{PREFIX}{key}={pems / 'a.pem'}", *enabled)
        assert (ran.code, ran.lines[1]) == (0, "No running jobs."), ran.err
    ran = penstock("list", "-D", f"{PREFIX}ca-certificate={pems / 'b.pem'}", *enabled)
    assert ran.code == 4
    assert "shows a certificate that is not trusted:" in ran.err
    assert f"{PREFIX}ca-certificate" in ran.err
    by_number = address.replace("localhost", "127.0.0.1")
    ran = penstock(
        "list", "-D", f"{PREFIX}certificate={pems / 'a.pem'}", *enabled[:2], "-m", by_number
    )
    assert ran.code == 4
    assert "call the job manager by a name that the certificate has" in ran.err


def test_a_client_without_tls_is_told_that_there_may_be_some(address: str) -> None:
    ran = penstock("list", "-m", address)
    assert ran.code == 4
    assert "If it speaks TLS, set security.ssl.rest.enabled" in ran.err


def test_an_authority_that_cannot_be_read_is_named(address: str) -> None:
    ran = penstock("list", "-m", f"https://{address}", "-D", f"{PREFIX}ca-certificate=/nowhere.pem")
    assert ran.code == 1
    assert "security.ssl.rest.ca-certificate is /nowhere.pem" in ran.err
    assert "No such file" in ran.err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "security.ssl.rest.certificate is not set"),
        ({"certificate": "a.pem"}, "security.ssl.rest.private-key is not set"),
        ({"certificate": "a.pem", "private_key": "b.key"}, "key values mismatch"),
        ({"certificate": "nowhere.pem", "private_key": "a.key"}, "No such file"),
        ({"certificate": "a.key", "private_key": "a.key"}, "Both must be PEM files"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_started(
    pems: Path, files: dict[str, str], said: str
) -> None:
    given = {key: pems / name for key, name in files.items()}
    with pytest.raises(ConfigurationError, match=said):
        server_files(settings(**given))
