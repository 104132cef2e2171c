"""Storages around another one: a directory of it, and one that counts requests and tries again.

Repeating a put is safe because a file has one content: if the name is taken and holds
exactly our bytes, an earlier attempt of ours arrived although its reply did not. A put whose
outcome stays unknown is reported as unknown, never as failed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.core.times import jittered
from penstock.files.contract import Content, Entry, Storage, check_key
from penstock.files.errors import (
    FilesError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)

if TYPE_CHECKING:
    from penstock.core.versioned import Cell

TRIES: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.1
_FACTOR: Final = 4.0

Result = TypeVar("Result")


class ScopedStorage(Storage):
    """Everything below `prefix`."""

    def __init__(self, inner: Storage, prefix: str) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities
        self.url = inner.url_of(prefix)
        self._start = f"{check_key(prefix)}/"

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self.inner.put_if_absent(self._start + key, content, deferred=deferred)

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self.inner.write(self._start + key, content, deferred=deferred)

    def rename(self, key: str, new: str) -> None:
        self.inner.rename(self._start + key, self._start + new)

    def prepare(self, local: Path) -> None:
        self.inner.prepare(local)

    def pieces(self, key: str) -> Iterator[bytes]:
        return self.inner.pieces(self._start + key)

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        return self.inner.read_range(self._start + key, start, size_bytes)

    def entry(self, key: str) -> Entry | None:
        found = self.inner.entry(self._start + key)
        return None if found is None else self._inside(found)

    def delete(self, key: str) -> None:
        self.inner.delete(self._start + key)

    def list(self, prefix: str) -> Iterator[Entry]:
        yield from map(self._inside, self.inner.list(self._directory(prefix)))

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

    def _inside(self, found: Entry) -> Entry:
        return replace(found, key=found.key[len(self._start) :])

    def _directory(self, key: str) -> str:
        return (self._start + check_key(key)) if key else self._start[:-1]


class StorageCounts:
    """Requests so far; any thread counts, any thread reads.

    An outcome is `ok`, `exists` (the name is taken), `missing`, `unknown` (it may have taken
    effect) or `failed`. Each try is a request, and each but the first also a retry.

    Attributes:
        retries: How often something was asked once more.
        fenced_writes: How often a write was refused because another leader is at work.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self.retries = 0
        self.fenced_writes = 0

    def counted(self, operation: str, request: Callable[[], Result]) -> Result:
        """Makes a request and counts it."""
        outcome = "failed"
        try:
            result = request()
            outcome = "ok"
            return result
        except ObjectExistsError:
            outcome = "exists"
            raise
        except ObjectMissingError:
            outcome = "missing"
            raise
        except UnknownOutcomeError:
            outcome = "unknown"
            raise
        finally:
            with self._lock:
                self._requests[operation, outcome] += 1

    def note_retry(self) -> None:
        """Something is asked once more."""
        with self._lock:
            self.retries += 1

    def note_fenced(self) -> None:
        """A write was refused because another leader is at work."""
        with self._lock:
            self.fenced_writes += 1

    def requests(self) -> dict[tuple[str, str], int]:
        """Returns numbers of requests by operation and outcome."""
        with self._lock:
            return dict(self._requests)


class RetryingStorage(Storage):
    """Another storage, asked up to `tries` times."""

    def __init__(
        self,
        inner: Storage,
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
        counts: StorageCounts | None = None,
    ) -> None:
        assert tries >= 1
        self.inner = inner
        self.url = inner.url
        self.capabilities = inner.capabilities
        self._tries = tries
        self._sleep = sleep
        self._counts = counts or StorageCounts()

    def pinned(self) -> Storage:
        return RetryingStorage(self.inner.pinned(), self._tries, self._sleep, self._counts)

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        def put() -> None:
            try:
                self.inner.put_if_absent(key, content, deferred=deferred)
            except ObjectExistsError:
                if not self.inner.holds(key, content):
                    raise
                if not deferred:
                    self.inner.flush(key.rpartition("/")[0])

        self._repeat("put", put)

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self._repeat("write", lambda: self.inner.write(key, content, deferred=deferred))

    def rename(self, key: str, new: str) -> None:
        is_first = True

        def rename() -> None:
            nonlocal is_first
            was_first, is_first = is_first, False
            try:
                self.inner.rename(key, new)
            except ObjectMissingError:
                # The request before this one may have worked although its reply was lost.
                if was_first or not self.inner.exists(new):
                    raise

        self._repeat("rename", rename)

    def flush(self, directory: str) -> None:
        self._repeat("flush", lambda: self.inner.flush(directory))

    def prepare(self, local: Path) -> None:
        self.inner.prepare(local)

    def pieces(self, key: str) -> Iterator[bytes]:
        # A stream that broke in the middle cannot be repeated here; its reader does that.
        return self.inner.pieces(key)

    def read(self, key: str, *, size_bytes: int | None = None, sha256: str = "") -> bytes:
        return self._repeat(
            "read", lambda: self.inner.read(key, size_bytes=size_bytes, sha256=sha256)
        )

    def check(self, key: str, size_bytes: int, sha256: str) -> None:
        self._repeat("check", lambda: self.inner.check(key, size_bytes, sha256))

    def download(self, key: str, target: Path, size_bytes: int, sha256: str) -> None:
        self._repeat("download", lambda: self.inner.download(key, target, size_bytes, sha256))

    def holds(self, key: str, content: Content) -> bool:
        return self._repeat("holds", lambda: self.inner.holds(key, content))

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        return self._repeat("read", lambda: self.inner.read_range(key, start, size_bytes))

    def entry(self, key: str) -> Entry | None:
        return self._repeat("size", lambda: self.inner.entry(key))

    def delete(self, key: str) -> None:
        self._repeat("delete", lambda: self.inner.delete(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        return iter(self._repeat("list", lambda: [*self.inner.list(prefix)]))

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        self._repeat("make_directory", lambda: self.inner.make_directory(key, exclusive=exclusive))

    def remove_directory(self, key: str) -> None:
        self._counts.counted("remove_directory", lambda: self.inner.remove_directory(key))

    def load_tagged(self, key: str) -> Cell | None:
        return self._repeat("load", lambda: self.inner.load_tagged(key))

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        # An unknown outcome passes through: the record settles it by reading.
        self._repeat("swap", lambda: self.inner.swap(key, data, tag))

    def _repeat(self, operation: str, request: Callable[[], Result]) -> Result:
        """Asks until an answer comes; remembers whether an earlier request may have worked."""
        pause = _FIRST_PAUSE_SECONDS
        unknown: UnknownOutcomeError | None = None
        for left in range(self._tries - 1, -1, -1):
            try:
                return self._counts.counted(operation, request)
            except (StorageError, UnknownOutcomeError) as error:
                if isinstance(error, UnknownOutcomeError):
                    unknown = error
                elif unknown is None and not error.retryable:
                    raise
                if left == 0:
                    raise _final(unknown, error) from error
            self._counts.note_retry()
            self._sleep(jittered(pause))
            pause *= _FACTOR
        raise AssertionError("unreachable")


def _final(unknown: UnknownOutcomeError | None, error: FilesError) -> FilesError:
    if unknown is None or isinstance(error, UnknownOutcomeError):
        return error
    return UnknownOutcomeError(f"{unknown} Asking again failed: {error}")
