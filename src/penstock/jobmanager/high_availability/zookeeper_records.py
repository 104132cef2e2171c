"""Versioned records in ZooKeeper: one node each, replaced on condition of its version.

    <path.root>/<cluster-id>/leader/latch                            the leader's lease
                            /execution-plans                         submitted jobs
                            /jobs/<job-id>/checkpoints               completed checkpoints
                            /jobs/<job-id>/checkpoint_id_counter     ids of checkpoints

ZooKeeper is for small nodes: what is longer than `INLINE_BYTES` goes to a file in the storage
directory, and the node says which, how long it is and its SHA-256. Such a file is written before
the node names it and deleted after the node names another; one whose write had no clear outcome
stays.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError, ObjectMissingError, UnknownOutcomeError
from penstock.checkpoint.storage.content import Content
from penstock.core.envelope import MAGIC_BYTES, DamagedError, seal, unseal
from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError

if TYPE_CHECKING:
    from penstock.checkpoint.storage.contract import CheckpointStorage
    from penstock.jobmanager.high_availability.zookeeper_client import ZooKeeper

INLINE_BYTES: Final = 4096
"""A record of the usual size, with the ids of the 64 writes it was built upon, stays below."""

_MAGIC: Final = b"\x93PENZOOK"
_VERSION: Final = 1
_TRIES: Final = 10


class _Elsewhere(msgspec.Struct, frozen=True):
    """Content of a node whose record is in a file."""

    name: str
    size_bytes: int
    sha256: str


class _Token(msgspec.Struct, frozen=True):
    """Which content of the node a cell is."""

    version: int
    name: str | None


class ZooKeeperRecord:
    """A record in a node.

    Args:
        zookeeper: The connection.
        path: Of the node.
        files: Shared directory for long records.
        file_prefix: Beginning of their names, such as `completedCheckpoint`.
        new_name: Gives twelve hex digits that are unique for ever.
    """

    is_safe = True

    def __init__(
        self,
        zookeeper: ZooKeeper,
        path: str,
        files: CheckpointStorage,
        file_prefix: str,
        new_name: Callable[[], str],
    ) -> None:
        self._zookeeper = zookeeper
        self._path = path
        self._files = files
        self._file_prefix = file_prefix
        self._new_name = new_name

    @property
    def place(self) -> str:
        return f"{self._zookeeper.place}{self._path}"

    def load(self) -> Cell | None:
        for _ in range(_TRIES):
            found = self._zookeeper.read(self._path)
            if found is None:
                return None
            data, version = found
            if data[:MAGIC_BYTES] != _MAGIC:
                return Cell(data, _Token(version, None))
            elsewhere = _decode(data, self.place)
            try:
                content = self._files.read(
                    elsewhere.name, size_bytes=elsewhere.size_bytes, sha256=elsewhere.sha256
                )
            except ObjectMissingError:
                # The node may name another file by now, and this one be gone for that reason.
                again = self._zookeeper.read(self._path)
                if again is not None and again[1] == version:
                    raise
                continue
            return Cell(content, _Token(version, elsewhere.name))
        raise UnknownOutcomeError(f"{self.place} changes faster than it can be read.")

    def swap(self, expected: Cell | None, data: bytes) -> None:
        name = None
        node = data
        if len(data) > INLINE_BYTES:
            name = f"{self._file_prefix}{self._new_name()}"
            self._files.make_directory("")
            self._files.put_if_absent(name, Content.of_bytes(data))
            digest = hashlib.sha256(data).hexdigest()
            node = seal(
                _MAGIC, _VERSION, msgspec.msgpack.encode(_Elsewhere(name, len(data), digest))
            )
        try:
            if expected is None:
                self._zookeeper.create(self._path, node)
            else:
                self._zookeeper.replace(self._path, node, expected.token.version)
        except SwapUnknownError:
            raise
        except (CheckpointError, SwapRejectedError):
            self._delete(name)
            raise
        if expected is not None:
            self._delete(expected.token.name)

    def remove(self) -> None:
        """Removes the record, for good; fine when it is not there.

        Raises:
            StorageError: It may still be there.
        """
        found = self._zookeeper.read(self._path)
        self._zookeeper.remove(self._path)
        if found is not None and found[0][:MAGIC_BYTES] == _MAGIC:
            self._delete(_decode(found[0], self.place).name)

    def _delete(self, name: str | None) -> None:
        if name is not None:
            with contextlib.suppress(CheckpointError):
                self._files.delete(name)


def _decode(data: bytes, place: str) -> _Elsewhere:
    _, view = unseal(data, magic=_MAGIC, newest=_VERSION, what=f"the node {place}")
    try:
        return msgspec.msgpack.decode(view, type=_Elsewhere)
    except msgspec.DecodeError as error:
        raise DamagedError(f"the node {place} is whole but malformed: {error}.") from error
