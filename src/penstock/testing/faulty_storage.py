"""Storage that fails on purpose: at the i-th call, before or after the effect, once or for good.

    storage = FaultyStorage(MemoryStorage())
    run(storage)                                   # learns how many calls there are
    for i in range(1, storage.calls + 1):
        for fault in Fault:
            run(FaultyStorage(MemoryStorage(), {i: fault}))

A crash is a `BaseException`, so that no clean-up code of the crashed program runs on: afterwards
every call raises it again, as nothing more happens in a process that is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from penstock.core.versioned import SwapUnknownError
from penstock.files.contract import Entry, Storage
from penstock.files.errors import StorageError, UnknownOutcomeError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.versioned import Cell
    from penstock.files.contract import Content

__all__ = ["Fault", "FaultyStorage", "SimulatedCrash"]

Result = TypeVar("Result")


class SimulatedCrash(BaseException):
    """The process is dead."""


class Fault(Enum):
    """What happens at a call."""

    BEFORE = "fails, without effect"
    AFTER = "takes effect, but the reply is lost"
    TIMEOUT = "has no effect, and the caller cannot know"
    GONE = "fails, and so does every later call"
    CRASH_BEFORE = "the process dies before the effect"
    CRASH_AFTER = "the process dies after the effect"


class FaultyStorage(Storage):
    """Another storage with faults.

    Args:
        inner: Where effects go.
        faults: Fault by number of the call, from 1.

    Attributes:
        calls: Number of calls so far.
        log: Calls so far as `(operation, key)`.
        hit: Faults that were reached.
    """

    def __init__(self, inner: Storage, faults: Mapping[int, Fault] | None = None) -> None:
        self.inner = inner
        self.url = inner.url
        self.capabilities = inner.capabilities
        self.faults = dict(faults or {})
        self.calls = 0
        self.log: list[tuple[str, str]] = []
        self.hit: list[tuple[int, Fault]] = []
        self._is_dead = False
        self._is_gone = False

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self._write("put", key, lambda: self.inner.put_if_absent(key, content, deferred=deferred))

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self._write("write", key, lambda: self.inner.write(key, content, deferred=deferred))

    def rename(self, key: str, new: str) -> None:
        self._write("rename", new, lambda: self.inner.rename(key, new))

    def flush(self, directory: str) -> None:
        self._write("flush", directory, lambda: self.inner.flush(directory))

    def prepare(self, local: Path) -> None:
        self.inner.prepare(local)

    def delete(self, key: str) -> None:
        self._write("delete", key, lambda: self.inner.delete(key))

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        self._read(
            "make_directory", key, lambda: self.inner.make_directory(key, exclusive=exclusive)
        )

    def remove_directory(self, key: str) -> None:
        # Best effort by contract: a failure is the same as a directory that is not empty.
        try:
            self._read("remove_directory", key, lambda: self.inner.remove_directory(key))
        except StorageError:
            return

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        try:
            self._write("swap", key, lambda: self.inner.swap(key, data, tag))
        except UnknownOutcomeError as error:
            raise SwapUnknownError(str(error)) from error

    def pieces(self, key: str) -> Iterator[bytes]:
        return iter(self._read("read", key, lambda: [*self.inner.pieces(key)]))

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        return self._read("read", key, lambda: self.inner.read_range(key, start, size_bytes))

    def entry(self, key: str) -> Entry | None:
        return self._read("size", key, lambda: self.inner.entry(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        return iter(self._read("list", prefix, lambda: [*self.inner.list(prefix)]))

    def load_tagged(self, key: str) -> Cell | None:
        return self._read("load", key, lambda: self.inner.load_tagged(key))

    # -- details ------------------------------------------------------------------------------

    def _write(self, operation: str, key: str, effect: Callable[[], None]) -> None:
        fault = self._next(operation, key)
        if fault in (Fault.BEFORE, Fault.GONE):
            raise StorageError(f"fault at call {self.calls}: {operation} {key}.")
        if fault is Fault.TIMEOUT:
            raise UnknownOutcomeError(f"timeout at call {self.calls}: {operation} {key}.")
        if fault is Fault.CRASH_BEFORE:
            self._die()
        effect()
        if fault is Fault.AFTER:
            raise UnknownOutcomeError(f"reply lost at call {self.calls}: {operation} {key}.")
        if fault is Fault.CRASH_AFTER:
            self._die()

    def _read(self, operation: str, key: str, effect: Callable[[], Result]) -> Result:
        fault = self._next(operation, key)
        if fault is Fault.CRASH_BEFORE:
            self._die()
        if fault is not None and fault is not Fault.CRASH_AFTER:
            raise StorageError(f"fault at call {self.calls}: {operation} {key}.")
        result = effect()
        if fault is Fault.CRASH_AFTER:
            self._die()
        return result

    def _next(self, operation: str, key: str) -> Fault | None:
        if self._is_dead:
            raise SimulatedCrash
        self.calls += 1
        self.log.append((operation, key))
        fault = self.faults.get(self.calls)
        if fault is not None:
            self.hit.append((self.calls, fault))
        if fault is Fault.GONE:
            self._is_gone = True
        return Fault.GONE if self._is_gone else fault

    def _die(self) -> None:
        self._is_dead = True
        raise SimulatedCrash
