"""Checkpoints and savepoints as data, without a job, Spark or a service.

`SavepointReader` reads them, `SavepointWriter` makes new ones: the nouns are those of Flink's State
Processor API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.inspection.editing import OperatorEdit, SavepointEdit
    from penstock.inspection.reader import OperatorStateRow, Snapshot, StateRow
    from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor

__all__ = ["OpenedSnapshot", "SavepointReader", "SavepointWriter"]


class SavepointReader:
    """Opens snapshots.

    with SavepointReader.read("savepoints/savepoint-582e17-0d1b2c3a4f5e") as savepoint:
        for row in savepoint.read_keyed_state("count"):
            print(row.state, row.key, row.value)
    """

    @staticmethod
    @contextmanager
    def read(path: str, *, unpickle: bool = False) -> Iterator[OpenedSnapshot]:
        """Opens the snapshot at a path: its directory or its `_metadata`.

        Args:
            path: A checkpoint or savepoint of any backend, on any storage.
            unpickle: Run the pickles in it, which may do anything: only for snapshots from which
                you would also start a job. Without it pickled values are shown as `<pickle, …>`.
        """
        from penstock.inspection.reader import open_snapshot

        with open_snapshot(path, unpickle=unpickle) as snapshot:
            yield OpenedSnapshot(snapshot)


class OpenedSnapshot:
    """A snapshot as long as its `with` block lasts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def uids(self) -> list[str]:
        """Returns the uids of the operators, in the order of the program."""
        return [record.uid for record in self._snapshot.operators()]

    def states(self, uid: str) -> list[dict[str, str]]:
        """Returns `name`, `kind`, `codec`, `type` and `ttl` of each state of an operator."""
        return [
            {
                "name": state.name,
                "kind": state.kind,
                "codec": state.value_codec or "pickle",
                "type": state.schema,
                "ttl": state.ttl,
            }
            for state in self._snapshot.operator(uid).states
        ]

    def read_keyed_state(self, uid: str, state: str | None = None) -> Iterator[StateRow]:
        """Yields entries of keyed state: state, kind, key, namespace, value.

        The namespace is None for state of functions, and the window for that of windows. The value
        of a map state's entry is (map key, value); a list comes as a whole or in several parts.
        """
        for row in self._snapshot.keyed_state(uid):
            if row.state and (state is None or row.state == state):
                yield row

    def read_timers(self, uid: str) -> Iterator[StateRow]:
        """Yields timers; the kind is `event_timer` or `processing_timer`, the value the time."""
        return (row for row in self._snapshot.keyed_state(uid) if not row.state)

    def read_operator_state(self, uid: str, state: str | None = None) -> Iterator[OperatorStateRow]:
        """Yields elements of list and union state, and (key, value) of broadcast state."""
        for row in self._snapshot.operator_state(uid):
            if state is None or row.state == state:
                yield row

    def read_list_state(self, uid: str, state: str) -> list[Any]:
        """Returns the elements of a list or union state of all subtasks, in their order."""
        return [row.value for row in self.read_operator_state(uid, state)]

    def read_broadcast_state(self, uid: str, state: str) -> dict[Any, Any]:
        """Returns a broadcast state; all subtasks hold the same."""
        return dict(row.value for row in self.read_operator_state(uid, state))

    def to_pandas(self, uid: str, state: str) -> Any:
        """Returns a keyed state as a pandas DataFrame of its keys and values."""
        from penstock.inspection.reader import to_pandas

        return to_pandas(self.read_keyed_state(uid, state))

    def to_spark(self, session: Any, uid: str, state: str) -> Any:
        """Returns a keyed state as a DataFrame of a Spark session; its values are in the driver."""
        from penstock.inspection.reader import to_spark

        return to_spark(session, self.read_keyed_state(uid, state))


class SavepointWriter:
    """Collects changes; `write` makes a savepoint of them. What it starts from stays as it is.

    SavepointWriter.from_existing_savepoint(old).remove_operator("audit").write("savepoints")
    """

    def __init__(self, edit: SavepointEdit) -> None:
        self._edit = edit

    @staticmethod
    def from_existing_savepoint(path: str, *, unpickle: bool = False) -> SavepointWriter:
        """Starts from a checkpoint or savepoint.

        Args:
            path: The snapshot.
            unpickle: Run the pickles of operators that are changed; others are copied unread.
        """
        from penstock.inspection.editing import SavepointEdit

        return SavepointWriter(SavepointEdit(base=str(path), unpickle=unpickle))

    @staticmethod
    def new_savepoint(max_parallelism: int = 128, parallelism: int = 1) -> SavepointWriter:
        """Starts from nothing, to bootstrap the state of a job.

        Args:
            max_parallelism: As the job will have it.
            parallelism: Into so many parts, by key group, state is written. A job of any
                parallelism starts from it; with the same one no part is read twice.
        """
        from penstock.inspection.editing import SavepointEdit

        return SavepointWriter(
            SavepointEdit(max_parallelism=max_parallelism, parallelism=parallelism)
        )

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leaves an operator out."""
        self._edit.removed.add(uid)
        return self

    def change_operator_identifier(self, old_uid: str, new_uid: str) -> SavepointWriter:
        """Gives an operator another uid."""
        self._edit.renamed[old_uid] = new_uid
        return self

    def set_max_parallelism(self, max_parallelism: int) -> SavepointWriter:
        """Gives all operators another max parallelism, with new key groups for their keys."""
        self._edit.max_parallelism = max_parallelism
        return self

    def with_keyed_state(
        self, uid: str, state_descriptor: StateDescriptor, entries: Iterable[tuple[Any, Any]]
    ) -> SavepointWriter:
        """Replaces a keyed state, or adds it; other states of the operator stay.

        Args:
            uid: The operator; one that is not there yet is added.
            state_descriptor: As in the program, with a declared type.
            entries: (key, value). The value of a list state is a list, of a map state a dict, of a
                reducing or aggregating state the reduced value or the accumulator.
        """
        from penstock.inspection.editing import check_descriptor

        check_descriptor(state_descriptor)
        self._operator(uid).keyed.append((state_descriptor, entries))
        return self

    def with_timers(
        self, uid: str, entries: Iterable[tuple[Any, int]], *, processing_time: bool = False
    ) -> SavepointWriter:
        """Adds timers of a keyed process function; those that are there stay.

        Args:
            uid: The operator; one that is not there yet is added.
            entries: (key, time in milliseconds).
            processing_time: Whether they are of processing time, not of event time.
        """
        self._operator(uid).timers.append((processing_time, entries))
        return self

    def with_list_state(
        self,
        uid: str,
        state_descriptor: ListStateDescriptor,
        elements: Iterable[Any],
        *,
        union: bool = False,
    ) -> SavepointWriter:
        """Replaces list state that belongs to no key, or adds it."""
        from penstock.inspection.editing import check_descriptor

        check_descriptor(state_descriptor, "list")
        self._operator(uid).lists.append((state_descriptor, list(elements), union))
        return self

    def with_broadcast_state(
        self, uid: str, state_descriptor: MapStateDescriptor, entries: Mapping[Any, Any]
    ) -> SavepointWriter:
        """Replaces broadcast state, or adds it."""
        from penstock.inspection.editing import check_descriptor

        check_descriptor(state_descriptor, "map")
        self._operator(uid).broadcast.append((state_descriptor, dict(entries)))
        return self

    def write(self, target: str) -> str:
        """Writes the savepoint into a new directory of `target`; returns its path."""
        from penstock.inspection.editing import write_edited

        return write_edited(self._edit, str(target))

    def _operator(self, uid: str) -> OperatorEdit:
        from penstock.inspection.editing import OperatorEdit

        return self._edit.operators.setdefault(uid, OperatorEdit())
