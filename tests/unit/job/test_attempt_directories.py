"""What killed attempts leave behind goes; what a later one may still commit stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.job.attempt_directories import directory_name, remove_earlier_attempts

if TYPE_CHECKING:
    from pathlib import Path

JOB = "a" * 32


def attempt(root: Path, epoch: int, job_id: str = JOB, *, owes: bool = False) -> Path:
    directory = root / directory_name(job_id, epoch)
    (directory / "state").mkdir(parents=True)
    (directory / "state" / "file").write_text("")
    (directory / "scratch" / "rows").mkdir(parents=True)
    (directory / "scratch" / "file").write_text("")
    if owes:
        (directory / "scratch" / "sink-1").mkdir()
        (directory / "scratch" / "sink-1" / "rows").write_text("")
    return directory


def test_earlier_attempts_go_and_nothing_else(tmp_path: Path) -> None:
    first, owing = attempt(tmp_path, 1), attempt(tmp_path, 2, owes=True)
    own, later = attempt(tmp_path, 5), attempt(tmp_path, 6)
    other, stranger = attempt(tmp_path, 1, "b" * 32), tmp_path / f"{JOB}-notes"
    stranger.mkdir()
    remove_earlier_attempts(own, JOB)
    assert not first.exists()
    assert [path.name for path in sorted(owing.rglob("*"))] == ["scratch", "sink-1", "rows"]
    for kept in (own, later, other):
        assert len(list(kept.rglob("*"))) == 5
    assert stranger.exists()


def test_a_job_of_a_program_has_nothing_to_remove(tmp_path: Path) -> None:
    own = attempt(tmp_path, 1)
    remove_earlier_attempts(own, JOB)
    assert len(list(own.rglob("*"))) == 5
