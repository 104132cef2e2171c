"""Spark's log of a streaming query as plain data: what a query needs to go on at one batch.

`offsets/n` says where batch n ends, `commits/n` that it was taken, `sources/i` holds what a source
notes beside its offsets, such as the files it has listed. A query that is started on the files
returned here gives batch n again, as it was, and then goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

SOURCES: Final = "sources"
_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")


def captured(root: Path, batch: int, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files of a log from which a query goes on at a batch, by name.

    Args:
        root: The query's checkpoint location; the batch is being taken.
        batch: Number of the batch.
        before: What was captured at an earlier batch; files never change, so these are not read.
    """
    names = ["metadata", f"offsets/{batch}"]
    if batch:
        names += [f"offsets/{batch - 1}", f"commits/{batch - 1}"]
    for source in sorted((root / SOURCES).glob("*")):
        names += [f"{SOURCES}/{source.name}/{name}" for name in _needed(_visible(source))]
    return {name: before.get(name) or (root / name).read_bytes() for name in names}


def restore(root: Path, log: Mapping[str, bytes]) -> None:
    """Writes a log where there is none."""
    for name, content in log.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _visible(directory: Path) -> Iterator[str]:
    """Returns names of files below a directory, but for checksums and what is being written."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()


def _needed(names: Iterable[str]) -> list[str]:
    """Leaves out what the newest compacted entry of a log of files contains."""
    entries = {name: _ENTRY.fullmatch(name) for name in names}
    compacted = max(
        (int(entry[1]) for entry in entries.values() if entry and entry[2]), default=None
    )
    if compacted is None:
        return list(entries)
    return [
        name
        for name, entry in entries.items()
        if entry is None or int(entry[1]) > compacted or name == f"{compacted}.compact"
    ]
