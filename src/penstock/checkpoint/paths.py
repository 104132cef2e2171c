"""Names and places: the layout of a job's directory, savepoint names, and paths given by users.

<dir>/<job id>/shared/            files that several checkpoints may name
              /taskowned/         never deleted by us
              /chk-<n>/           files of checkpoint n, and its _metadata
              /pointer/           the record of completed checkpoints: it decides
              /counter/           the record of used checkpoint ids
<target>/savepoint-<6>-<12>/      one savepoint, self-contained
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.files.urls import canonical_url, split_url

METADATA: Final = "_metadata"
CLAIM: Final = "_claimed"
_CHECKPOINT: Final = re.compile(r"chk-([1-9][0-9]*)")
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_DATA_FILE: Final = re.compile(r"[0-9a-f]{64}-([1-9][0-9]*)-([A-Za-z0-9._-]+)")
_SAFE_FILE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """Keys below the checkpoint directory of one job."""

    prefix: str  # The job id, or "" without a directory per job.

    @property
    def shared(self) -> str:
        return self._key("shared")

    @property
    def task_owned(self) -> str:
        return self._key("taskowned")

    @property
    def pointer(self) -> str:
        return self._key("pointer")

    @property
    def counter(self) -> str:
        return self._key("counter")

    def checkpoint(self, checkpoint_id: int) -> str:
        return self._key(f"chk-{checkpoint_id}")

    def metadata(self, checkpoint_id: int) -> str:
        return f"{self.checkpoint(checkpoint_id)}/{METADATA}"

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name


def layout_of(job_id: str, *, create_subdir: bool = True) -> CheckpointLayout:
    """Returns the layout of a job's checkpoints."""
    assert _JOB_ID.fullmatch(job_id), job_id
    return CheckpointLayout(job_id if create_subdir else "")


def savepoint_name(job_id: str, random_hex: str) -> str:
    """Returns `savepoint-<first 6 of the job id>-<12 random hex digits>`."""
    return f"savepoint-{job_id[:6]}-{random_hex[:12]}"


def data_file_name(sha256: str, checkpoint_id: int, writer_id: str) -> str:
    """Returns the name of an uploaded file: content, creation number, writer.

    The number makes it new even when content disappears and comes back while the old name waits
    for its deletion; the writer keeps a late one of an earlier leader apart.
    """
    return f"{sha256}-{checkpoint_id}-{_SAFE_FILE.sub('_', writer_id)}"


def created_by(file_name: str) -> int | None:
    """Returns the checkpoint id in a name made by `data_file_name`, or None for another name."""
    found = _DATA_FILE.fullmatch(file_name)
    return None if found is None else int(found.group(1))


def written_by(file_name: str) -> str | None:
    """Returns the writer in a name made by `data_file_name`, or None for another name."""
    found = _DATA_FILE.fullmatch(file_name)
    return None if found is None else found.group(2)


def checkpoint_number(directory_name: str) -> int | None:
    """Returns 7 for `chk-7`, and None for other names."""
    found = _CHECKPOINT.fullmatch(directory_name)
    return None if found is None else int(found.group(1))


def snapshot_directory(path: str) -> str:
    """Returns the directory of a snapshot given as that directory or as its `_metadata`."""
    url = canonical_url(path)
    return split_url(url)[0] if url.endswith(f"/{METADATA}") else url
