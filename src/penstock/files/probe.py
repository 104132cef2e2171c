"""Tries a checkpoint directory before a job starts, so that trouble shows at once and with a name.

It writes, reads, writes again and deletes one small file. Storage that accepts a second file of the
same name, as some S3-compatible servers do that ignore conditions, would let two leaders overwrite
each other: it is refused here, not in the night.
"""

from __future__ import annotations

import contextlib

from penstock.core.versioned import SwapRejectedError
from penstock.files.contract import Content, Storage
from penstock.files.errors import CapabilityError, FilesError, ObjectExistsError, StorageError


def probe_storage(
    storage: Storage, directory: str, probe_id: str, purpose: str = "hold checkpoints"
) -> None:
    """Checks that a directory can hold checkpoints, or other files that must not be lost.

    Args:
        storage: The storage.
        directory: Key of the directory; it is made.
        probe_id: Unique over all processes.
        purpose: What it is for, as the error says it.

    Raises:
        StorageError: It cannot; the text says why and what to do.
    """
    name = f"probe-{probe_id}"
    key = f"{directory}/{name}" if directory else name
    try:
        storage.make_directory(directory)
        try:
            _probe(storage, key)
        finally:
            for written in (key, f"{key}-swapped"):
                with contextlib.suppress(FilesError):
                    storage.delete(written)
    except FilesError as error:
        raise StorageError(
            f"{storage.url_of(directory)} cannot {purpose}: {error} Nothing was started.",
            retryable=False,
        ) from error


def _probe(storage: Storage, key: str) -> None:
    first = b"first"
    storage.put_if_absent(key, Content.of_bytes(first))
    if storage.read(key) != first:
        raise StorageError(f"{storage.url_of(key)} does not hold what was written to it.")
    with contextlib.suppress(ObjectExistsError):
        storage.put_if_absent(key, Content.of_bytes(b"second"))
        raise _careless(storage, "accepts a second file of the same name")
    if storage.capabilities.cas:
        storage.swap(f"{key}-swapped", first, None)
        with contextlib.suppress(SwapRejectedError):
            storage.swap(f"{key}-swapped", b"second", None)
            raise _careless(storage, "replaces an object that should have been left alone")


def _careless(storage: Storage, what: str) -> CapabilityError:
    return CapabilityError(
        f"{storage.url} {what}: it ignores conditional requests, and two writers would destroy "
        "each other's work. Use a server that honours If-None-Match and If-Match."
    )
