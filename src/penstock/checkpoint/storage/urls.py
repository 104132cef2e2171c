"""Opens storage by URL: a plain path or `file:`, `s3:`, and through fsspec any other scheme.

A bucket or host is opened once and then kept. Every storage is asked up to three times.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.checkpoint.paths import canonical_url, split_url
from penstock.checkpoint.storage.counts import StorageCounts
from penstock.checkpoint.storage.local import LocalStorage
from penstock.checkpoint.storage.retry import RetryingStorage
from penstock.checkpoint.storage.scoped import ScopedStorage
from penstock.core.config_file import load_configuration

if TYPE_CHECKING:
    from penstock.checkpoint.storage.contract import CheckpointStorage
    from penstock.core.configuration import Configuration

    Opener = Callable[[str], CheckpointStorage]


class Storages:
    """All storage that one process uses.

    Args:
        options: Configuration; keys of storage such as `s3.endpoint` are read from it.
        openers: Further schemes, or others for known ones; for tests.
        retrying: What is put around each storage; by default what asks three times and counts.

    Attributes:
        counts: Requests so far, to all of them.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        *,
        openers: Mapping[str, Opener] | None = None,
        retrying: Callable[[CheckpointStorage], CheckpointStorage] | None = None,
    ) -> None:
        self._options = dict(options or {})
        self._openers = dict(openers or {})
        self.counts = StorageCounts()
        self._retrying = retrying or functools.partial(RetryingStorage, counts=self.counts)
        self._roots: dict[str, CheckpointStorage] = {}
        self._lock = threading.Lock()

    def adding(self, scheme: str, opener: Opener) -> Storages:
        """Returns the same with one further scheme."""
        openers = {**self._openers, scheme: opener}
        added = Storages(self._options, openers=openers, retrying=self._retrying)
        added.counts = self.counts
        return added

    def at(self, directory: str) -> CheckpointStorage:
        """Returns the storage bound to a directory, as given by a user.

        Raises:
            ConfigurationError: The URL is malformed, or needs a package that is not installed.
        """
        url = canonical_url(directory)
        scheme, separator, place = url.partition("://")
        if not separator:
            # Costs nothing to make; kept, it would grow by one for each checkpoint.
            return self._retrying(self._openers.get("file", LocalStorage)(url))
        authority, _, prefix = place.partition("/")
        root = self._root(scheme, f"{scheme}://{authority}")
        return self._retrying(ScopedStorage(root, prefix) if prefix else root)

    def locate_shared(self, url: str) -> tuple[CheckpointStorage, str]:
        """Returns storage and key of a shared file given by its absolute place.

        The storage is that of the job: `shared` itself must not be a link, else whoever writes a
        manifest could have files of that name deleted elsewhere.
        """
        directory, name = split_url(url)
        above, shared = split_url(directory)
        return self.at(above), f"{shared}/{name}"

    def _root(self, scheme: str, url: str) -> CheckpointStorage:
        """Returns the storage of a bucket or host; it has connections and is kept."""
        with self._lock:
            if url not in self._roots:
                self._roots[url] = self._open(scheme, url)
            return self._roots[url]

    def _open(self, scheme: str, url: str) -> CheckpointStorage:
        if scheme in self._openers:
            return self._openers[scheme](url)
        if scheme == "s3":
            from penstock.checkpoint.storage.objects import open_s3

            return open_s3(url, self._options)
        from penstock.checkpoint.storage.fsspec_files import open_fsspec

        return open_fsspec(url)


def configured_storages(configuration: Configuration | None = None) -> Storages:
    """Returns storage as a configuration describes it, by default the one in force here."""
    return Storages((configuration or load_configuration()).to_dict())
