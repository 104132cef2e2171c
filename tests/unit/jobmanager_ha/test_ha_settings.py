"""Settings of high availability: names old and new, what is missing, what cannot work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError, EnvironmentError_
from penstock.files.errors import StorageError
from penstock.jobmanager.high_availability.coordination import HaSettings, open_high_availability
from penstock.launch.service import member_warnings, url_for_others
from penstock.rest.settings import rest_settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "high-availability.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_off_by_default() -> None:
    assert HaSettings.from_configuration(Configuration()) is None
    assert open_high_availability(Configuration()) is None


@pytest.mark.parametrize(
    "settings",
    [
        {
            "high-availability.type": "zookeeper",
            "high-availability.storageDir": "/shared/ha",
            "high-availability.cluster-id": "/prod/a",
            "high-availability.zookeeper.quorum": "a:1, b:2",
            "high-availability.zookeeper.path.root": "/jobs",
            "high-availability.zookeeper.client.session-timeout": "20 s",
        },
        {
            "recovery.mode": "ZOOKEEPER",
            "recovery.zookeeper.storageDir": "/shared/ha",
            "recovery.zookeeper.path.namespace": "/prod/a",
            "recovery.zookeeper.quorum": "a:1, b:2",
            "recovery.zookeeper.path.root": "/jobs",
            "recovery.zookeeper.client.session-timeout": "20 s",
        },
        {
            "high-availability": "zookeeper",
            "high-availability.zookeeper.storageDir": "/shared/ha",
            "high-availability.zookeeper.path.namespace": "prod/a/",
            "high-availability.zookeeper.quorum": "a:1;b:2",
            "high-availability.zookeeper.path.root": "jobs",
            "high-availability.zookeeper.client.session-timeout": "20000",
        },
    ],
)
def test_three_generations_of_names(settings: dict[str, str]) -> None:
    found = HaSettings.from_configuration(Configuration.from_dict(settings))
    assert found is not None
    assert found.lease_timeout_ms == 20_000
    assert found.cluster_directory == "/shared/ha/prod/a"
    assert found.zookeeper is not None
    assert (found.zookeeper.quorum, found.zookeeper.root) == ("a:1,b:2", "/jobs")
    assert found.zookeeper.connection_timeout_ms == 15_000


def test_a_storage_directory_that_cannot_be_used_is_named_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "ha").write_text("a file")
    settings = {"high-availability.type": "filesystem"}
    settings["high-availability.storageDir"] = str(tmp_path / "ha")
    with pytest.raises(StorageError, match=r"ha/default cannot be high-availability\.storageDir"):
        open_high_availability(Configuration.from_dict(settings))


def test_filesystem_has_a_lease_of_its_own() -> None:
    settings = {"high-availability.type": "filesystem", "high-availability.storageDir": "/ha"}
    found = HaSettings.from_configuration(Configuration.from_dict(settings))
    assert found is not None
    assert found.zookeeper is None
    assert (found.lease_timeout_ms, found.cluster_id) == (15_000, "default")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "filesystem"}, "high-availability.storageDir is not set. Set it to a directory"),
        ({"type": "zookeeper", "storageDir": "/a"}, "zookeeper.quorum is not set"),
        ({"type": "zebra", "storageDir": "/a"}, "'zebra'"),
        (
            {"type": "filesystem", "storageDir": "/a", "cluster-id": "/../etc"},
            "cluster-id is '/../etc'; it must be one or more names",
        ),
        ({"type": "filesystem", "storageDir": "/a", "cluster-id": "/"}, "cluster-id is '/'"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, str], message: str) -> None:
    prefixed = {f"high-availability.{key}": text for key, text in settings.items()}
    with pytest.raises(ConfigurationError) as raised:
        HaSettings.from_configuration(Configuration.from_dict(prefixed))
    assert message in str(raised.value)


def opened(settings: dict[str, str]) -> None:
    open_high_availability(Configuration.from_dict(settings))


def test_a_store_that_keeps_nobody_apart_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"set high-availability\.type to zookeeper"):
        opened(
            {
                "high-availability.type": "filesystem",
                "high-availability.storageDir": "memory://ha/jobs",
            }
        )


def test_without_kazoo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(EnvironmentError_, match=r"pip install 'kazoo>=2.10'"):
        opened(
            {
                "high-availability.type": "zookeeper",
                "high-availability.storageDir": str(tmp_path),
                "high-availability.zookeeper.quorum": "127.0.0.1:1",
            }
        )


def test_zookeeper_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'127.0.0.1:1' answered within 300 ms"):
        opened(
            {
                "high-availability.type": "zookeeper",
                "high-availability.storageDir": str(tmp_path),
                "high-availability.zookeeper.quorum": "127.0.0.1:1",
                "high-availability.zookeeper.client.connection-timeout": "300 ms",
            }
        )


def test_what_an_operator_is_told_before_the_first_failover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/somewhere/tmp")
    settings = {"high-availability.type": "filesystem"}

    def told(**more: str) -> list[str]:
        configuration = Configuration.from_dict(settings | more)
        found = HaSettings.from_configuration(configuration)
        assert found is not None
        return [text.partition(",")[0] for text in member_warnings(found, configuration)]

    directory = "high-availability.storageDir"
    durable = {directory: str(tmp_path), "penstock.rest.token-file": "/etc/token"}
    assert told(**durable) == []
    assert told(**durable | {directory: "file:///somewhere/tmp/ha"}) == [
        "high-availability.storageDir is /somewhere/tmp/ha"
    ]
    assert told(**{directory: str(tmp_path)}) == ["each job manager makes a token of its own"]
    elsewhere = durable | {"rest.bind-address": "0.0.0.0"}
    assert told(**elsewhere) == ["rest.bind-address is 0.0.0.0"]
    assert told(**elsewhere, **{"security.ssl.rest.enabled": "true"}) == []
    assert told(**elsewhere, **{"penstock.rest.token-in-clear": "true"}) == []


def test_where_others_reach_a_job_manager() -> None:
    configuration = Configuration.from_dict({"rest.address": "node1.example"})
    assert url_for_others(configuration, "http://localhost:8081") == "http://node1.example:8081"
    ipv6 = Configuration.from_dict({"rest.address": "fd00::1"})
    assert url_for_others(ipv6, "http://[::1]:9000") == "http://[fd00::1]:9000"
    assert url_for_others(Configuration(), "http://localhost:1") == "http://localhost:1"


@pytest.mark.parametrize("example", EXAMPLES, ids=["filesystem", "zookeeper"])
def test_an_example_of_the_page_is_complete(example: str, tmp_path: Path) -> None:
    """Others reach a job manager with these settings, at an address that is theirs."""
    token = tmp_path / "token"
    token.write_text("secret-of-all-job-managers\n")
    token.chmod(0o600)
    settings = {key: str(value) for key, value in yaml.safe_load(example).items()}
    settings["penstock.rest.token-file"] = str(token)
    certificate, key = str(tmp_path / "node1.pem"), str(tmp_path / "node1.key")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    names = ["-subj", "/CN=node1.example", "-keyout", key, "-out", certificate]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    settings["security.ssl.rest.certificate"] = certificate
    settings["security.ssl.rest.private-key"] = key
    configuration = Configuration.from_dict(settings)
    rest = rest_settings(configuration)
    assert rest.is_open_to_network
    assert url_for_others(configuration, "http://localhost:8081") == "http://node1.example:8081"
    found = HaSettings.from_configuration(configuration)
    assert found is not None
    assert not member_warnings(found, configuration)
    for key in ("high-availability.storageDir", "execution.checkpointing.dir"):
        assert settings[key].startswith(rest.savepoint_roots)
