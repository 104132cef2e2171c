"""Reads a checkpoint or savepoint as data: which operators it holds, and what their state is.

    with open_snapshot("savepoints/savepoint-582e17-0d1b2c3a4f5e") as snapshot:
        for row in snapshot.keyed_state("count"):
            print(row.state, row.key, row.value)

State of a declared type is data and is shown as it is. Pickled state is shown as `Opaque`, unless
`unpickle=True`: pickles run code, so that is for snapshots from which you would also start a job.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import local_handle, local_keyed_state
from penstock.checkpoint.snapshot_load import LoadedSnapshot, download_files, load_snapshot
from penstock.core.errors import EnvironmentError_, install_extra
from penstock.core.row import Row
from penstock.files.area import FileArea
from penstock.files.urls import Storages, configured_storages
from penstock.operators.windows import windows as _windows  # noqa: F401 - namespaces of window state
from penstock.state.backend import read_entries
from penstock.state.operator_snapshot import LogicState, read_logic
from penstock.state.operator_state import BROADCAST, KINDS
from penstock.state.plain_serializer import Opaque, Pickles

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest, OperatorRecord, StoredHandle, SubtaskRecord


class StateRow(NamedTuple):
    """One entry of keyed state."""

    state: str  # Name of the state; "" for timers.
    kind: str  # `value`, `list`, `map`, `event_timer` or `processing_timer`.
    key: Any
    namespace: Any  # None for a function's own state; the window for that of a window.
    value: Any  # The value; the elements of a list; key and value of a map's entry; a timer's time.


class OperatorStateRow(NamedTuple):
    """One element of operator state."""

    state: str
    kind: str  # `operator-list`, `operator-union` or `operator-broadcast`.
    subtask: int  # Whose it is.
    value: Any  # The element; key and value of a broadcast map's entry.


class Snapshot:
    """A snapshot; files are fetched when they are first needed."""

    def __init__(
        self, storages: Storages, loaded: LoadedSnapshot, area: FileArea, pickles: Pickles
    ) -> None:
        self._storages = storages
        self.loaded = loaded
        self.area = area
        self.pickles = pickles
        self._fetched: set[str] = set()

    @property
    def manifest(self) -> Manifest:
        return self.loaded.manifest

    def operators(self) -> list[OperatorRecord]:
        """Returns the operators, in the order of the program."""
        return list(self.manifest.operators)

    def operator(self, uid: str) -> OperatorRecord:
        for record in self.manifest.operators:
            if record.uid == uid:
                return record
        known = ", ".join(repr(record.uid) for record in self.manifest.operators)
        raise CheckpointError(
            f"{self.loaded.directory} has no operator with uid {uid!r}; it has {known}."
        )

    def keyed_state(self, uid: str) -> Iterator[StateRow]:
        """Yields all keyed state of an operator, subtask by subtask."""
        for subtask in self.operator(uid).subtasks:
            yield from self.keyed_state_of(subtask)

    def keyed_state_of(self, subtask: SubtaskRecord) -> Iterator[StateRow]:
        if subtask.keyed is not None:
            self._bring(subtask.keyed.handles)
            version = local_keyed_state(subtask.keyed)
            for row in read_entries(version, self.area, self.pickles):
                yield StateRow(*row)

    def operator_state(self, uid: str) -> Iterator[OperatorStateRow]:
        """Yields list, union and broadcast state of an operator, subtask by subtask."""
        for index, saved in enumerate(self.logic(uid)):
            for name, (mode, content) in saved.operator_state.items():
                values = content.items() if mode == BROADCAST else content
                for value in values:
                    yield OperatorStateRow(name, KINDS[mode], index, value)

    def logic(self, uid: str) -> list[LogicState]:
        """Returns what each subtask of an operator keeps besides keyed state."""
        record = self.operator(uid)
        self._bring((*record.logic, *(handle for files in record.lists for handle in files)))
        lists = [[*map(local_handle, files)] for files in record.lists]
        return read_logic([*map(local_handle, record.logic)], lists, self.area, self.pickles)

    def state_names(self, uid: str) -> list[tuple[str, str]]:
        """Returns (name, kind) of the states of an operator, in order of their names."""
        record = self.operator(uid)
        named = {state.name: state.kind for state in record.states}
        for row in self.keyed_state(uid):
            if row.state:
                named.setdefault(row.state, row.kind)
        return sorted(named.items())

    def fetch(self, uid: str) -> OperatorRecord:
        """Brings the files of an operator here, checked; returns its record."""
        record = self.operator(uid)
        self._bring(record.handles)
        return record

    def _bring(self, handles: Sequence[StoredHandle]) -> None:
        missing = [handle for handle in handles if handle.name not in self._fetched]
        download_files(self._storages, self.loaded, self.area.directory, handles=missing)
        self._fetched.update(handle.name for handle in missing)


@contextmanager
def open_snapshot(
    path: str, storages: Storages | None = None, *, unpickle: bool = False
) -> Iterator[Snapshot]:
    """Opens the snapshot at a path, its directory or its `_metadata`; files are checked.

    Args:
        path: The snapshot.
        storages: Where to look; by default as the configuration in force says.
        unpickle: Run the pickles in it.

    Raises:
        CheckpointError: There is no snapshot.
        ContentError: A file is damaged.
    """
    found = storages or configured_storages()
    loaded = load_snapshot(found, path)
    with tempfile.TemporaryDirectory(prefix="penstock-read-") as directory:
        pickles = Pickles.ALLOW if unpickle else Pickles.OPAQUE
        yield Snapshot(found, loaded, FileArea(directory), pickles)


def to_pandas(rows: Iterable[StateRow]) -> Any:
    """Returns a DataFrame with `key`, `namespace` where there is one, `map_key` for maps, `value`.

    Values are Python objects, as functions see them.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise EnvironmentError_(
            f"state as a DataFrame needs pandas: {install_extra('pandas')}, or iterate over "
            "read_keyed_state()."
        ) from error
    found = list(_flat(rows))
    return pandas.DataFrame(found, columns=_columns(found))


def to_spark(session: Any, rows: Iterable[StateRow]) -> Any:
    """Returns the same as a DataFrame of a Spark session; rows become structs."""
    arrow = importlib.import_module("pyarrow")
    found = [{name: _plain(part) for name, part in row.items()} for row in _flat(rows)]
    columns = {name: [row.get(name) for row in found] for name in _columns(found)}
    return session.createDataFrame(arrow.table(columns))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in ("key", "namespace", "map_key", "value") if name in names] or [
        "key",
        "value",
    ]


def _flat(rows: Iterable[StateRow]) -> Iterator[dict[str, Any]]:
    for row in rows:
        flat = {"key": row.key}
        if row.namespace is not None:
            flat["namespace"] = row.namespace
        if row.kind == "map":
            flat["map_key"], flat["value"] = row.value
        else:
            flat["value"] = row.value
        yield flat


def _plain(value: Any) -> Any:
    """Returns a value as Arrow takes it."""
    if isinstance(value, Row):
        names = value._fields or tuple(f"f{place}" for place in range(len(value)))
        return dict(zip(names, map(_plain, value), strict=True))
    if type(value) is tuple:
        return {f"f{place}": _plain(part) for place, part in enumerate(value)}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, Opaque) or type(value).__module__.startswith("penstock."):
        return str(value)
    return value
