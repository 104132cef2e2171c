"""Brings the files of a snapshot to a job's local directory, checked; what is there already stays.

A local file that is whole is not fetched again. One that is missing or damaged is, silently: the
local directory is only a cache of what the snapshot holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.checkpoint.parallel import run_all
from penstock.files.private import make_private, replace_file

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from penstock.checkpoint.manifest import StoredHandle
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.files.urls import Storages


def download_files(
    storages: Storages,
    loaded: LoadedSnapshot,
    directory: str | Path,
    *,
    handles: Iterable[StoredHandle] | None = None,
    executor: Executor | None = None,
) -> list[str]:
    """Makes the files of a snapshot lie in `directory` under the names of their handles.

    Args:
        storages: Where from.
        loaded: The snapshot.
        directory: The job's local state directory.
        handles: Only these; all by default.
        executor: Threads that fetch in parallel.

    Returns:
        The names of those that were not there.

    Raises:
        ContentError: A stored file is not what its handle says.
        ObjectMissingError: A stored file is gone.
    """
    folder = Path(directory)
    make_private(folder)
    manifest = loaded.manifest
    # A sink's committables name files, whether or not a small snapshot holds all bytes itself.
    output = {each.name for files in manifest.pending.values() for each in files}
    wanted = {
        handle.name: handle
        for handle in (manifest.handles if handles is None else handles)
        if handle.path is not None or handle.name in output
    }

    def fetch(handle: StoredHandle) -> bool:
        target = folder / handle.name
        if _is_whole(target, handle):
            return False
        if handle.inline is not None:
            replace_file(target, handle.inline)
            return True
        storage, key = loaded.locate(storages, handle)
        storage.download(key, target, handle.size_bytes, handle.sha256)
        return True

    fetched = run_all(executor, fetch, wanted.values())
    return [name for name, is_new in zip(wanted, fetched, strict=True) if is_new]


def _is_whole(path: Path, handle: StoredHandle) -> bool:
    try:
        if path.stat().st_size != handle.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == handle.sha256
    except OSError:
        return False
