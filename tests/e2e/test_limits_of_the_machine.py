"""The log's disk is full, the disk of state is full, descriptors run out.

The limits are those of a real process. Whatever becomes of it, the next one loses and doubles
nothing.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from kill_oracle import PATIENCE_S, log_of, start, verify

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
RECORDS = 30_000
SETTINGS = {
    "execution__checkpointing__data-inline-threshold": "0",
    "restart-strategy__type": "none",
}


def run(directory: Path, number: int, limits: dict[int, int], log: str = "log.txt") -> int:
    own = f"own:{number}"
    job = start(
        directory, RECORDS, "in-process", "hashmap", own, limits=limits, log=log, **SETTINGS
    )
    return job.wait(PATIENCE_S)


def test_a_log_on_a_full_disk(tmp_path: Path) -> None:
    """What cannot be logged breaks nothing."""
    assert run(tmp_path, 1, {}, log="/dev/full") == 0
    verify(tmp_path, RECORDS)


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """As on a full disk: the job ends with the reason; the output of one epoch is larger."""
    assert run(tmp_path, 1, {resource.RLIMIT_FSIZE: 8_000}) == 1, log_of(tmp_path)
    assert "File too large" in log_of(tmp_path)
    assert run(tmp_path, 2, {}) == 0, log_of(tmp_path)
    verify(tmp_path, RECORDS)


def test_hardly_any_descriptors(tmp_path: Path) -> None:
    """Six are enough for Python, and for a job unless two of its threads open files at once."""
    if run(tmp_path, 1, {resource.RLIMIT_NOFILE: 6}) != 0:
        assert "Too many open files" in log_of(tmp_path)
    assert run(tmp_path, 2, {}) == 0, log_of(tmp_path)
    verify(tmp_path, RECORDS)
