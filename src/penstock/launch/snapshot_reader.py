"""Reads a checkpoint or savepoint as data: which operators it holds, and what their state is.

    with open_snapshot("savepoints/savepoint-582e17-0d1b2c3a4f5e") as snapshot:
        for row in snapshot.keyed_state("count"):
            print(row.state, row.key, row.value)

Values are unpickled: read only snapshots from which you would also start a job.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.checkpoint.downloads import download_files
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.snapshot import local_keyed_state
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_snapshot
from penstock.checkpoint.storage_open import Storages
from penstock.core.file_area import FileArea
from penstock.state.reader import read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.checkpoint.manifest import Manifest, OperatorRecord


class StateRow(NamedTuple):
    """One entry of keyed state.

    Attributes:
        state: Name of the state; "" for timers.
        kind: `value`, `list`, `map`, `event_timer` or `processing_timer`.
        key: The key.
        namespace: None for a function's own state; the window for that of a window.
        value: The value; an element of a list; key and value of a map's entry; a timer's time.
    """

    state: str
    kind: str
    key: Any
    namespace: Any
    value: Any


class Snapshot:
    """A snapshot whose files are at hand."""

    def __init__(self, loaded: LoadedSnapshot, area: FileArea) -> None:
        self._loaded = loaded
        self._area = area

    @property
    def manifest(self) -> Manifest:
        """Everything that `_metadata` says."""
        return self._loaded.manifest

    def operators(self) -> list[OperatorRecord]:
        """Returns the operators, in the order of the program."""
        return list(self.manifest.operators)

    def operator(self, uid: str) -> OperatorRecord:
        """Returns an operator by its uid."""
        for record in self.manifest.operators:
            if record.uid == uid:
                return record
        known = ", ".join(repr(record.uid) for record in self.manifest.operators)
        raise CheckpointError(
            f"{self._loaded.directory} has no operator with uid {uid!r}; it has {known}."
        )

    def keyed_state(self, uid: str) -> Iterator[StateRow]:
        """Yields all keyed state of an operator, subtask by subtask."""
        for subtask in self.operator(uid).subtasks:
            if subtask.keyed is not None:
                for row in read_entries(local_keyed_state(subtask.keyed), self._area):
                    yield StateRow(*row)

    def state_names(self, uid: str) -> list[tuple[str, str]]:
        """Returns (name, kind) of the states of an operator, in order of their names."""
        record = self.operator(uid)
        named = {(state.name, state.kind) for state in record.states}
        named.update((row.state, row.kind) for row in self.keyed_state(uid) if row.state)
        return sorted(named)


@contextmanager
def open_snapshot(path: str, storages: Storages | None = None) -> Iterator[Snapshot]:
    """Opens the snapshot at a path, its directory or its `_metadata`; files are fetched, checked.

    Raises:
        CheckpointError: There is no snapshot.
        ContentError: A file is damaged.
    """
    found = storages or Storages()
    loaded = load_snapshot(found, path)
    with tempfile.TemporaryDirectory(prefix="penstock-read-") as directory:
        download_files(found, loaded, directory)
        yield Snapshot(loaded, FileArea(directory))
