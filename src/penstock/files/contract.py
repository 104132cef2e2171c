"""The contract of stored files: of checkpoints, of jobs, of file sources and file sinks.

A storage is bound to a directory or prefix; keys are relative to it (`chk-3/_metadata`), so nothing
outside can be named. What implementations promise:

* `put_if_absent` and `write` return only when the file is whole and durable, or raise.
  `StorageError` means that nothing changed; `UnknownOutcomeError` that it may have. No reader ever
  sees a part of a file.
* `rename` makes a file visible under another name, at once and as a whole: a rename on disks, a
  copy inside the server followed by a deletion on object stores. After a crash the file has one
  name or both, and never none.
* With `deferred=True` the content is durable on return but its *name* is so only after `flush` of
  its directory; this makes one directory sync serve many files.
* It never makes directories: a late writer must not bring an aborted checkpoint's directory back.
  Storages without directories do not mind.
* `delete` of what is not there is fine.
* `list` is for the sweep and for error messages. Nothing that decides about a checkpoint relies on
  it, except numbered records on storages whose listing is consistent (`numbered_records`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from penstock.files.errors import (
    CapabilityError,
    ContentError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.private import replacing

if TYPE_CHECKING:
    from penstock.core.versioned import Cell

LIMIT_KEY_BYTES: Final = 1024
PIECE_BYTES: Final = 1 << 20
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_NO_SEGMENTS: Final = frozenset(("", ".", ".."))


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes somewhere."""

    size_bytes: int
    sha256: str  # Hex digest; empty if it is not known, and then not checked.
    # Starts reading from the beginning; a retry calls it again.
    open: Callable[[], Iterator[bytes]]
    # A file of this process with these bytes and no others: a storage on its volume may link it.
    link: Path | None = None

    @classmethod
    def of_bytes(cls, data: bytes) -> Content:
        """Bytes in memory."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), lambda: iter((data,)))

    @classmethod
    def of_file(
        cls, path: Path, size_bytes: int, sha256: str, *, may_link: bool = False
    ) -> Content:
        """A local file that must still be what its handle says.

        Args:
            path: The file.
            size_bytes: Its length.
            sha256: Its checksum.
            may_link: Whether nothing ever writes to it again, and the checksum was made of what
                was written to it: then a storage need not read it.
        """
        link = path if may_link else None
        return cls(size_bytes, sha256, lambda: _pieces_of_file(path), link)

    def pieces(self, what: str) -> Iterator[bytes]:
        """Reads all pieces and raises instead of ending when they are not what they must be.

        Raises:
            ContentError: Length or checksum differ.
        """
        return checked(self.open(), self.size_bytes, self.sha256, what)

    def read(self, what: str) -> bytes:
        """Reads everything, checked."""
        return b"".join(self.pieces(what))


def checked(pieces: Iterator[bytes], size_bytes: int, sha256: str, what: str) -> Iterator[bytes]:
    """Passes pieces on and compares length and checksum at the end.

    Raises:
        ContentError: They differ; the text has both.
    """
    digest = hashlib.sha256()
    size = 0
    for piece in pieces:
        if sha256:
            digest.update(piece)
        size += len(piece)
        if size > size_bytes:
            break
        yield piece
    if size != size_bytes:
        more = "more than " if size > size_bytes else ""
        raise ContentError(
            f"{what} has {more}{min(size, size_bytes):,} bytes, expected {size_bytes:,}. It was "
            "truncated or replaced; choose another checkpoint."
        )
    if sha256 and digest.hexdigest() != sha256:
        raise ContentError(
            f"{what} has SHA-256 {digest.hexdigest()}, expected {sha256} ({size:,} bytes). Its "
            "content is damaged; choose another checkpoint."
        )


def _digest(pieces: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _pieces_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a storage can promise."""

    # Of many writers of one name exactly one succeeds, and listing is consistent.
    atomic_create: bool
    cas: bool  # `swap` replaces a file only if it is still the expected one.
    directories: bool = True  # Else names are prefixes: there is nothing to make or to sync.


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in a listing."""

    key: str
    size_bytes: int
    modified_ms: int
    version: str  # Differs between two contents of one name.


class Storage(ABC):
    """One directory of stored files.

    Attributes:
        url: Where it is; absolute, without a slash at the end.
        capabilities: What it promises.
    """

    url: str
    capabilities: Capabilities

    @abstractmethod
    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        """Writes a file under a new name.

        Raises:
            ObjectExistsError: The name is taken.
            ObjectMissingError: The directory does not exist (any more).
            ContentError: `content` is not what it says; nothing was written.
            StorageError: It failed, nothing was written.
            UnknownOutcomeError: It may have been written.
        """

    @abstractmethod
    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        """Writes a file, in place of one that has the name; raises as `put_if_absent` does."""

    @abstractmethod
    def rename(self, key: str, new: str) -> None:
        """Gives a file another name, in place of a file that has it.

        Raises:
            ObjectMissingError: There is no such file.
            UnknownOutcomeError: It may have either name, or both.
        """

    @abstractmethod
    def pieces(self, key: str) -> Iterator[bytes]:
        """Reads a file piece by piece, unchecked; prefer `read`, `download` and `check`.

        Raises:
            ObjectMissingError: There is no such file.
        """

    @abstractmethod
    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        """Reads a part of a file, which must have it.

        Raises:
            ObjectMissingError: There is no such file.
            StorageError: It has no such part.
        """

    @abstractmethod
    def entry(self, key: str) -> Entry | None:
        """Returns what a listing says of a file, or None when it does not exist."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes a file; fine when it is not there."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Entry]:
        """Lists files below a directory, at any depth."""

    def flush(self, directory: str) -> None:
        """Makes the names of deferred files of a directory durable.

        Raises:
            UnknownOutcomeError: They may be durable or not.
        """

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        """Makes a directory and what is above it.

        Where names are prefixes there is nothing to make: an exclusive one must not be in use.

        Raises:
            ObjectExistsError: `exclusive`, and it exists.
        """
        if key:
            check_key(key)
        if exclusive and any(True for _ in self.list(key)):
            raise ObjectExistsError(f"{self.url_of(key)} exists already.")

    def remove_directory(self, key: str) -> None:
        """Removes a directory if it is empty; otherwise leaves it, without an error."""

    def load_tagged(self, key: str) -> Cell | None:
        """Returns a file with the tag of exactly this content, or None when it does not exist."""
        raise CapabilityError(f"{self.url} has no compare-and-set.")

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replaces a file if it still has the tag; None means that it must not exist.

        Raises:
            SwapRejectedError: It has another tag.
            SwapUnknownError: The request may have taken effect.
            StorageError: It failed and changed nothing.
        """
        raise CapabilityError(f"{self.url} has no compare-and-set.")

    def prepare(self, local: Path) -> None:
        """Does ahead what a put of this local file, if it may be linked, would wait for."""

    # -- the same for all ---------------------------------------------------------------------

    def put_named(self, key: str, content: Content, *, deferred: bool = False) -> None:
        """Writes a file that nothing names yet, and whose name holds its checksum.

        Raises:
            ObjectExistsError: The name is taken by something else.
            StorageError: It is not durable; should it appear later, it is an orphan.
        """
        try:
            self.put_if_absent(key, content, deferred=deferred)
        except ObjectExistsError:
            # Our own file of an earlier try, or a damaged one.
            if not self.holds(key, content):
                raise
        except UnknownOutcomeError as error:
            raise StorageError(str(error)) from error

    def pinned(self) -> Storage:
        """Returns the same storage, bound to the directory that its links lead to now."""
        return self

    def url_of(self, key: str) -> str:
        """Returns the absolute place of a key."""
        return f"{self.url}/{key}" if key else self.url

    def size(self, key: str) -> int | None:
        """Returns the length of a file, or None when it does not exist."""
        found = self.entry(key)
        return None if found is None else found.size_bytes

    def exists(self, key: str) -> bool:
        """Whether a file exists."""
        return self.entry(key) is not None

    def open(self, key: str) -> BinaryIO:
        """Opens a file as a stream that can seek.

        Raises:
            ObjectMissingError: There is no such file.
        """
        size_bytes = self.size(key)
        if size_bytes is None:
            raise ObjectMissingError(f"cannot read {self.url_of(key)}: it does not exist.")
        return cast("BinaryIO", io.BufferedReader(_Ranges(self, key, size_bytes), PIECE_BYTES))

    def read(self, key: str, *, size_bytes: int | None = None, sha256: str = "") -> bytes:
        """Reads a file; with `size_bytes` and `sha256` it is checked.

        Raises:
            ContentError: It is not what was expected.
        """
        if size_bytes is None:
            return b"".join(self.pieces(key))
        return b"".join(checked(self.pieces(key), size_bytes, sha256, self.url_of(key)))

    def check(self, key: str, size_bytes: int, sha256: str) -> None:
        """Reads a file to compare it, without keeping it.

        Raises:
            ContentError: It is not what was expected.
        """
        for _ in checked(self.pieces(key), size_bytes, sha256, self.url_of(key)):
            pass

    def download(self, key: str, target: Path, size_bytes: int, sha256: str) -> None:
        """Copies a file into a local one, which appears only when it is whole and right."""
        try:
            with replacing(target) as file:
                for piece in checked(self.pieces(key), size_bytes, sha256, self.url_of(key)):
                    file.write(piece)
        except OSError as error:
            raise StorageError(
                f"{self.url_of(key)} cannot be copied to {target}: {error.strerror or error}."
            ) from error

    def content(self, key: str, size_bytes: int, sha256: str) -> Content:
        """Returns a stored file as content, to copy it elsewhere."""
        return Content(size_bytes, sha256, lambda: self.pieces(key))

    def holds(self, key: str, content: Content) -> bool:
        """Whether a file exists with exactly this content."""
        if self.size(key) != content.size_bytes:
            return False
        return _digest(self.pieces(key)) == (content.sha256 or _digest(content.open()))


class RemoteStorage(Storage):
    """Base of storages that a client library asks."""

    client_errors: tuple[type[Exception], ...] = (OSError,)

    @contextlib.contextmanager
    def _request(self, verb: str, key: str, *, unknown: bool = False) -> Iterator[None]:
        """Makes errors of ours of the client's; `unknown` of requests that may have had effect."""
        try:
            yield
        except self.client_errors as error:
            raise self._failed(verb, key, error, unknown=unknown) from error

    def _failed(
        self, verb: str, key: str, error: Exception, *, unknown: bool = False
    ) -> StorageError | UnknownOutcomeError:
        reason, remedy = self._said(error)
        text = f"cannot {verb} {self.url_of(key)}: {reason}"
        if isinstance(error, FileNotFoundError):
            return ObjectMissingError(text)
        if remedy is not None:
            return StorageError(f"{text}{remedy}", retryable=False)
        return UnknownOutcomeError(text) if unknown else StorageError(text)

    @abstractmethod
    def _said(self, error: Any) -> tuple[str, str | None]:
        """Returns the reason of an error; and what to do, if the same request would fail again."""


class _Ranges(io.RawIOBase):
    """A stored file as a stream."""

    def __init__(self, storage: Storage, key: str, size_bytes: int) -> None:
        self._storage = storage
        self._key = key
        self._size = size_bytes
        self._at = 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = max(0, min(len(buffer), self._size - self._at))
        if wanted:
            buffer[:wanted] = self._storage.read_range(self._key, self._at, wanted)
            self._at += wanted
        return wanted

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def behind_the_end(url: str, start: int, size_bytes: int) -> StorageError:
    """Returns the error of a read of a part that a file does not have."""
    return StorageError(
        f"cannot read {size_bytes:,} bytes from position {start:,} of {url}: it ends before.",
        retryable=False,
    )


def check_key(key: str) -> str:
    """Returns a key that names something inside the storage.

    Raises:
        StorageError: It could lead outside, or storages disagree about it.
    """
    wrong = (
        not _NO_SEGMENTS.isdisjoint(key.split("/"))
        or _CONTROL.search(key) is not None
        or len(key.encode("utf-8", "surrogatepass")) > LIMIT_KEY_BYTES
    )
    if wrong:
        raise StorageError(
            f"{key[:200]!r} is not a name inside a directory: it needs parts joined by "
            f"'/', none of them empty, '.' or '..', at most {LIMIT_KEY_BYTES} bytes in all.",
            retryable=False,
        )
    return key
