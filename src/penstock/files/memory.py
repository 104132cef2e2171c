"""Stored files in memory: a second real implementation for tests, and for simulations."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator

from penstock.core.versioned import Cell, SwapRejectedError
from penstock.files.contract import Capabilities, Content, Entry, Storage, behind_the_end, check_key
from penstock.files.errors import ObjectExistsError, ObjectMissingError


class MemoryStorage(Storage):
    """Files in a dictionary; safe to share between threads.

    Args:
        url: Its name.
        now_ms: Clock for the times in listings.

    Attributes:
        files: Content and time of every file.
    """

    capabilities = Capabilities(atomic_create=True, cas=True, directories=False)

    def __init__(self, url: str = "memory://main", now_ms: Callable[[], int] = lambda: 0) -> None:
        self.url = url
        self.files: dict[str, tuple[bytes, int]] = {}
        self._now_ms = now_ms
        self._lock = threading.Lock()

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        data = content.read(f"the source of {self.url_of(check_key(key))}")
        with self._lock:
            if key in self.files:
                raise ObjectExistsError(f"{self.url_of(key)} exists already.")
            self.files[key] = data, self._now_ms()

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        data = content.read(f"the source of {self.url_of(check_key(key))}")
        with self._lock:
            self.files[key] = data, self._now_ms()

    def rename(self, key: str, new: str) -> None:
        with self._lock:
            self._file(key)
            self.files[check_key(new)] = self.files.pop(key)

    def pieces(self, key: str) -> Iterator[bytes]:
        yield self._file(key)

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        found = self._file(key)[start : start + size_bytes]
        if len(found) < size_bytes:
            raise behind_the_end(self.url_of(key), start, size_bytes)
        return found

    def entry(self, key: str) -> Entry | None:
        found = self.files.get(check_key(key))
        return None if found is None else Entry(key, len(found[0]), found[1], _tag(found[0]))

    def _file(self, key: str) -> bytes:
        found = self.files.get(check_key(key))
        if found is None:
            raise ObjectMissingError(f"cannot read {self.url_of(key)}: it does not exist.")
        return found[0]

    def delete(self, key: str) -> None:
        with self._lock:
            self.files.pop(check_key(key), None)

    def list(self, prefix: str) -> Iterator[Entry]:
        start = f"{check_key(prefix)}/" if prefix else ""
        for key, (data, modified_ms) in sorted(self.files.items()):
            if key.startswith(start):
                yield Entry(key, len(data), modified_ms, _tag(data))

    def load_tagged(self, key: str) -> Cell | None:
        found = self.files.get(check_key(key))
        return None if found is None else Cell(found[0], _tag(found[0]))

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        with self._lock:
            found = self.files.get(check_key(key))
            if (None if found is None else _tag(found[0])) != tag:
                raise SwapRejectedError(f"{self.url_of(key)} holds something else.")
            self.files[key] = data, self._now_ms()


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
