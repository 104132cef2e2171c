"""A job that is stopped with a savepoint dies before it can tell so: nothing lost, nothing doubled.

There are no other checkpoints, so each point is reached for the savepoint's sake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kill_oracle import PATIENCE_S, lines, log_of, pace, start, verify

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
RECORDS = 60_000
SETTINGS = {"execution__checkpointing__interval": "1 h"}


def run(directory: Path, start_from: str, faults: str = "", steered: str = "") -> int:
    # There is no checkpoint, so it does not come to its end before it is stopped.
    pace(directory, paced=bool(steered))
    job = start(
        directory, RECORDS, "in-process", "hashmap", start_from, faults, steered, **SETTINGS
    )
    return job.wait(PATIENCE_S)


@pytest.mark.parametrize(
    "point",
    [
        "checkpoint.metadata.after",
        "sink.commit.between",
        "checkpoint.removal.before",
    ],
)
def test_the_job_goes_on(tmp_path: Path, point: str) -> None:
    """The next process of the job goes on, from the savepoint if that was published."""
    once = tmp_path / "struck"
    assert run(tmp_path, "own:1", f"{point}@{once}=kill", "stopped") < 0, log_of(tmp_path)
    assert once.exists()
    assert run(tmp_path, "own:2") == 0, log_of(tmp_path)
    verify(tmp_path, RECORDS)


def test_the_job_stays_stopped(tmp_path: Path) -> None:
    """Once it is recorded that the job has ended, only the savepoint leads on."""
    faults = f"checkpoint.removal.after@{tmp_path / 'struck'}=kill"
    assert run(tmp_path, "own:1", faults, "stopped") < 0, log_of(tmp_path)
    before = len(lines(tmp_path / "numbered"))
    assert before < RECORDS
    assert run(tmp_path, "own:2") == 0, log_of(tmp_path)
    assert len(lines(tmp_path / "numbered")) == before, "a stopped job began again"
    (savepoint,) = (tmp_path / "stopped").iterdir()
    assert run(tmp_path, str(savepoint)) == 0, log_of(tmp_path)
    verify(tmp_path, RECORDS)
