"""Where input files live: the local file system, or any storage that checkpoints may be on.

A file is known by path, size and version. The version is the time of its last change on disks, else
what the storage says changes with the content; two versions that differ mean another content.
"""

from __future__ import annotations

import glob
import os
from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Generic, TypeVar
from urllib.parse import unquote, urlsplit

from penstock.connectors.source import SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.files.urls import canonical_url, shared_storages

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.files.contract import Entry, Storage

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file as it was when it was found."""

    path: str  # Absolute path, or URL.
    size_bytes: int
    # Nanoseconds of the last change for local files, else a text of the storage.
    version: int | str

    def split(self, name: str, position: Any = 0, **more: Any) -> Split:
        """Returns a split of the file, with what else its reader needs."""
        data = {"path": self.path, "size": self.size_bytes, "version": self.version}
        return Split(f"{self.path}#{name}", {**data, **more}, position)

    def describe(self) -> str:
        """Returns size and version for an error."""
        version = str(self.version)
        if isinstance(self.version, int):
            version = datetime.fromtimestamp(self.version / 1e9, UTC).isoformat(" ", "microseconds")
        return f"{self.size_bytes} bytes, changed {version}"


def normalize(path: str) -> str:
    """Makes a path absolute, so that every worker understands it, and `file:` URLs plain."""
    text = os.fspath(path)
    if text.startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ProgramError(
                f"{text} names the host {parts.netloc!r}; write file:///directory/file instead."
            )
        text = unquote(parts.path)
    elif "://" in text:
        return canonical_url(text)
    if not text:
        raise ProgramError("an empty path was given; name a file, a directory or a pattern.")
    return os.path.abspath(os.path.expanduser(text))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Finds and opens input files."""

    # Of the storages; they may be secret.
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def find(self, path: str, *, recursive: bool, may_be_missing: bool = False) -> list[InputFile]:
        """Returns the file itself, or what the directory or pattern holds, without hidden files.

        Args:
            path: A file, a directory or a pattern; a pattern may match nothing.
            recursive: Whether directories in a directory are read too.
            may_be_missing: Whether a directory of a storage may not exist yet; object stores have
                no empty ones.

        Raises:
            InputError: The path does not exist.
        """
        if "://" not in path:
            return _local_files(path, recursive=recursive)
        storage, key = self.locate(path)
        below, patterns = _without_wildcards(key)
        found = []
        if not patterns and key and (entry := storage.entry(key)) is not None:
            return [_remote_file(storage, entry)]
        for entry in storage.list(below):
            parts = entry.key[len(below) :].strip("/").split("/")
            inside = _depth(parts, patterns)
            if inside is not None and (recursive or inside <= 1) and not any(map(is_hidden, parts)):
                found.append(_remote_file(storage, entry))
        if not (found or patterns or may_be_missing):
            raise InputError(f"the input path {path} does not exist, or there is no file in it.")
        return sorted(found, key=lambda file: file.path)

    def look_up(self, path: str) -> InputFile | None:
        """Returns the file as it is now, or None."""
        if "://" not in path:
            return look_up(path)
        storage, key = self.locate(path)
        entry = storage.entry(key)
        return None if entry is None else _remote_file(storage, entry)

    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading; the stream can seek."""
        if "://" not in path:
            return Path(path).open("rb", buffering=0)
        storage, key = self.locate(path)
        return storage.open(key)

    def check_unchanged(self, found: InputFile) -> None:
        """Fails when a file is not what it was when it was found."""
        now = self.look_up(found.path)
        if now == found:
            return
        state = "it no longer exists" if now is None else f"now it has {now.describe()}"
        raise JobExecutionError(
            f"the input file {found.path} changed while the job read it: it was found with "
            f"{found.describe()}; {state}. Files must be complete when they appear under the input "
            "path (write elsewhere, then rename) and stay until they have been read."
        )

    def locate(self, url: str) -> tuple[Storage, str]:
        """Returns the storage of a URL, and the key in it.

        Raises:
            ConfigurationError: A package for its scheme is not installed.
        """
        return shared_storages(self.settings).locate(url)


Opened = TypeVar("Opened")


class FileReader(SourceReader, Generic[Opened]):
    """Base of readers of files; keeps the file of the last split open."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._path: str | None = None
        self._file: Any = None

    @abstractmethod
    def open_file(self, path: str) -> Opened:
        """Opens a file."""

    def opened(self, data: dict[str, Any]) -> Opened:
        """Returns the file of a split, which must be what it was when it was found."""
        found = InputFile(data["path"], data["size"], data["version"])
        self._inputs.check_unchanged(found)
        if self._file is None or self._path != found.path:
            self.close()
            self._file, self._path = self.open_file(found.path), found.path
        return self._file  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


PLAIN: Final = Inputs()
"""With no settings but those of the environment."""


def look_up(path: str) -> InputFile | None:
    """Returns a local file as it is now, or None."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return InputFile(path, status.st_size, status.st_mtime_ns)


def _without_wildcards(key: str) -> tuple[str, list[str]]:
    """Splits a key into the directory before its first wildcard, and the patterns from there on."""
    parts = key.split("/")
    for at, part in enumerate(parts):
        if not _WILDCARDS.isdisjoint(part):
            return "/".join(parts[:at]), parts[at:]
    return key, []


def _depth(parts: list[str], patterns: list[str]) -> int | None:
    """Returns how far below what matches the patterns a file lies: 0 if it matches itself.

    A directory without patterns matches what is in it, at 1. None if nothing matches.
    """
    if not patterns:
        return len(parts)
    if patterns[0] == "**":
        rests = (_depth(parts[at:], patterns[1:]) for at in range(len(parts) + 1))
        return next((depth for depth in rests if depth is not None), None)
    if parts and fnmatchcase(parts[0], patterns[0]):
        return _depth(parts[1:], patterns[1:])
    return None


def _remote_file(storage: Storage, entry: Entry) -> InputFile:
    return InputFile(storage.url_of(entry.key), entry.size_bytes, entry.version)


def is_hidden(name: str) -> bool:
    """Whether readers skip a name: not finished, or not data (`_temporary`, `_SUCCESS`)."""
    return name.startswith((".", "_"))


def _local_files(path: str, *, recursive: bool) -> list[InputFile]:
    if os.path.lexists(path):
        roots = [path]
    elif _WILDCARDS.isdisjoint(path):
        raise InputError(
            f"the input path {path} does not exist. Create it first, or give a pattern such "
            f"as {os.path.join(path, '*')}, which may match nothing."
        )
    else:
        matches = sorted(glob.glob(path, recursive=True))
        roots = [match for match in matches if not is_hidden(os.path.basename(match))]
    found: dict[str, InputFile] = {}
    for root in roots:
        names = _walk(root, recursive=recursive) if os.path.isdir(root) else [root]
        for name in names:
            file = look_up(name)
            if file is not None:
                found[name] = file
    return list(found.values())


def _walk(root: str, *, recursive: bool) -> list[str]:
    """Returns paths of all files below a directory, sorted, without hidden names."""
    found: list[str] = []
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # A link to a directory above would never end.
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if recursive and not is_hidden(name))
        found += [os.path.join(folder, name) for name in sorted(names) if not is_hidden(name)]
    return found


# A stretch of a file in memory, so that small reads in order cost few system calls.
#
# The window is a cache only: `load` gives the same bytes whatever was loaded before. Compressed and
# transcoded files are seen through it as the plain stream inside; going back opens them again.

_FETCH_BYTES: Final = 2 * 1024 * 1024


class ByteWindow:
    """Random access to a stream, cheap in ascending order.

    Args:
        open_stream: Opens the stream at its beginning.
        seekable: Whether the stream may be positioned; otherwise it is read forwards.
    """

    def __init__(self, open_stream: Callable[[], BinaryIO], *, seekable: bool) -> None:
        self._open_stream = open_stream
        self._seekable = seekable
        self._stream: BinaryIO | None = None
        self._stream_at = 0
        self._buffer = b""
        self._start = 0
        self._at_end = False

    def load(self, position: int, size: int) -> tuple[bytes, int, bool]:
        """Makes `size` bytes from `position` available, or all that there are.

        Returns:
            A buffer, the index of `position` in it, and whether the buffer ends where the stream
            ends.
        """
        offset = position - self._start
        if not 0 <= offset <= len(self._buffer):
            self._buffer, self._start, self._at_end = b"", position, False
            offset = 0
        missing = size - (len(self._buffer) - offset)
        if missing > 0 and not self._at_end:
            more = self._fetch(self._start + len(self._buffer), max(missing, _FETCH_BYTES))
            self._buffer = self._buffer[offset:] + more
            self._start = position
            offset = 0
        return self._buffer, offset, self._at_end

    def _fetch(self, position: int, size: int) -> bytes:
        stream = self._positioned(position)
        parts: list[bytes] = []
        while size > 0:
            part = stream.read(size)
            if not part:
                self._at_end = True
                break
            parts.append(part)
            size -= len(part)
            self._stream_at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _positioned(self, position: int) -> BinaryIO:
        if self._stream is not None and not self._seekable and position < self._stream_at:
            self.close()
        if self._stream is None:
            self._stream = self._open_stream()
            self._stream_at = 0
        if self._stream_at != position:
            if self._seekable:
                self._stream.seek(position)
                self._stream_at = position
            else:
                self._skip(self._stream, position)
        return self._stream

    def _skip(self, stream: BinaryIO, position: int) -> None:
        while self._stream_at < position:
            part = stream.read(min(position - self._stream_at, _FETCH_BYTES))
            if not part:
                raise JobExecutionError(
                    f"position {position} is behind the end of the file, at {self._stream_at}; "
                    "the file became shorter since it was read last."
                )
            self._stream_at += len(part)

    def close(self) -> None:
        """Closes the stream; the next `load` opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._stream_at = 0
