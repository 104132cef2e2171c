"""A disk whose power can be cut: what was not synced is kept, lost, or turned to garbage, by seed.

The model is that of POSIX, at its least friendly:

* the content of a file is durable after `fsync` of a descriptor of it; before, after a cut, it is
  whole, cut short, zeros or garbage;
* a name in a directory, new or removed, is durable after `sync_directory` of that directory;
  before, each change on its own has happened or has not;
* syncing a file does not sync its name, and the other way round.

    disk = SimulatedDisk()
    LocalStorage("/data", disk) …                 # learns disk.calls
    disk = SimulatedDisk(cut_at=7)                # the 7th call raises PowerCut …
    disk.restart(random.Random(seed))             # … and this is what the machine finds afterwards
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from penstock.core.versioned import Cell, SwapUnknownError
from penstock.files.contract import Content, Entry, Storage
from penstock.files.disk import DiskEntry
from penstock.files.errors import StorageError, UnknownOutcomeError

if TYPE_CHECKING:
    import random
    from pathlib import Path


Result = TypeVar("Result")
_parts = functools.cache(lambda path: tuple(filter(None, path.split("/"))))


class PowerCut(BaseException):
    """The machine is off."""


@dataclass(eq=False)
class _File:
    data: bytes = b""
    durable: bytes = b""
    number: int = field(default_factory=itertools.count(1).__next__)


@dataclass(eq=False)
class _Directory:
    names: dict[str, _File | _Directory] = field(default_factory=dict)
    durable: dict[str, _File | _Directory] = field(default_factory=dict)
    # Renames since the last sync: the journal has both names change, or none.
    renamed: list[tuple[str, str]] = field(default_factory=list)


class SimulatedDisk:
    """A file system in memory; see `penstock.files.disk.Disk`.

    Args:
        cut_at: Number of the call at which the power is cut, from 1.
        cut_after: Whether that call takes effect first.
        failures: Error numbers by call, such as `{3: errno.ENOSPC}`.

    Attributes:
        calls: Number of changing calls so far.
        log: Those calls as `(operation, path)`.
    """

    def __init__(
        self, cut_at: int = 0, *, cut_after: bool = False, failures: dict[int, int] | None = None
    ) -> None:
        self.calls = 0
        self.log: list[tuple[str, str]] = []
        self.cut_at = cut_at
        self.cut_after = cut_after
        self.failures = dict(failures or {})
        self.root = _Directory()
        self._open: dict[int, tuple[_File, str]] = {}
        self._next_descriptor = 100
        self._is_off = False

    # -- changing calls -----------------------------------------------------------------------

    def create(self, path: str) -> int:
        self._call("create", path)
        directory, name = self._parent(path)
        if name in directory.names:
            raise _error(errno.EEXIST, path)
        directory.names[name] = file = _File()
        descriptor = self._next_descriptor
        self._next_descriptor += 1
        self._open[descriptor] = file, path
        return self._done(descriptor)

    def write(self, descriptor: int, data: memoryview) -> int:
        file, path = self._open[descriptor]
        self._call("write", path)
        # Short writes happen; a caller that ignores the result loses bytes here.
        count = len(data) if file.data else (len(data) + 1) // 2
        file.data += bytes(data[:count])
        return self._done(count)

    def fsync(self, descriptor: int) -> None:
        file, path = self._open[descriptor]
        self._sync("fsync", file, path)

    def sync_file(self, path: str) -> None:
        file = self._find(path)
        if not isinstance(file, _File):
            raise _error(errno.ENOENT, path)
        self._sync("sync_file", file, path)

    def _sync(self, operation: str, file: _File, path: str) -> None:
        try:
            self._call(operation, path)
        except OSError:
            # As on Linux: the pages are dropped and count as clean, so that another fsync of this
            # descriptor would succeed without having written anything.
            file.data = file.durable
            raise
        file.durable = file.data
        self._done(None)

    def close(self, descriptor: int) -> None:
        if not self._is_off:
            self._open.pop(descriptor)

    def link(self, existing: str, new: str) -> None:
        self._call("link", new)
        target = self._find(existing)
        directory, name = self._parent(new)
        if not isinstance(target, _File):
            raise _error(errno.ENOENT, existing)
        if name in directory.names:
            raise _error(errno.EEXIST, new)
        directory.names[name] = target
        self._done(None)

    def rename(self, old: str, new: str) -> None:
        self._call("rename", new)
        directory, name = self._parent(new)
        above, old_name = self._parent(old)
        assert above is directory, "files are renamed within their directory"
        if not isinstance(directory.names.get(old_name), _File):
            raise _error(errno.ENOENT, old)
        directory.names[name] = directory.names.pop(old_name)
        directory.renamed.append((old_name, name))
        self._done(None)

    def unlink(self, path: str) -> None:
        self._call("unlink", path)
        directory, name = self._parent(path)
        if not isinstance(directory.names.get(name), _File):
            raise _error(errno.ENOENT, path)
        del directory.names[name]
        self._done(None)

    def make_directory(self, path: str) -> None:
        self._call("make_directory", path)
        directory, name = self._parent(path)
        if name in directory.names:
            raise _error(errno.EEXIST, path)
        directory.names[name] = _Directory()
        self._done(None)

    def remove_directory(self, path: str) -> None:
        self._call("remove_directory", path)
        directory, name = self._parent(path)
        found = directory.names.get(name)
        if not isinstance(found, _Directory):
            raise _error(errno.ENOENT, path)
        if found.names:
            raise _error(errno.ENOTEMPTY, path)
        del directory.names[name]
        self._done(None)

    def sync_directory(self, path: str) -> None:
        self._call("sync_directory", path)
        directory = self._find(path)
        if not isinstance(directory, _Directory):
            raise _error(errno.ENOENT, path)
        directory.durable = dict(directory.names)
        directory.renamed.clear()
        self._done(None)

    # -- looking ------------------------------------------------------------------------------

    def pieces(self, path: str) -> Iterator[bytes]:
        self._check_power()
        found = self._find(path)
        if not isinstance(found, _File):
            raise _error(errno.ENOENT if found is None else errno.EISDIR, path)
        yield found.data

    def read_range(self, path: str, start: int, size_bytes: int) -> bytes:
        return b"".join(self.pieces(path))[start : start + size_bytes]

    def entry(self, path: str) -> DiskEntry | None:
        self._check_power()
        found = self._find(path)
        if found is None:
            return None
        if isinstance(found, _Directory):
            return DiskEntry(is_directory=True, size_bytes=0, modified_ns=0, number=0)
        return DiskEntry(False, len(found.data), 0, found.number)

    def names(self, path: str) -> list[str]:
        self._check_power()
        found = self._find(path)
        if not isinstance(found, _Directory):
            raise _error(errno.ENOENT if found is None else errno.ENOTDIR, path)
        return list(found.names)

    def real_path(self, path: str) -> str:
        return path

    # -- power --------------------------------------------------------------------------------

    def restart(self, rng: random.Random) -> None:
        """Cuts the power, if that has not happened, and turns the machine on again."""
        self._open.clear()
        self._is_off = False
        self.cut_at = 0
        self.failures.clear()
        self._settle(self.root, rng, set())

    def _settle(self, directory: _Directory, rng: random.Random, seen: set[int]) -> None:
        happened = {
            name: rng.random() < 0.5 for name in sorted({*directory.names, *directory.durable})
        }
        for old_name, name in directory.renamed:
            happened[old_name] = happened[name] = happened.get(name, True)
        directory.renamed.clear()
        for name, has_happened in happened.items():
            new, old = directory.names.get(name), directory.durable.get(name)
            kept = new if has_happened else old
            if kept is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = kept
        directory.durable = dict(directory.names)
        for child in directory.names.values():
            if isinstance(child, _Directory):
                self._settle(child, rng, seen)
            elif id(child) not in seen:
                seen.add(id(child))
                child.data = child.durable = _after_cut(child, rng)

    def _call(self, operation: str, path: str) -> None:
        self._check_power()
        self.calls += 1
        self.log.append((operation, path))
        # A call that fails by itself, such as removing what is not there, is cut at the next one.
        is_late = self.calls > self.cut_at > 0
        if is_late or (self.calls == self.cut_at and not self.cut_after):
            self._is_off = True
            raise PowerCut
        if self.calls in self.failures:
            raise _error(self.failures[self.calls], path)

    def _done(self, result: Result) -> Result:
        if self.calls == self.cut_at:
            self._is_off = True
            raise PowerCut
        return result

    def _check_power(self) -> None:
        if self._is_off:
            raise PowerCut

    def _find(self, path: str) -> _File | _Directory | None:
        found: _File | _Directory | None = self.root
        for name in _parts(path):
            if not isinstance(found, _Directory):
                return None
            found = found.names.get(name)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        above, name = posixpath.split(path)
        directory = self._find(above)
        if not isinstance(directory, _Directory):
            raise _error(errno.ENOENT if directory is None else errno.ENOTDIR, above)
        return directory, name


def _after_cut(file: _File, rng: random.Random) -> bytes:
    if file.data == file.durable:
        return file.data
    length = len(file.data)
    choices = (
        file.durable,
        file.data,
        file.data[: rng.randrange(length + 1)],
        bytes(length),
        rng.randbytes(length),
    )
    return rng.choice(choices)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


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

    A crash is a `BaseException`, so that no clean-up code of the crashed program runs on;
    afterwards every call raises it again, as nothing more happens in a process that is dead.

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
        self._is_gone = self._is_gone or fault is Fault.GONE
        return Fault.GONE if self._is_gone else fault

    def _die(self) -> None:
        self._is_dead = True
        raise SimulatedCrash
