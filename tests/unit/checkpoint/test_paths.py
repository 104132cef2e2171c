"""Names and places, given by us and by users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from checkpoint_samples import JOB

from penstock.checkpoint.paths import (
    checkpoint_number,
    created_by,
    data_file_name,
    layout_of,
    savepoint_name,
    snapshot_directory,
)
from penstock.core.errors import ConfigurationError
from penstock.files.errors import FilesError
from penstock.files.urls import canonical_url, split_url

if TYPE_CHECKING:
    from pathlib import Path


def test_layout() -> None:
    layout = layout_of(JOB)
    assert layout.shared == f"{JOB}/shared"
    assert layout.task_owned == f"{JOB}/taskowned"
    assert layout.checkpoint(860) == f"{JOB}/chk-860"
    assert layout.metadata(860) == f"{JOB}/chk-860/_metadata"
    flat = layout_of(JOB, create_subdir=False)
    assert (flat.shared, flat.metadata(1)) == ("shared", "chk-1/_metadata")


def test_savepoint_name() -> None:
    assert savepoint_name(JOB, "bb0df1c3a1f2") == "savepoint-40dcc6-bb0df1c3a1f2"


def test_data_file_names() -> None:
    name = data_file_name("ab" * 32, 17, "leader/1 x")
    assert name == "ab" * 32 + "-17-leader_1_x"
    assert created_by(name) == 17
    for other in ("MANIFEST", "ab" * 32, "ab" * 32 + "-0-w", "zz" * 32 + "-1-w", f"{name}/x"):
        assert created_by(other) is None


@pytest.mark.parametrize(
    ("name", "number"),
    [("chk-1", 1), ("chk-860", 860), ("chk-0", None), ("chk-01", None), ("chk-", None)],
)
def test_checkpoint_number(name: str, number: int | None) -> None:
    assert checkpoint_number(name) == number


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("/data/ckpt", "/data/ckpt"),
        ("/data/ckpt/", "/data/ckpt"),
        ("/data//x/../ckpt/.", "/data/ckpt"),
        ("file:///data/ckpt", "/data/ckpt"),
        ("file:/data/ckpt", "/data/ckpt"),
        ("FILE:///data/a%20b", "/data/a%20b"),
        ("/data/with space", "/data/with space"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket//a/./b", "s3://bucket/a/b"),
        ("hdfs://host:9000/flink", "hdfs://host:9000/flink"),
        ("gcs://b/x", "gs://b/x"),
    ],
)
def test_canonical_url(given: str, url: str) -> None:
    assert canonical_url(given) == url
    assert canonical_url(url) == url


def test_relative_and_home_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert canonical_url("ckpt") == f"{tmp_path}/ckpt"
    assert canonical_url("~/ckpt") == f"{tmp_path}/me/ckpt"


@pytest.mark.parametrize("given", ["", "  ", "s3://", "s3://bucket/../other", "a\0b"])
def test_places_that_are_none(given: str) -> None:
    with pytest.raises(ConfigurationError):
        canonical_url(given)


def test_passwords_do_not_travel_in_urls() -> None:
    with pytest.raises(ConfigurationError, match="contains a password") as caught:
        canonical_url("sftp://me:hunter2@host/ckpt")
    assert "hunter2" not in str(caught.value)
    container = "abfss://container@account.dfs.core.windows.net/ckpt"
    assert canonical_url(container) == container


def test_snapshot_given_as_directory_or_metadata() -> None:
    for given in ("/c/chk-3", "/c/chk-3/", "/c/chk-3/_metadata", "file:///c/chk-3/_metadata"):
        assert snapshot_directory(given) == "/c/chk-3"
    assert snapshot_directory("s3a://b/savepoint-1/_metadata") == "s3://b/savepoint-1"


def test_split_url() -> None:
    assert split_url("/a/b") == ("/a", "b")
    assert split_url("/a") == ("/", "a")
    assert split_url("s3://bucket/a") == ("s3://bucket", "a")
    for wrong in ("s3://bucket", "s3://bucket/", "/"):
        with pytest.raises(FilesError):
            split_url(wrong)
