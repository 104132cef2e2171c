"""Relative places of snapshots: what they are relative to, and who says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.errors import CheckpointError
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.settings import make_absolute

DIR = "execution.checkpointing.dir"


@pytest.mark.parametrize(
    ("rank", "given", "expected"),
    [
        (Rank.CODE, "ckpt", "/srv/ann/ckpt"),
        (Rank.COMMAND_LINE, "../ckpt", "/srv/ckpt"),
        (Rank.FILE, "ckpt", "{cwd}/ckpt"),  # The file of the job manager knows no caller.
        (Rank.CODE, "/srv/ckpt", "/srv/ckpt"),
        (Rank.CODE, "s3://bucket/ckpt", "s3://bucket/ckpt"),
        (Rank.CODE, "file:/srv/ckpt", "file:/srv/ckpt"),
    ],
)
def test_places_are_relative_to_where_the_user_is(rank: Rank, given: str, expected: str) -> None:
    configuration = Configuration()
    configuration.put("penstock.job.base-directory", "/srv/ann", Rank.COMMAND_LINE, "-D")
    configuration.put(DIR, given, rank, "somewhere")
    for _ in range(2):  # A second time changes nothing.
        make_absolute(configuration)
        assert configuration.get_string(DIR) == expected.format(cwd=Path.cwd())


def test_the_banner_can_say_what_a_place_is_relative_to() -> None:
    configuration = Configuration()
    configuration.put("penstock.job.base-directory", "/srv/ann", Rank.COMMAND_LINE, "-D")
    configuration.put("state.checkpoints.dir", "ckpt", Rank.CODE, "app.py:3")
    make_absolute(configuration)
    setting = configuration.setting(DIR)
    assert (str(setting), setting and setting.value) == (
        "code app.py:3, relative to /srv/ann",
        "/srv/ann/ckpt",
    )


def test_an_empty_path_does_not_start_from_nothing() -> None:
    """A script that takes the path from a command that failed must not lose the state."""
    configuration = Configuration.from_dict({"execution.state-recovery.path": ""})
    with pytest.raises(ConfigurationError, match=r"path is empty; it was set by code"):
        make_absolute(configuration)


def test_a_start_from_nowhere_leaves_nothing_in_the_checkpoint_directory(tmp_path: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "execution.checkpointing.interval": "1 h",
        DIR: str(tmp_path / "checkpoints"),
        "execution.state-recovery.path": str(tmp_path / "mistyped"),
    }.items():
        configuration.put(key, value, Rank.CODE, "app.py:3")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    with pytest.raises(CheckpointError, match="is not a checkpoint or savepoint"):
        env.execute()
    assert not [*(tmp_path / "checkpoints").iterdir()]
