"""`SavepointReader`: the state in a checkpoint or savepoint, as iterators and tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.inspection.reader import OperatorStateRow, Snapshot, StateRow

__all__ = ["OpenedSnapshot", "SavepointReader"]


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
