"""Verifies one snapshot, or every snapshot below a directory, and looks for orphans."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.orphans import list_orphans
from penstock.checkpoint.paths import METADATA, checkpoint_number
from penstock.checkpoint.snapshot_load import Problem, find_problems, load_snapshot
from penstock.core.errors import StateError
from penstock.core.times import SystemClock
from penstock.files.errors import FilesError
from penstock.files.urls import Storages, canonical_url, configured_storages, split_url

if TYPE_CHECKING:
    from concurrent.futures import Executor


def verify_snapshots(path: str, *, orphans: bool = False) -> dict[str, Any]:
    """Reads every file of a snapshot, or of all snapshots of a job, and compares checksums.

    Args:
        path: A snapshot; or a directory that holds snapshots: the checkpoints of a job, a folder
            of savepoints, a checkpoint directory with the directories of several jobs.
        orphans: Also list files that no snapshot in the directory names. Nothing is deleted.

    Returns:
        `path`, `is_whole`, `snapshots` (dicts with `path`, `checkpoint_id`, `files`, `total_bytes`,
        `inline_bytes`, `is_whole`, `problems`: dicts with `place`, `text`, `used_by`), and
        `orphans` (dicts with `path`, `size_bytes`, `age_ms`, `reason`), None if not asked for.
    """
    storages = configured_storages()
    directory = canonical_url(path)
    directories = _snapshots(storages, directory)
    if not directories:
        # One report says what is there instead of a snapshot.
        directories = [directory]
    reports = [verify_snapshot(storages, each) for each in directories]
    found = None
    if orphans:
        found = [each for job in _job_directories(directories) for each in _orphans(storages, job)]
    return {
        "path": directory,
        "is_whole": all(report["is_whole"] for report in reports),
        "snapshots": reports,
        "orphans": found,
    }


def verify_snapshot(
    storages: Storages, path: str, executor: Executor | None = None
) -> dict[str, Any]:
    """Returns what is wrong with the snapshot at a path, as `verify_snapshots` has it."""
    found: dict[str, Any] = {
        "path": path,
        "checkpoint_id": None,
        "files": 0,
        "total_bytes": 0,
        "inline_bytes": 0,
    }
    try:
        loaded = load_snapshot(storages, path)
    except (FilesError, StateError) as error:
        problems = [Problem(path, str(error))]
    else:
        sizes = [handle.size_bytes for handle in loaded.files.values()]
        found = {
            "path": loaded.directory,
            "checkpoint_id": loaded.manifest.checkpoint_id,
            "files": 1 + len(sizes),
            "total_bytes": loaded.size_bytes + sum(sizes),
            "inline_bytes": loaded.manifest.inline_bytes,
        }
        problems = find_problems(storages, loaded, executor)
    shown = [{**asdict(problem), "used_by": list(problem.used_by)} for problem in problems]
    return {**found, "is_whole": not problems, "problems": shown}


def _snapshots(storages: Storages, directory: str) -> list[str]:
    """Returns the directories with a `_metadata`: this one, or those below it."""
    if directory.endswith(f"/{METADATA}"):
        return [split_url(directory)[0]]
    storage = storages.at(directory)
    places = {
        posixpath.dirname(entry.key)
        for entry in storage.list("")
        if posixpath.basename(entry.key) == METADATA
    }
    if "" in places:
        return [directory]
    return [f"{directory}/{place}" for place in sorted(places, key=_in_order)]


def _in_order(place: str) -> tuple[str, int, str]:
    """Checkpoints of a job by their number, everything else by name."""
    above, name = posixpath.split(place)
    return above, checkpoint_number(name) or 0, name


def _job_directories(snapshots: Iterable[str]) -> list[str]:
    """Returns the directories of the jobs whose checkpoints these are; savepoints have none."""
    jobs = {split_url(each)[0] for each in snapshots if checkpoint_number(split_url(each)[1])}
    return sorted(jobs)


def _orphans(storages: Storages, job_directory: str) -> list[dict[str, Any]]:
    above = split_url(job_directory)[0]
    try:
        orphans = list_orphans(storages, job_directory, now_ms=SystemClock().wall_ms())
    except FilesError as error:
        raise CheckpointError(
            f"orphans in {job_directory} cannot be told from files in use: {error}"
        ) from error
    return [
        {
            "path": f"{above}/{orphan.key}",
            "size_bytes": orphan.size_bytes,
            "age_ms": orphan.age_ms,
            "reason": orphan.reason,
        }
        for orphan in orphans
    ]
