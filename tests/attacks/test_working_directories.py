"""Another user makes our working directory before us, or leaves links beside it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError
from penstock.files.area import FileArea
from penstock.files.private import make_private
from penstock.graph.job_graph import JobGraph
from penstock.job.attempt_directories import remove_earlier_attempts
from penstock.job.settings import read_settings
from penstock.runtime.records import JobProgram, StateSettings
from penstock.runtime.state_files import open_area

JOB = "b" * 32
STRANGER = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another")


@pytest.fixture
def shared_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory such as /tmp."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    return shared


def modes_below(directory: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*") if path.is_dir()}


def start_a_job(**settings: str) -> Path:
    configuration = Configuration()
    for key, value in settings.items():
        configuration.put(key.replace("_", "."), value, Rank.CODE, "test")
    return Path(read_settings(configuration, JOB, 1).state.directory)


def test_every_level_is_private(shared_tmp: Path, tmp_path: Path) -> None:
    start_a_job()
    assert modes_below(shared_tmp) == {0o700}
    start_a_job(io_tmp_dirs=str(tmp_path / "scratch" / "of" / "jobs"))
    assert modes_below(tmp_path / "scratch") == {0o700}
    FileArea(tmp_path / "area" / "of" / "files")
    assert modes_below(tmp_path / "area") == {0o700}


def test_a_directory_that_others_can_read_is_closed(shared_tmp: Path) -> None:
    ours = shared_tmp / f"penstock-{os.getuid()}"
    ours.mkdir()
    ours.chmod(0o755)
    start_a_job()
    assert modes_below(shared_tmp) == {0o700}


def test_a_directory_that_others_can_write_is_refused(shared_tmp: Path) -> None:
    ours = shared_tmp / f"penstock-{os.getuid()}"
    ours.mkdir()
    ours.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"mode 0777.*io\.tmp\.dirs"):
        start_a_job()
    assert not list(ours.iterdir())


@needs_root
def test_a_directory_of_another_user_is_refused(shared_tmp: Path) -> None:
    ours = shared_tmp / f"penstock-{os.getuid()}"
    ours.mkdir(mode=0o700)
    os.chown(ours, STRANGER, STRANGER)
    with pytest.raises(ConfigurationError, match=f"belongs to user {STRANGER} and not to 0"):
        start_a_job()
    assert not list(ours.iterdir())


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_refused(shared_tmp: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "home"
    if exists:
        target.mkdir(mode=0o700)
    (shared_tmp / f"penstock-{os.getuid()}").symlink_to(target)
    with pytest.raises(ConfigurationError, match="is a link"):
        start_a_job()
    assert not target.exists() or not list(target.iterdir())


def test_a_configured_directory_may_be_shared_but_the_jobs_own_is_checked(tmp_path: Path) -> None:
    base = tmp_path / "scratch"
    base.mkdir()
    base.chmod(0o1777)
    (base / JOB).mkdir()
    (base / JOB).chmod(0o777)
    with pytest.raises(ConfigurationError, match="mode 0777"):
        start_a_job(io_tmp_dirs=str(base))


def test_executors_check_theirs_too(
    shared_tmp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(shared_tmp))
    (shared_tmp / f"penstock-{os.getuid()}").symlink_to(tmp_path)
    state = StateSettings(
        backend="hashmap",
        directory=str(tmp_path / "remote" / JOB / "state"),
        scratch_directory=str(tmp_path / "scratch"),
        stays=True,
    )
    with pytest.raises(ConfigurationError, match="is a link"):
        open_area(JobProgram(JOB, 0, JobGraph("job", (), ()), state))


def test_links_beside_an_attempts_directory_are_not_cleaned_up(tmp_path: Path) -> None:
    """A stranger who knows the id of a job names a victim's directory like an earlier attempt."""
    victim = tmp_path / "home"
    (victim / "state").mkdir(parents=True)
    (victim / "state" / "thesis.txt").write_text("kept")
    base = tmp_path / "scratch"
    make_private(base / f"{JOB}-3")
    (base / f"{JOB}-2").symlink_to(victim)
    remove_earlier_attempts(base / f"{JOB}-3", JOB)
    assert (victim / "state" / "thesis.txt").exists()
