"""Opens storage by URL: a plain path or `file:`, object stores, `hdfs:`, any other by fsspec.

A bucket or host is opened once and then kept. Every storage is asked up to three times.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.config_file import load_configuration
from penstock.core.errors import ConfigurationError
from penstock.core.versioned import SwapRejectedError
from penstock.files.contract import Content, Storage
from penstock.files.disk import Disk
from penstock.files.errors import CapabilityError, FilesError, ObjectExistsError, StorageError
from penstock.files.local import LocalStorage
from penstock.files.wrappers import RetryingStorage, ScopedStorage, StorageCounts

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

    Opener = Callable[[str], Storage]


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?(.*)", re.DOTALL)
_SETTINGS: Final = ("s3.", "gs.", "azure.")
_SAME_SCHEME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


class Storages:
    """All storage that one process uses.

    Args:
        options: Configuration; keys of storage such as `s3.endpoint` are read from it.
        openers: Further schemes, or others for known ones; for tests.
        retrying: What is put around each storage; by default what asks three times and counts.
        private: Whether only this user may read what is written to a local directory.

    Attributes:
        counts: Requests so far, to all of them.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        *,
        openers: Mapping[str, Opener] | None = None,
        retrying: Callable[[Storage], Storage] | None = None,
        private: bool = True,
    ) -> None:
        self._options = dict(options or {})
        self._openers = dict(openers or {})
        self.counts = StorageCounts()
        self._retrying = retrying or functools.partial(RetryingStorage, counts=self.counts)
        self._private = private
        self._roots: dict[str, Storage] = {}
        self._lock = threading.Lock()

    def adding(self, scheme: str, opener: Opener) -> Storages:
        """Returns the same with one further scheme."""
        openers = {**self._openers, scheme: opener}
        added = Storages(self._options, openers=openers, retrying=self._retrying)
        added.counts = self.counts
        return added

    def at(self, directory: str, *, writes: bool = True) -> Storage:
        """Returns the storage bound to a directory, as given by a user.

        Args:
            directory: A path or URL.
            writes: Whether something will be written to it.

        Raises:
            ConfigurationError: The URL is malformed, or needs a package that is not installed.
        """
        url = canonical_url(directory)
        if "://" not in url:
            # Costs nothing to make; kept, it would grow by one for each checkpoint.
            return self._retrying(self._openers.get("file", self._open_local)(url))
        root, prefix = self._located(url, writes=writes)
        return self._retrying(ScopedStorage(root, prefix) if prefix else root)

    def locate(self, url: str) -> tuple[Storage, str]:
        """Returns the storage of the bucket or host of a URL that is read, and the key in it."""
        root, key = self._located(canonical_url(url), writes=False)
        return self._retrying(root), key

    def locate_shared(self, url: str) -> tuple[Storage, str]:
        """Returns storage and key of a shared file given by its absolute place.

        The storage is that of the job: `shared` itself must not be a link, else the author of a
        manifest could have files of that name deleted elsewhere.
        """
        directory, name = split_url(url)
        above, shared = split_url(directory)
        return self.at(above), f"{shared}/{name}"

    def _located(self, url: str, *, writes: bool) -> tuple[Storage, str]:
        """Returns the storage of a bucket or host, which has connections and is kept, and a key."""
        scheme, _, place = url.partition("://")
        authority, _, key = place.partition("/")
        root = f"{scheme}://{authority}"
        with self._lock:
            if root not in self._roots:
                self._roots[root] = self._open(scheme, root, writes=writes)
            return self._roots[root], key

    def _open_local(self, path: str) -> Storage:
        return LocalStorage(path, Disk(private=self._private))

    def _open(self, scheme: str, url: str, *, writes: bool) -> Storage:
        if scheme in self._openers:
            return self._openers[scheme](url)
        if scheme in ("s3", "gs", "az", "abfs", "abfss"):
            from penstock.files.objects import open_objects

            return open_objects(url, self._options)
        if scheme in ("hdfs", "viewfs"):
            from penstock.files.hdfs import open_hdfs

            return open_hdfs(url, private=self._private)
        from penstock.files.fsspec_files import open_fsspec

        return open_fsspec(url, writes=writes)


@functools.lru_cache(maxsize=64)
def shared_storages(settings: tuple[tuple[str, str], ...]) -> Storages:
    """Returns storage for sources and sinks, whose connections live as long as the process."""
    return Storages(dict(settings), private=False)


def storage_settings(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the settings of storages, to travel with a source or a sink."""
    return tuple(sorted(each for each in settings.items() if each[0].startswith(_SETTINGS)))


def configured_storages(configuration: Configuration | None = None) -> Storages:
    """Returns storage as a configuration describes it, by default the one in force here."""
    return Storages((configuration or load_configuration()).to_dict())


def canonical_url(path: str) -> str:
    """Returns one spelling of a directory given by a user: absolute, without a slash at the end.

    Local directories are plain absolute paths; `file:` is taken off and nothing is percent-decoded,
    as in Hadoop's paths. `s3a:` and `s3n:` are `s3:`, `gcs:` is `gs:`.

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
        StorageError: It has no directory above it.
    """
    directory, _, name = url.rpartition("/")
    if not name or directory.endswith((":/", ":")):
        raise StorageError(f"{url!r} is not the place of a file.")
    return directory or "/", name


# A checkpoint directory is tried before a job starts, so that trouble shows at once, with a name.
#
# One small file is written, read, written again and deleted. Storage that accepts a second file of
# the same name, as some S3-compatible servers do that ignore conditions, would let two leaders
# overwrite each other: it is refused here, not in the night.


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
