"""Pending output in files: what a subtask has for a sink waits there until a checkpoint completes.

The files are those of `WriterContext.area`, as files of state are: checkpoints and savepoints hold
them, and they are removed when the output has been committed, or when its attempt is dead. Small
ones travel in the committable itself. A committable is a dict:

    sink     the job, line and sink that wrote it, the same for all its subtasks and attempts
    place    process of the job, attempt, epoch, subtask: they only rise
    name     tells two attempts of one place apart
    records  how many
    size     bytes in all files
    files    handles
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.sink import Committer
from penstock.core.errors import JobExecutionError, StateError
from penstock.core.handles import FileHandle

if TYPE_CHECKING:
    from penstock.connectors.sink import WriterContext
    from penstock.files.area import FileArea

_FILE_BYTES: Final = 4 << 20
"""About so much lies in one file, so that a subtask holds no more of an epoch in memory."""
_READABLE: Final = 200

Item = dict[str, Any]


def sink_name(context: WriterContext) -> str:
    """Returns the name of a sink in its target: job, line and uid, if that is not too long."""
    name = "/".join(filter(None, (context.job_id, context.line, context.uid)))
    if len(name) <= _READABLE:
        return name
    return f"{name[:_READABLE]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class PendingFiles:
    """Collects the frames of one subtask and epoch."""

    def __init__(self, context: WriterContext) -> None:
        assert context.area is not None
        self._context = context
        self._area = context.area
        self._sink = sink_name(context)
        self._name = f"{context.attempt_id}-{context.subtask}"
        self._file_name = f"{self._name}-{hashlib.sha256(self._sink.encode()).hexdigest()[:8]}"
        self._frames = bytearray()
        self._handles: list[FileHandle] = []
        self._records = 0

    def add(self, frame: bytes, records: int) -> None:
        """Takes the bytes of so many records."""
        self._records += records
        self._frames += len(frame).to_bytes(8, "big")
        self._frames += frame
        if len(self._frames) >= _FILE_BYTES:
            self._write()

    def _write(self) -> None:
        name = f"{self._file_name}.pending.{len(self._handles)}"
        self._handles.append(self._area.write(name, bytes(self._frames)))
        self._frames = bytearray()

    def committables(self) -> list[Item]:
        """Returns the committable of what was added, if there is any."""
        if not self._records:
            return []
        if self._frames:
            self._write()
        context = self._context
        return [
            {
                "sink": self._sink,
                "place": [*context.attempt, context.epoch, context.subtask],
                "name": self._name,
                "records": self._records,
                "size": sum(handle.size_bytes for handle in self._handles),
                "files": [[h.name, h.size_bytes, h.sha256, h.inline] for h in self._handles],
            }
        ]


def files_of(item: Item) -> list[FileHandle]:
    """Returns the files that a committable names."""
    handles = [FileHandle(*each) for each in item["files"]]
    for handle in handles:
        if Path(handle.name).name != handle.name:  # A snapshot may come from anywhere.
            raise JobExecutionError(
                f"pending output has the name {handle.name!r}, which is not the name of a file. "
                "The snapshot was not written by Penstock; start from another one."
            )
    return handles


def frames_of(item: Item, area: FileArea) -> Iterator[memoryview]:
    """Yields the frames that a committable names, in the order in which they were added."""
    for handle in files_of(item):
        try:
            data = area.read(handle)
        except StateError as error:
            raise JobExecutionError(
                f"pending output cannot be read, {item['records']:,} records that have not been "
                f"committed: {error}"
            ) from None
        start, view = 0, memoryview(data)
        while start < len(data):
            length = int.from_bytes(view[start : start + 8], "big")
            start += 8
            yield view[start : start + length]
            start += length


def by_sink(committables: list[Item], key: str = "sink") -> dict[str, list[Item]]:
    """Returns committables by the sink that wrote them, each in their order.

    A job that goes on from the savepoint of another one commits what that one owed.
    """
    found: dict[str, list[Item]] = {}
    for item in sorted(committables, key=lambda item: tuple(item["place"])):
        found.setdefault(item[key], []).append(item)
    return found


def parts_of(
    items: list[Item], most_bytes: int, *, whole_epochs: bool = False
) -> Iterator[list[Item]]:
    """Yields what belongs into one transaction each: about so much, or one committable.

    Args:
        items: In their order.
        most_bytes: Of one transaction.
        whole_epochs: Whether output of one epoch stays together.
    """
    part: list[Item] = []
    size = 0
    depth = 3 if whole_epochs else 4
    for _, group in itertools.groupby(items, lambda item: item["place"][:depth]):
        together = list(group)
        more = sum(item["size"] for item in together)
        if part and size + more > most_bytes:
            yield part
            part, size = [], 0
        part += together
        size += more
    if part:
        yield part


class PendingCommitter(Committer):
    """Base of committers whose output waits in pending files."""

    def files(self, committable: Any) -> list[FileHandle]:
        return files_of(committable)


def covers(place: tuple[int, ...], name: str, item: Item) -> bool:
    """Whether a marker with this place and name says that a committable has been committed."""
    of_item = tuple(item["place"])
    return of_item < place or (of_item == place and item["name"] == name)
