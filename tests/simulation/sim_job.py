"""A small job: its source counts, its state remembers ranges, its output is ranges.

State is a set of immutable files, one per epoch, now and then compacted into one; so state is right
exactly if the ranges of its files tile the input up to the offset. Output is right exactly if the
committed ranges do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import PendingCheckpoint


@dataclass(frozen=True, slots=True)
class File:
    """A state file; `name` is unique for ever, the range is its content."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Committable:
    """Prepared output of one epoch of one attempt."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the job at the end of an epoch."""

    offset: int
    files: tuple[File, ...]
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class Handle:
    """A stored file, with the fields the registry reads."""

    file: File
    created_by: int
    size_bytes: int = 1

    @property
    def sha256(self) -> str:
        return self.file.name


@dataclass(frozen=True)
class Manifest:
    """Content of `_metadata`."""

    checkpoint_id: int
    directory: str
    is_savepoint: bool
    snapshot: Snapshot
    shared_files: dict[str, Handle] = field(default_factory=dict)
    own_files: dict[str, File] = field(default_factory=dict)
    unclaimed_up_to: int = 0

    @property
    def files(self) -> dict[str, File]:
        shared = {path: handle.file for path, handle in self.shared_files.items()}
        return shared | self.own_files

    @property
    def metadata(self) -> str:
        return f"{self.directory}/_metadata"


class Job:
    """What one attempt holds in memory."""

    def __init__(self, attempt: str, snapshot: Snapshot | None) -> None:
        self._attempt = attempt
        self.offset = 0 if snapshot is None else snapshot.offset
        self.files = () if snapshot is None else snapshot.files
        self.uncommitted = () if snapshot is None else snapshot.committables
        self.epoch = 0

    def run_epoch(self, records: int, *, compact: bool) -> None:
        """Reads some records, writes a state file and prepares output."""
        self.epoch += 1
        low, high = self.offset, self.offset + records
        if records:
            name = f"{self._attempt}.{self.epoch}"
            self.files = (*self.files, File(name, low, high))
            self.uncommitted = (*self.uncommitted, Committable(name, low, high))
            self.offset = high
        if compact and len(self.files) > 1:
            self.files = (File(f"{self._attempt}.{self.epoch}c", 0, self.offset),)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.offset, self.files, self.uncommitted)

    def committed(self, names: set[str]) -> None:
        """These need not be in later snapshots."""
        self.uncommitted = tuple(each for each in self.uncommitted if each.name not in names)


def plan_upload(pending: PendingCheckpoint, unclaimed_up_to: int, *, incremental: bool) -> Manifest:
    """Decides what is stored where: shared by incremental checkpoints, else private."""
    number, snapshot = pending.checkpoint_id, pending.snapshot
    is_savepoint = pending.is_savepoint
    directory = f"savepoint-{number}" if is_savepoint else f"chk-{number}"
    if is_savepoint or not incremental:
        own = {f"{directory}/{file.name}": file for file in snapshot.files}
        return Manifest(number, directory, is_savepoint, snapshot, {}, own, unclaimed_up_to)
    base: dict[str, Handle] = {}
    if pending.base is not None:
        assert isinstance(pending.base.details, Manifest)
        base = pending.base.details.shared_files
    by_name = {handle.file.name: path for path, handle in base.items()}
    shared = {}
    for file in snapshot.files:
        # Named as real files are: content, creation number, writer.
        path = by_name.get(file.name) or f"shared/{0:064x}-{number}-{file.name}"
        shared[path] = base.get(path) or Handle(file, number)
    return Manifest(number, directory, is_savepoint, snapshot, shared, {}, unclaimed_up_to)


def tiles(ranges: list[tuple[int, int]], end: int) -> bool:
    """Whether the ranges cover [0, end) without gap and overlap."""
    position = 0
    for low, high in sorted(ranges):
        if low != position:
            return False
        position = high
    return position == end
