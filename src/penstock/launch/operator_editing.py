"""Writes the state of one operator for a savepoint that is edited."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.manifest import OperatorRecord
from penstock.checkpoint.snapshot import local_keyed_state
from penstock.core.clock import EpochClock
from penstock.core.errors import ProgramError, StateError
from penstock.core.keygroups import MIN_MAX_PARALLELISM
from penstock.core.times import MIN_WATERMARK
from penstock.launch.job_snapshot import state_records, subtask_record, uid_hash
from penstock.runtime.records import OperatorVersion
from penstock.state.backend import create_backend
from penstock.state.heap import HASHMAP
from penstock.state.operator_codec import LogicState, encode_logic, facts_of, schemas_of
from penstock.state.operator_state import OperatorState
from penstock.state.pickles import Pickles, is_hidden
from penstock.state.rescaling import import_version
from penstock.state.schema import is_data

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StateRecord
    from penstock.core.file_area import FileArea
    from penstock.launch.snapshot_reader import Snapshot
    from penstock.state.descriptors import StateDescriptor
    from penstock.state.keyed import KeyedState


@dataclasses.dataclass(slots=True)
class OperatorEdit:
    """What becomes of one operator."""

    # New content of keyed states: (descriptor, (key, value) pairs). Values of a list state are
    # lists, of a map state dicts.
    keyed: list[tuple[StateDescriptor, Iterable[tuple[Any, Any]]]] = dataclasses.field(
        default_factory=list
    )
    # New content of list states: (descriptor, elements, whether it is a union state).
    lists: list[tuple[Any, Iterable[Any], bool]] = dataclasses.field(default_factory=list)
    # New content of broadcast states: (descriptor, entries).
    broadcast: list[tuple[Any, dict[Any, Any]]] = dataclasses.field(default_factory=list)


def edited(  # noqa: PLR0913, PLR0917 - an operator, old and new
    uid: str,
    change: OperatorEdit,
    old: OperatorRecord | None,
    source: Snapshot | None,
    area: FileArea,
    max_parallelism: int | None,
) -> OperatorRecord:
    """Returns the operator as one subtask that holds everything; jobs deal it out when they start.

    Raises:
        StateError: What stays is pickled, and pickles may not be read; or a value is not of its
            declared type.
    """
    limit = max_parallelism or (MIN_MAX_PARALLELISM if old is None else old.max_parallelism)
    try:
        keyed = _keyed(uid, change, old, source, area, limit)
        saved = [] if old is None or source is None else _saved(source, old.uid, change)
    except StateError as error:
        raise StateError(
            f"operator {uid!r} cannot be written again: {error} To have its pickles read, which "
            "runs code that they hold, say unpickle=True."
        ) from error
    own = OperatorState(uid)
    own.restore([each.operator_state for each in saved], 0, 1, schemas_of(saved))
    _fill_own(own, change, uid)
    name = f"edited-{uid_hash(uid)}"
    version = None if keyed is None else keyed.commit(name)
    logic = area.write(f"{name}.logic", _logic_bytes(saved, own, uid))
    facts = facts_of(keyed, own)
    if keyed is not None:
        keyed.close()
    return OperatorRecord(
        uid=uid,
        uid_hash=uid_hash(uid),
        name=uid if old is None else old.name,
        parallelism=1,
        max_parallelism=limit,
        states=_records(facts, old),
        subtasks=(subtask_record(version, logic),),
        key_schema="" if old is None else old.key_schema,
    )


def _saved(source: Snapshot, uid: str, change: OperatorEdit) -> list[LogicState]:
    saved = source.logic(uid)
    replaced = {descriptor.name for descriptor, _, _ in change.lists}
    replaced |= {descriptor.name for descriptor, _ in change.broadcast}
    for each in saved:
        if len(saved) == 1 and is_hidden(each.logic):
            raise StateError("what it keeps for itself is pickled.")
        for name, (_, content) in each.operator_state.items():
            values = list(content.items()) if isinstance(content, dict) else content
            if name not in replaced and is_hidden(values):
                raise StateError(f"state {name!r} is pickled.")
        for name in replaced & each.operator_state.keys():
            del each.operator_state[name]
    return saved


def _records(facts: Any, old: OperatorRecord | None) -> tuple[StateRecord, ...]:
    """A state that was not touched stays what its record says, also its kind and its TTL."""
    before = {} if old is None else {record.name: record for record in old.states}
    described = {each.name for each in facts if each.is_described}
    records = state_records([OperatorVersion((), (), tuple(facts))])
    return tuple(
        record if record.name in described else before.get(record.name, record)
        for record in records
    )


def _keyed(  # noqa: PLR0913, PLR0917
    uid: str,
    change: OperatorEdit,
    old: OperatorRecord | None,
    source: Snapshot | None,
    area: FileArea,
    max_parallelism: int,
) -> KeyedState | None:
    versions = () if old is None else tuple(s.keyed for s in old.subtasks if s.keyed is not None)
    if not versions and not change.keyed:
        return None
    state = create_backend(HASHMAP, pickles=Pickles.ALLOW).create_state(
        0, max_parallelism - 1, max_parallelism, area, EpochClock(), uid
    )
    replaced = {descriptor.name for descriptor, _ in change.keyed}
    state.restore(())
    for version in versions:
        assert source is not None
        source.fetch(old.uid if old is not None else uid)
        unpickle = source.pickles is Pickles.ALLOW
        import_version(state, local_keyed_state(version), unpickle=unpickle, without=replaced)
    for descriptor, entries in change.keyed:
        write = _writer(state, descriptor)
        for key, value in entries:
            state.key = key
            write(value)
    return state


def _writer(state: KeyedState, descriptor: StateDescriptor) -> Callable[[Any], None]:
    target = state.get_state(descriptor)
    if descriptor.kind == "map":
        return target.put_all  # type: ignore[no-any-return]
    if descriptor.kind in {"value", "list"}:
        return target.update  # type: ignore[no-any-return]
    # What a reducing or aggregating state stores is the reduced value, or the accumulator.
    table = state.value_table(descriptor.name)
    return lambda value: table.put(state.key, None, value)


def _fill_own(own: OperatorState, change: OperatorEdit, uid: str) -> None:
    for descriptor, elements, is_union in change.lists:
        obtain = own.get_union_list_state if is_union else own.get_list_state
        obtain(descriptor).update(elements)
    for descriptor, entries in change.broadcast:
        broadcast = own.get_broadcast_state(descriptor)
        broadcast.clear()
        broadcast.put_all(entries)


def _logic_bytes(saved: list[LogicState], own: OperatorState, uid: str) -> bytes:
    """Watermarks begin at the slowest; what a logic keeps for itself survives one subtask only."""
    watermark = min((each.watermark for each in saved), default=MIN_WATERMARK)
    logic = saved[0].logic if len(saved) == 1 else None
    valves = saved[0].valves if len(saved) == 1 else None
    return encode_logic(watermark, logic, own, valves, Pickles.ALLOW, uid)


_KEYED_KINDS: Final = frozenset({"value", "list", "map", "reducing", "aggregating"})


def check_descriptor(descriptor: StateDescriptor, *kinds: str) -> None:
    """Checks a descriptor that somebody gives for new state.

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
