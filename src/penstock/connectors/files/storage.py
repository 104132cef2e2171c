"""Where input files live: the local file system, or any other one through fsspec.

A file is known by path, size and version. The version is the time of its last change where there is
one, else whatever the storage offers instead; two versions that differ mean another content.
"""

from __future__ import annotations

import glob
import importlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from penstock.core.errors import InputError, ProgramError

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file as it was when it was found."""

    path: str  # Absolute path, or URL.
    size_bytes: int
    # Nanoseconds of the last change for local files, else a text of the storage.
    version: int | str

    def describe(self) -> str:
        """Returns size and version for an error."""
        version = str(self.version)
        if isinstance(self.version, int):
            version = datetime.fromtimestamp(self.version / 1e9, UTC).isoformat(" ", "microseconds")
        return f"{self.size_bytes} bytes, changed {version}"


class InputStorage(ABC):
    """What the file source asks of a file system."""

    @abstractmethod
    def files(self, path: str, *, recursive: bool) -> list[InputFile]:
        """Returns the file itself, or what the directory or pattern holds, without hidden files.

        A path that does not exist is an error; a pattern may match nothing.
        """

    @abstractmethod
    def look_up(self, path: str) -> InputFile | None:
        """Returns the file as it is now, or None."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading; the stream can seek."""


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
        return text
    if not text:
        raise ProgramError("an empty path was given; name a file, a directory or a pattern.")
    return os.path.abspath(os.path.expanduser(text))


def storage_of(path: str) -> InputStorage:
    """Returns the storage that a normalized path belongs to."""
    return RemoteStorage(path) if "://" in path else LocalStorage()


def is_hidden(name: str) -> bool:
    """Whether readers skip a name: not finished, or not data (`_temporary`, `_SUCCESS`)."""
    return name.startswith((".", "_"))


class LocalStorage(InputStorage):
    """Files that every worker finds under the same path."""

    def files(self, path: str, *, recursive: bool) -> list[InputFile]:
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
                file = self.look_up(name)
                if file is not None:
                    found[name] = file
        return list(found.values())

    def look_up(self, path: str) -> InputFile | None:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
        return InputFile(path, status.st_size, status.st_mtime_ns)

    def open(self, path: str) -> BinaryIO:
        return Path(path).open("rb", buffering=0)


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


class RemoteStorage(InputStorage):
    """Everything with a scheme, through fsspec and the package that it needs for the scheme."""

    def __init__(self, path: str) -> None:
        scheme = path.split("://", 1)[0]
        try:
            fsspec: Any = importlib.import_module("fsspec")
            self._fs: Any = fsspec.filesystem(scheme)
        except (ImportError, ValueError) as error:
            raise ProgramError(
                f"{path}: reading {scheme}:// needs the package fsspec and its part for {scheme} "
                f"({error}). Install them, or read through Spark: "
                "env.from_spark(spark.readStream...)."
            ) from error

    def files(self, path: str, *, recursive: bool) -> list[InputFile]:
        fs = self._fs
        if fs.isfile(path):
            return [self._file(fs.info(path))]
        if fs.isdir(path):
            depth = None if recursive else 1
            root = fs._strip_protocol(path).rstrip("/")
            found = fs.find(path, maxdepth=depth, detail=True)
        elif _WILDCARDS.isdisjoint(path):
            raise InputError(f"the input path {path} does not exist.")
        else:
            root = ""
            found = fs.glob(path, detail=True)
        files = []
        for name, info in sorted(found.items()):
            below = name[len(root) :].split("/") if root else [name.rsplit("/", 1)[-1]]
            if info["type"] == "file" and not any(is_hidden(part) for part in below):
                files.append(self._file(info))
        return files

    def look_up(self, path: str) -> InputFile | None:
        self._fs.invalidate_cache()
        try:
            return self._file(self._fs.info(path))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self._fs.open(path, "rb"))

    def _file(self, info: dict[str, Any]) -> InputFile:
        versions = ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")
        version = next((str(info[name]) for name in versions if info.get(name)), "unknown")
        return InputFile(self._fs.unstrip_protocol(info["name"]), int(info["size"]), version)
