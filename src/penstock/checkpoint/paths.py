"""Names and places: the layout of a job's directory, savepoint names, and paths given by users.

<dir>/<job id>/shared/            files that several checkpoints may name
              /taskowned/         never deleted by us
              /chk-<n>/           files of checkpoint n, and its _metadata
              /pointer/           the record of completed checkpoints: it decides
              /counter/           the record of used checkpoint ids
<target>/savepoint-<6>-<12>/      one savepoint, self-contained
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.checkpoint.errors import CheckpointError
from penstock.core.errors import ConfigurationError

METADATA: Final = "_metadata"
CLAIM: Final = "_claimed"
_CHECKPOINT: Final = re.compile(r"chk-([1-9][0-9]*)")
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?(.*)", re.DOTALL)
_SAME_SCHEME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
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
        """Directory of a checkpoint."""
        return self._key(f"chk-{checkpoint_id}")

    def metadata(self, checkpoint_id: int) -> str:
        """Manifest of a checkpoint."""
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


def canonical_url(path: str) -> str:
    """Returns one spelling of a directory given by a user: absolute, without a slash at the end.

    Local directories are plain absolute paths; `file:` is taken off and nothing is percent-decoded,
    as in Hadoop's paths. `s3a:` and `s3n:` are `s3:`.

    Raises:
        ConfigurationError: It is empty, climbs with `..`, or contains a password.
    """
    text = str(path)
    if not text.strip() or "\0" in text:
        raise ConfigurationError(
            f"{text!r} is not a directory for checkpoints; give a path or URL."
        )
    found = _SCHEME.fullmatch(text)
    if found is None or (found.group(1).lower() == "file"):
        local = text if found is None else "/" + found.group(2).lstrip("/")
        return posixpath.normpath(Path(local).expanduser().absolute().as_posix())
    scheme = found.group(1).lower()
    parts = [part for part in found.group(2).split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ConfigurationError(
            f"{text!r} names no place: after '{scheme}://' there must be a bucket or host and a "
            "path without '..'."
        )
    if ":" in parts[0].rpartition("@")[0]:
        # It would be written into every manifest and every error message.
        raise ConfigurationError(
            f"the {scheme} URL of a checkpoint directory contains a password. Give it by the "
            "environment or the configuration of the file system instead."
        )
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{'/'.join(parts)}"


def split_url(url: str) -> tuple[str, str]:
    """Splits an absolute place into its directory and the name of the file.

    Raises:
        CheckpointError: It has no directory above it.
    """
    directory, _, name = url.rpartition("/")
    if not name or directory.endswith((":/", ":")):
        raise CheckpointError(f"{url!r} is not the place of a file.")
    return directory or "/", name


def snapshot_directory(path: str) -> str:
    """Returns the directory of a snapshot given as that directory or as its `_metadata`."""
    url = canonical_url(path)
    return split_url(url)[0] if url.endswith(f"/{METADATA}") else url
