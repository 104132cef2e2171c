"""The invariants, watched from outside: storage, sinks, ids. A violation names the one it breaks:

I1   output holds each record of the input once
I2   state is the fold of what was committed; nothing of an aborted epoch is visible
I3   checkpoint ids rise, over failures and restores too
I4   nothing that an older leader does has an effect once a newer one has written
I5   every file that a retained checkpoint names exists
I6   the registry of shared files is the one rebuilt from the retained checkpoints
I7   once all is healed and swept, no file is left that nobody names
I8   once all is healed, the job goes on and checkpoints complete
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim_job import Manifest, tiles

from penstock.checkpoint.pointer import Pointer, decode_pointer
from penstock.core.versioned import decode_record

if TYPE_CHECKING:
    from sim_job import Committable, Snapshot
    from sim_store import SimStore

    from penstock.core.versioned import Cell


class ViolatedError(AssertionError):
    """An invariant does not hold."""


class Checks:
    """Hooks that the storage and the driver call."""

    store: SimStore

    def __init__(self) -> None:
        self.last_id = 0
        self.leader_epoch = 0
        self.pointer = Pointer()
        self.published: set[int] = set()
        self.last_published: Manifest | None = None
        self._writers: dict[str, int] = {}
        self.promised: set[str] = set()
        """Paths that the pointer names, that it may name any moment, or that a user owns."""
        self._owned_by_users: set[str] = set()
        self._possible: list[tuple[int, Pointer]] = []
        self.sunk: dict[str, Committable] = {}
        self._records: set[int] = set()

    # -- ids ----------------------------------------------------------------------------------

    def id_reserved(self, checkpoint_id: int) -> None:
        if checkpoint_id <= self.last_id:
            raise ViolatedError(f"I3: id {checkpoint_id} after {self.last_id}")
        self.last_id = checkpoint_id

    # -- the pointer --------------------------------------------------------------------------

    def swap_requested(self, name: str, expected: Cell | None, data: bytes) -> None:
        """From now on the pointer may change to this, as long as it holds what is expected."""
        if name == "pointer":
            pointer = decode_pointer(decode_record(data, name), name)
            self._possible.append((0 if expected is None else expected.token, pointer))
            self._renew_promises()

    def swap_impossible(self, name: str) -> None:
        """The last request is certain not to happen."""
        if name == "pointer":
            self._possible.pop()
            self._renew_promises()

    def swapped(self, name: str, data: bytes) -> None:
        record = decode_record(data, name)
        if record.leader_epoch < self._writers.get(name, 0):
            raise ViolatedError(f"I4: {name} written by {record.leader_epoch}, fenced")
        self._writers[name] = record.leader_epoch
        if name != "pointer":
            return
        self.leader_epoch = record.leader_epoch
        self.pointer = decode_pointer(record, name)
        for entry in self.pointer.completed:
            self._check_complete(entry.directory)
            if entry.checkpoint_id > max(self.published, default=0):
                self.last_published = self.store.objects[f"{entry.directory}/_metadata"]
            self.published.add(entry.checkpoint_id)
        ids = [entry.checkpoint_id for entry in self.pointer.completed]
        if ids != sorted(set(ids)):
            raise ViolatedError(f"the pointer names {ids}")
        token = self.store.cells["pointer"].token
        self._possible = [(before, each) for before, each in self._possible if before >= token]
        self._renew_promises()

    def _check_complete(self, directory: str) -> None:
        manifest = self.store.objects.get(f"{directory}/_metadata")
        if manifest is None:
            raise ViolatedError(f"I5: the pointer names {directory}, which has no _metadata")
        self.check_manifest(manifest)

    def check_manifest(self, manifest: Manifest) -> None:
        for path, file in manifest.files.items():
            if self.store.objects.get(path) != file:
                raise ViolatedError(f"I5: {manifest.directory} names {path}, which is gone")

    def _renew_promises(self) -> None:
        self.promised = set(self._owned_by_users)
        for pointer in (self.pointer, *(each for _, each in self._possible)):
            for entry in pointer.completed:
                manifest = self.store.objects.get(f"{entry.directory}/_metadata")
                if isinstance(manifest, Manifest):
                    self.promised.update((manifest.metadata, *manifest.files))

    def belongs_to_user(self, manifest: Manifest) -> None:
        """A savepoint that was reported, or a snapshot that somebody else owns."""
        self.check_manifest(manifest)
        self._owned_by_users.update((manifest.metadata, *manifest.files))
        self._renew_promises()

    # -- deletions ----------------------------------------------------------------------------

    def delete_requested(self, path: str, leader_epoch: int) -> None:
        if leader_epoch < self.leader_epoch:
            raise ViolatedError(f"I4: {path} deleted by {leader_epoch}, fenced")

    def deleting(self, path: str) -> None:
        if path in self.promised:
            raise ViolatedError(f"I5: {path} deleted, which is or may become referenced")

    # -- results ------------------------------------------------------------------------------

    def sink_commit(self, checkpoint_id: int, committable: Committable) -> None:
        if checkpoint_id not in self.published:
            raise ViolatedError(f"I2: output of {checkpoint_id} committed, never published")
        if committable.name in self.sunk:
            return
        self.sunk[committable.name] = committable
        for record in range(committable.low, committable.high):
            if record in self._records:
                raise ViolatedError(f"I1: record {record} twice in the output")
            self._records.add(record)

    def restored(self, snapshot: Snapshot) -> None:
        if not tiles([(file.low, file.high) for file in snapshot.files], snapshot.offset):
            raise ViolatedError(f"I2: state is not the fold of the first {snapshot.offset}")

    def finished(self, snapshot: Snapshot) -> None:
        self.restored(snapshot)
        if self._records != set(range(snapshot.offset)):
            lost = set(range(snapshot.offset)) - self._records
            raise ViolatedError(f"I1: lost {sorted(lost)}, or committed beyond {snapshot.offset}")
