"""Checks snapshots file by file and lists all problems, not only the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint.parallel import run_all
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_snapshot
from penstock.core.errors import PenstockError, StateError
from penstock.files.errors import ContentError, FilesError, ObjectMissingError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from penstock.checkpoint.manifest import StoredHandle
    from penstock.files.urls import Storages


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a snapshot."""

    place: str  # File or directory.
    text: str  # What is wrong, with what was found and what was expected.
    used_by: tuple[str, ...] = ()  # Which states need it, as `uid/subtask`.
    is_lasting: bool = True  # False when the storage did not answer, and may do so later.


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of checking one snapshot."""

    directory: str  # The snapshot, as given.
    checkpoint_id: int | None  # Its number; None when its manifest cannot be read.
    files: int  # How many files were read, `_metadata` included.
    total_bytes: int
    inline_bytes: int  # State inside `_metadata`.
    problems: tuple[Problem, ...]  # All of them.

    @property
    def is_whole(self) -> bool:
        return not self.problems


def verify_snapshot(
    storages: Storages, path: str, executor: Executor | None = None
) -> VerifyReport:
    """Reads every file of the snapshot at a path and compares length and checksum."""
    try:
        loaded = load_snapshot(storages, path)
    except (FilesError, StateError) as error:
        return VerifyReport(path, None, 0, 0, 0, (Problem(path, str(error)),))
    return verify_loaded(storages, loaded, executor)


def verify_loaded(
    storages: Storages, loaded: LoadedSnapshot, executor: Executor | None = None
) -> VerifyReport:
    """Reads every file that a snapshot names; before a restore, so that nothing starts in vain."""
    manifest = loaded.manifest
    places = {loaded.url_of(h): h for h in manifest.handles if h.path is not None}
    users = _users(loaded)

    def check(item: tuple[str, StoredHandle]) -> Problem | None:
        place, handle = item
        try:
            storage, key = loaded.locate(storages, handle)
            storage.check(key, handle.size_bytes, handle.sha256)
        except ObjectMissingError:
            text = f"{place} is missing ({handle.size_bytes:,} bytes, SHA-256 {handle.sha256})."
            return Problem(place, text, users[place])
        except PenstockError as error:
            return Problem(place, str(error), users[place], isinstance(error, ContentError))
        return None

    found = run_all(executor, check, places.items())
    return VerifyReport(
        loaded.directory,
        manifest.checkpoint_id,
        1 + len(places),
        loaded.size_bytes + sum(handle.size_bytes for handle in places.values()),
        manifest.inline_bytes,
        tuple(problem for problem in found if problem is not None),
    )


def _users(loaded: LoadedSnapshot) -> dict[str, tuple[str, ...]]:
    users: dict[str, tuple[str, ...]] = {}
    for place, user in _uses(loaded):
        users[place] = (*users.get(place, ()), user)
    return users


def _uses(loaded: LoadedSnapshot) -> Iterator[tuple[str, str]]:
    for operator in loaded.manifest.operators:
        for index, subtask in enumerate(operator.subtasks):
            places = {loaded.url_of(h) for h in subtask.handles if h.path is not None}
            yield from ((place, f"{operator.uid}/{index}") for place in places)
    for uid, handles in loaded.manifest.pending.items():
        places = {loaded.url_of(h) for h in handles if h.path is not None}
        yield from ((place, f"{uid} (output)") for place in places)
