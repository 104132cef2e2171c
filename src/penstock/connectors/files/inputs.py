"""Where input files live: the local file system, or any other one through fsspec.

A file is known by path, size and version. The version is the time of its last change where there is
one, else whatever the storage offers instead; two versions that differ mean another content.
"""

from __future__ import annotations

import glob
import importlib
import os
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


def input_files(path: str, *, recursive: bool) -> list[InputFile]:
    """Returns the file itself, or what the directory or pattern holds, without hidden files.

    Raises:
        InputError: The path does not exist, and is no pattern; a pattern may match nothing.
    """
    files = _remote_files if "://" in path else _local_files
    return files(path, recursive=recursive)


def look_up(path: str) -> InputFile | None:
    """Returns the file as it is now, or None."""
    if "://" in path:
        remote = file_system(path)
        remote.invalidate_cache()
        try:
            return _remote_file(remote, remote.info(path))
        except FileNotFoundError:
            return None
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return InputFile(path, status.st_size, status.st_mtime_ns)


def open_input(path: str) -> BinaryIO:
    """Opens a file for reading; the stream can seek."""
    if "://" in path:
        return cast("BinaryIO", file_system(path).open(path, "rb"))
    return Path(path).open("rb", buffering=0)


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


def file_system(path: str) -> Any:
    """Returns what fsspec and the package for the scheme of a URL read with.

    Raises:
        ProgramError: One of them is not installed.
    """
    scheme = path.split("://", 1)[0]
    try:
        fsspec: Any = importlib.import_module("fsspec")
        return fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
        raise ProgramError(
            f"{path}: reading {scheme}:// needs the package fsspec and its part for {scheme} "
            f"({error}). Install them, or read through Spark: env.from_spark(spark.readStream...)."
        ) from error


def _remote_files(path: str, *, recursive: bool) -> list[InputFile]:
    fs = file_system(path)
    if fs.isfile(path):
        return [_remote_file(fs, fs.info(path))]
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
            files.append(_remote_file(fs, info))
    return files


def _remote_file(fs: Any, info: dict[str, Any]) -> InputFile:
    versions = ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")
    version = next((str(info[name]) for name in versions if info.get(name)), "unknown")
    return InputFile(fs.unstrip_protocol(info["name"]), int(info["size"]), version)
