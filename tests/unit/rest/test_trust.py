"""The manager's token: written for its own user, found by the port, refused when others saw it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import ConfigurationError
from penstock.rest.trust import (
    find_token,
    is_loopback,
    read_token,
    remove_token,
    token_path,
    write_token,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_the_same_user_finds_the_token_by_the_port() -> None:
    token = write_token(8081)
    path = token_path(8081)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert find_token("localhost", 8081) == token
    assert find_token("127.0.0.1", 8081) == token
    assert find_token("localhost", 8082) is None
    # It is for this machine; another one's manager never gets to see it.
    assert find_token("flow.example", 8081) is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_each_start_makes_a_new_token_and_the_end_removes_its_own() -> None:
    first = write_token(8081)
    second = write_token(8081)
    assert first != second
    remove_token(8081, first)
    assert find_token("localhost", 8081) == second
    remove_token(8081, second)
    assert find_token("localhost", 8081) is None
    remove_token(8081, second)


def test_without_a_runtime_directory_the_home_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_token(1)
    assert token_path(1) == tmp_path / "home" / ".penstock" / "rest-1.token"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o622, 0o660])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-some-length")
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"has mode 0{mode:o} .*with mode 0600"):
        read_token(file)


def test_a_group_may_read_a_token_of_roots_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets that Kubernetes mounts belong to root and a group of the pod."""
    file = tmp_path / "token"
    file.write_text("a-token-of-some-length")
    file.chmod(0o440)
    owner = file.stat().st_uid
    real = os.fstat

    def fstat_of(uid: int) -> None:
        def fstat(descriptor: int) -> os.stat_result:
            facts = list(real(descriptor))
            facts[4] = uid
            return os.stat_result(facts)

        monkeypatch.setattr(os, "fstat", fstat)

    fstat_of(0)
    assert read_token(file) == "a-token-of-some-length"
    monkeypatch.setattr(os, "getuid", lambda: owner + 1_000)
    assert read_token(file) == "a-token-of-some-length"
    for user in (owner + 1_000, owner + 2_000):
        fstat_of(user)
        with pytest.raises(ConfigurationError, match="has mode 0440"):
            read_token(file)


@pytest.mark.parametrize("content", ["", "short", "two words of some length", "ü" * 20, "\n" * 30])
def test_a_token_is_one_long_word(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="one word"):
        read_token(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        find_token("flow.example", 1, str(tmp_path / "nowhere"))


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir(mode=0o700)
    (tmp_path / "penstock").chmod(0o777)
    with pytest.raises(ConfigurationError, match="others can write"):
        write_token(8081)


def test_a_directory_that_others_can_read_is_closed_and_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir(mode=0o755)
    write_token(8081)
    assert stat.S_IMODE((tmp_path / "penstock").stat().st_mode) == 0o700
    (tmp_path / "penstock").rename(tmp_path / "elsewhere")
    (tmp_path / "penstock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a link"):
        write_token(8082)


def test_a_command_finds_the_token_of_a_manager_that_had_no_runtime_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A manager that the system starts has only a home; the shell of the same user has both."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    token = write_token(8081)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert find_token("localhost", 8081) == token
    # What a killed one left elsewhere is older.
    later = write_token(8081)
    os.utime(tmp_path / "home" / ".penstock" / "rest-8081.token", (1, 1))
    assert find_token("localhost", 8081) == later


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LocalHost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_what_loopback_is(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
