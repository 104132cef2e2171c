"""Makes a new savepoint: from another one with changes, or from nothing.

Operators that are not touched are copied byte for byte. Of one that is touched, the states that
stay are read and written again; where they are pickled, that needs `unpickle=True`. The savepoint
that it is made from is never changed.
"""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import (
    CheckpointProperties,
    JobSnapshot,
    Manifest,
    ManifestKind,
    OperatorRecord,
    local_keyed_state,
)
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_snapshot, stored_files
from penstock.checkpoint.uploads import (
    begin_savepoint,
    local_files,
    read_inline,
    write_savepoint,
)
from penstock.core.errors import ProgramError, StateError
from penstock.core.keygroups import (
    LIMIT_MAX_PARALLELISM,
    MIN_MAX_PARALLELISM,
    key_group,
    key_group_range,
    subtask_of,
)
from penstock.core.times import MIN_WATERMARK, EpochClock, SystemClock
from penstock.files.area import FileArea
from penstock.files.urls import Storages, configured_storages
from penstock.inspection.reader import Snapshot
from penstock.job.snapshot import state_records, subtask_record, uid_hash
from penstock.runtime.records import OperatorVersion
from penstock.state.backend import create_backend
from penstock.state.heap import HASHMAP
from penstock.state.keyed import FUNCTION, KeyedState
from penstock.state.operator_snapshot import (
    LogicState,
    encode_logic,
    facts_of,
    schemas_of,
    write_states,
)
from penstock.state.operator_state import OperatorState
from penstock.state.plain_serializer import Pickles, is_hidden
from penstock.state.schema import is_data
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StateRecord, StoredHandle, StoredKeyedState
    from penstock.files.contract import Content
    from penstock.state.descriptors import StateDescriptor

_INLINE_BYTES: Final = 20 * 1024
_THREADS: Final = 4


@dataclasses.dataclass(slots=True)
class SavepointEdit:
    """What a new savepoint is made of."""

    # Path of the savepoint or checkpoint that it is made from; None for an empty one.
    base: str | None = None
    # Of all operators, old and new; None keeps what the old ones have.
    max_parallelism: int | None = None
    parallelism: int = 1  # Subtasks of operators that are new.
    # Uids of operators that are left out.
    removed: set[str] = dataclasses.field(default_factory=set)
    renamed: dict[str, str] = dataclasses.field(default_factory=dict)  # New uids by old ones.
    # Changes by uid, the new one where it changes.
    operators: dict[str, OperatorEdit] = dataclasses.field(default_factory=dict)
    unpickle: bool = False  # Run the pickles of the operators that are changed.


def write_edited(edit: SavepointEdit, target: str) -> str:
    """Writes the new savepoint into a new directory of `target`; returns its path.

    Raises:
        CheckpointError: There is no such snapshot or operator; or it could not be written, and
            then nothing is left behind.
        ProgramError: A value is not of its declared type, or the changes contradict each other.
    """
    _check(edit)
    storages = configured_storages()
    loaded = None if edit.base is None else load_snapshot(storages, edit.base)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-edit-") as directory,
        ThreadPoolExecutor(_THREADS) as executor,
    ):
        area = FileArea(directory)
        snapshot = _edited(edit, loaded, storages, area)
        # Files of what was edited lie here; everything else is still where it was.
        own = old = local_files(directory)
        copied: set[tuple[str, str]] = set()
        if loaded is not None:
            old = stored_files(storages, loaded)
            copied = {(handle.name, handle.sha256) for handle in loaded.manifest.handles}

        def open_content(handle: StoredHandle) -> Content:
            return (old if (handle.name, handle.sha256) in copied else own)(handle)

        inline = read_inline(snapshot, _INLINE_BYTES, open_content)
        plan = begin_savepoint(
            storages.at(target), snapshot, _draft(loaded), inline=inline, new_uuid=_new_id
        )
        return write_savepoint(plan, open_content, executor).directory


def _check(edit: SavepointEdit) -> None:
    limit = edit.max_parallelism
    if limit is not None and not 1 <= limit <= LIMIT_MAX_PARALLELISM:
        raise ProgramError(
            f"max parallelism is {limit}; it must lie between 1 and {LIMIT_MAX_PARALLELISM}."
        )
    both = edit.removed & edit.operators.keys()
    if both:
        raise ProgramError(
            f"operators are both removed and written: {', '.join(sorted(both))}. To replace the "
            "whole of one, write it under the same uid into an empty savepoint."
        )


def _edited(
    edit: SavepointEdit, loaded: LoadedSnapshot | None, storages: Storages, area: FileArea
) -> JobSnapshot:
    old = JobSnapshot(epoch=0) if loaded is None else JobSnapshot.stored(loaded.manifest)
    known = {operator.uid for operator in old.operators}
    unknown = sorted((edit.removed | edit.renamed.keys()) - known)
    if unknown:
        raise CheckpointError(
            f"{edit.base or 'an empty savepoint'} has no operator {', '.join(unknown)}; it has "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    pickles = Pickles.ALLOW if edit.unpickle else Pickles.OPAQUE
    source = None if loaded is None else Snapshot(storages, loaded, area, pickles)
    operators = [
        _operator(edit, operator, source, area)
        for operator in old.operators
        if operator.uid not in edit.removed
    ]
    present = {operator.uid for operator in operators}
    if len(present) < len(operators):
        raise ProgramError("two operators would have one uid; give each its own.")
    for uid, change in edit.operators.items():
        if uid not in present:
            limit = edit.max_parallelism or MIN_MAX_PARALLELISM
            operators.append(edited(NewOperator(uid, area, limit, edit.parallelism), change, None))
    return dataclasses.replace(
        old,
        operators=tuple(operators),
        sources=_kept(old.sources, edit),
        sinks=_kept(old.sinks, edit),
        pending=_kept(old.pending, edit),
    )


def _operator(
    edit: SavepointEdit, operator: OperatorRecord, source: Snapshot | None, area: FileArea
) -> OperatorRecord:
    uid = edit.renamed.get(operator.uid, operator.uid)
    change = edit.operators.get(uid)
    limit = edit.max_parallelism
    is_kept = limit in (None, operator.max_parallelism) or not operator.has_keys
    if change is None and is_kept:
        limit = max(limit or operator.max_parallelism, operator.parallelism)
        return msgspec.structs.replace(
            operator, uid=uid, uid_hash=uid_hash(uid), max_parallelism=limit
        )
    assert source is not None
    new = NewOperator(uid, area, limit or operator.max_parallelism)
    return edited(new, change or OperatorEdit(), FormerOperator(operator, source))


def _kept(data: dict[str, Any], edit: SavepointEdit) -> dict[str, Any]:
    return {
        edit.renamed.get(uid, uid): value for uid, value in data.items() if uid not in edit.removed
    }


def _draft(loaded: LoadedSnapshot | None) -> Manifest:
    clock = SystemClock()
    if loaded is not None:
        return msgspec.structs.replace(
            loaded.manifest,
            kind=ManifestKind.SAVEPOINT_CANONICAL,
            created_ms=clock.wall_ms(),
            properties=CheckpointProperties(trigger="savepoint"),
        )
    return Manifest(
        job_id=_new_id(),
        job_name="(bootstrap)",
        checkpoint_id=1,
        kind=ManifestKind.SAVEPOINT_CANONICAL,
        created_ms=clock.wall_ms(),
        leader_epoch=1,
        epoch=0,
        penstock_version=__version__,
    )


def _new_id() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - names of new files, chosen where they are made


@dataclasses.dataclass(slots=True)
class OperatorEdit:
    """What becomes of one operator."""

    # New content of keyed states: (descriptor, (key, value) pairs). Values of a list state are
    # lists, of a map state dicts.
    keyed: list[tuple[StateDescriptor, Iterable[tuple[Any, Any]]]] = dataclasses.field(
        default_factory=list
    )
    # New timers: whether of processing time, (key, time) pairs.
    timers: list[tuple[bool, Iterable[tuple[Any, int]]]] = dataclasses.field(default_factory=list)
    # New content of list states: (descriptor, elements, whether it is a union state).
    lists: list[tuple[Any, list[Any], bool]] = dataclasses.field(default_factory=list)
    # New content of broadcast states: (descriptor, entries).
    broadcast: list[tuple[Any, dict[Any, Any]]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class FormerOperator:
    """An operator as a snapshot has it."""

    record: OperatorRecord
    source: Snapshot

    @property
    def versions(self) -> list[StoredKeyedState]:
        """Its keyed state, brought here."""
        self.source.fetch(self.record.uid)
        return [each.keyed for each in self.record.subtasks if each.keyed is not None]


@dataclasses.dataclass(frozen=True, slots=True)
class NewOperator:
    """An operator as it will be."""

    uid: str
    area: FileArea  # Where its files are written.
    max_parallelism: int
    parallelism: int = 1

    def owner(self, key: Any) -> int:
        group = key_group(key, self.max_parallelism)
        return subtask_of(group, self.parallelism, self.max_parallelism)


def edited(new: NewOperator, change: OperatorEdit, former: FormerOperator | None) -> OperatorRecord:
    """Returns the record of the operator; one that is not new has as many subtasks as before.

    Raises:
        StateError: What stays is pickled, and pickles may not be read; or a value is not of its
            declared type.
    """
    try:
        saved = [] if former is None else _saved(former, change)
        # With fewer key groups than subtasks one of them takes all.
        parallelism = len(saved) or new.parallelism
        parallelism = parallelism if parallelism <= new.max_parallelism else 1
        new = dataclasses.replace(new, parallelism=parallelism)
        keyed = _keyed(new, change, former)
    except StateError as error:
        raise StateError(
            f"operator {new.uid!r} cannot be written again: {error} To have its pickles read, "
            "which runs code that they hold, say unpickle=True."
        ) from error
    subtasks, versions = [], []
    for index in range(parallelism):
        parts = saved[index : index + 1] if len(saved) == parallelism else saved
        own = OperatorState(new.uid)
        own.restore([each.operator_state for each in parts], 0, 1, schemas_of(parts))
        _fill_own(own, change, index, parallelism)
        state = keyed[index] if keyed else None
        name = f"edited-{uid_hash(new.uid)}-{index}"
        version = None if state is None else state.commit(name)
        logic = new.area.write(f"{name}.logic", _logic_bytes(parts, new.uid))
        lists = write_states(own, new.area, name, Pickles.ALLOW, new.uid)
        subtasks.append(subtask_record(version, logic, lists))
        versions.append(OperatorVersion((), (), (), facts_of(state, own)))
        if state is not None:
            state.close()
    old = None if former is None else former.record
    return OperatorRecord(
        uid=new.uid,
        uid_hash=uid_hash(new.uid),
        name=new.uid if old is None else old.name,
        parallelism=parallelism,
        max_parallelism=new.max_parallelism,
        states=_records(versions, old),
        subtasks=tuple(subtasks),
        key_schema="" if old is None else old.key_schema,
    )


def _saved(former: FormerOperator, change: OperatorEdit) -> list[LogicState]:
    saved = former.source.logic(former.record.uid)
    replaced = {descriptor.name for descriptor, _, _ in change.lists}
    replaced |= {descriptor.name for descriptor, _ in change.broadcast}
    for each in saved:
        if is_hidden(each.logic):
            raise StateError("what it keeps for itself is pickled.")
        for name, (_, content) in each.operator_state.items():
            values = list(content.items()) if isinstance(content, dict) else content
            if name not in replaced and is_hidden(values):
                raise StateError(f"state {name!r} is pickled.")
        for name in replaced & each.operator_state.keys():
            del each.operator_state[name]
    return saved


def _records(
    versions: list[OperatorVersion], old: OperatorRecord | None
) -> tuple[StateRecord, ...]:
    """A state that was not touched stays what its record says, also its kind and its TTL."""
    before = {} if old is None else {record.name: record for record in old.states}
    described = {each.name for version in versions for each in version.states if each.is_described}
    return tuple(
        record if record.name in described else before.get(record.name, record)
        for record in state_records(versions)
    )


def _keyed(
    new: NewOperator, change: OperatorEdit, former: FormerOperator | None
) -> list[KeyedState]:
    """Returns the keyed state of each subtask; nothing where there is none."""
    versions = [] if former is None else former.versions
    if not (versions or change.keyed or change.timers):
        return []
    backend = create_backend(HASHMAP, pickles=Pickles.ALLOW)
    limit = new.max_parallelism
    ranges = [key_group_range(each, new.parallelism, limit) for each in range(new.parallelism)]
    states = [
        backend.create_state(first, last, limit, new.area, EpochClock(), new.uid)
        for first, last in ranges
    ]
    replaced = {descriptor.name for descriptor, _ in change.keyed}
    for state, (first, last) in zip(states, ranges, strict=True):
        state.restore(())
        for version in versions:
            assert former is not None
            regroups = former.record.max_parallelism != limit
            if regroups or (version.first_key_group <= last and first <= version.last_key_group):
                unpickle = former.source.pickles is Pickles.ALLOW
                local = local_keyed_state(version)
                state.import_version(local, unpickle=unpickle, without=replaced)

    for descriptor, entries in change.keyed:
        writers = [_writer(state, descriptor) for state in states]
        for key, value in entries:
            index = new.owner(key)
            states[index].key = key
            writers[index](value)
    for is_processing, timers in change.timers:
        for key, time in timers:
            state = states[new.owner(key)]
            (state.processing_timers if is_processing else state.event_timers).add(time, key, None)
    return states


def _writer(state: KeyedState, descriptor: StateDescriptor) -> Callable[[Any], None]:
    target = state.get_state(descriptor)
    if descriptor.kind == "map":
        return target.put_all  # type: ignore[no-any-return]
    if descriptor.kind in {"value", "list"}:
        return target.update  # type: ignore[no-any-return]
    # What a reducing or aggregating state stores is the reduced value, or the accumulator.
    table = state.value_table(descriptor.name, FUNCTION)
    return lambda value: table.put(state.key, None, value)


def _fill_own(own: OperatorState, change: OperatorEdit, index: int, parallelism: int) -> None:
    for descriptor, elements, is_union in change.lists:
        obtain = own.get_union_list_state if is_union else own.get_list_state
        first, end = (len(elements) * each // parallelism for each in (index, index + 1))
        obtain(descriptor).update(elements[first:end])
    for descriptor, entries in change.broadcast:
        broadcast = own.get_broadcast_state(descriptor)
        broadcast.clear()
        broadcast.put_all(entries)


def _logic_bytes(saved: list[LogicState], uid: str) -> bytes:
    """Watermarks begin at the slowest; what a logic keeps for itself cannot be put together."""
    watermark = min((each.watermark for each in saved), default=MIN_WATERMARK)
    logic = saved[0].logic if len(saved) == 1 else None
    valves = saved[0].valves if len(saved) == 1 else None
    return encode_logic(watermark, logic, valves, Pickles.ALLOW, uid)


_KEYED_KINDS: Final = frozenset({"value", "list", "map", "reducing", "aggregating"})


def check_descriptor(descriptor: StateDescriptor, *kinds: str) -> None:
    """Checks a descriptor that is given for new state.

    Raises:
        ProgramError: It is of another kind, or declares no type.
    """
    wanted = kinds or tuple(sorted(_KEYED_KINDS))
    if getattr(descriptor, "kind", None) not in wanted:
        raise ProgramError(f"{descriptor!r} describes no {' or '.join(wanted)} state.")
    if not is_data(descriptor.schema):
        raise ProgramError(
            f"state {descriptor.name!r} has no declared type. A new savepoint holds data, never "
            f"pickles: declare it, such as ValueStateDescriptor({descriptor.name!r}, Types.LONG())."
        )
