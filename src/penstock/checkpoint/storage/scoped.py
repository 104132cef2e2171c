"""A directory of another storage, as a storage of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.checkpoint.storage.contract import CheckpointStorage, Entry, check_key

if TYPE_CHECKING:
    from penstock.checkpoint.storage.content import Content
    from penstock.core.versioned import Cell


class ScopedStorage(CheckpointStorage):
    """Everything below `prefix`."""

    def __init__(self, inner: CheckpointStorage, prefix: str) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities
        self.url = inner.url_of(prefix)
        self._start = f"{check_key(prefix)}/"

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self.inner.put_if_absent(self._start + key, content, deferred=deferred)

    def pieces(self, key: str) -> Iterator[bytes]:
        return self.inner.pieces(self._start + key)

    def size(self, key: str) -> int | None:
        return self.inner.size(self._start + key)

    def delete(self, key: str) -> None:
        self.inner.delete(self._start + key)

    def list(self, prefix: str) -> Iterator[Entry]:
        for entry in self.inner.list(self._directory(prefix)):
            yield Entry(entry.key[len(self._start) :], entry.size_bytes, entry.modified_ms)

    def flush(self, directory: str) -> None:
        self.inner.flush(self._directory(directory))

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        self.inner.make_directory(self._directory(key), exclusive=exclusive)

    def remove_directory(self, key: str) -> None:
        self.inner.remove_directory(self._directory(key))

    def load_tagged(self, key: str) -> Cell | None:
        return self.inner.load_tagged(self._start + key)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        self.inner.swap(self._start + key, data, tag)

    def _directory(self, key: str) -> str:
        return (self._start + check_key(key)) if key else self._start[:-1]
