"""Compares two snapshots entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.inspection.contents import to_json
from penstock.inspection.reader import Snapshot, open_snapshot
from penstock.state.plain_serializer import is_hidden

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import OperatorRecord

_CHANGES: Final = ("added", "removed", "changed")
_MISSING: Final = object()

Entries = dict[Any, Any]
"""What identifies an entry of a state, and its value."""


def diff_snapshots(
    before: str, after: str, uid: str | None = None, *, limit: int = 20, unpickle: bool = False
) -> dict[str, Any]:
    """Returns what changed from one snapshot to another.

    Args:
        before: The older snapshot.
        after: The newer one.
        uid: Only this operator.
        limit: At most so many keys are named in each list.
        unpickle: As for `read_state`; without it pickled values cannot be compared.

    Returns:
        `before`, `after`, `is_same`, and `operators`: a list of dicts with `uid`, `change`
        (`added`, `removed`, `changed`, `same`), `settings` (texts such as
        `"parallelism 2 -> 4"`), and `states`: a list of dicts with `name`, `kind`, `change`,
        `type` (before and after, when they differ), `added`, `removed`, `changed`, `same` (counts
        of entries), `unknown` (entries that are there in both and pickled), and `keys`: up to
        `limit` entries of each of `added`, `removed`, `changed`. Timers are states named "".
    """
    with (
        open_snapshot(before, unpickle=unpickle) as old,
        open_snapshot(after, unpickle=unpickle) as new,
    ):
        return _diff(old, new, uid, limit)


def _diff(old: Snapshot, new: Snapshot, uid: str | None, limit: int) -> dict[str, Any]:
    before = {record.uid: record for record in old.operators()}
    after = {record.uid: record for record in new.operators()}
    uids = list(dict.fromkeys([*before, *after]))
    if uid is not None:
        if uid not in before and uid not in after:
            new.operator(uid)
        uids = [uid]
    operators = [_operator(old, new, before.get(each), after.get(each), limit) for each in uids]
    return {
        "before": old.loaded.directory,
        "after": new.loaded.directory,
        "is_same": all(each["change"] == "same" for each in operators),
        "operators": operators,
    }


def _operator(
    old: Snapshot,
    new: Snapshot,
    before: OperatorRecord | None,
    after: OperatorRecord | None,
    limit: int,
) -> dict[str, Any]:
    record = after or before
    assert record is not None
    olds = {} if before is None else _states(old, before.uid)
    news = {} if after is None else _states(new, after.uid)
    types = _types(before), _types(after)
    states = [
        _state(name, kind, olds.get((name, kind), {}), news.get((name, kind), {}), types, limit)
        for name, kind in sorted({*olds, *news})
    ]
    settings = _settings(before, after)
    if before is None or after is None:
        change = "added" if before is None else "removed"
    else:
        is_same = not settings and all(state["change"] == "same" for state in states)
        change = "same" if is_same else "changed"
    return {"uid": record.uid, "change": change, "settings": settings, "states": states}


def _settings(before: OperatorRecord | None, after: OperatorRecord | None) -> list[str]:
    if before is None or after is None:
        return []
    pairs = {
        "name": (before.name, after.name),
        "parallelism": (before.parallelism, after.parallelism),
        "max parallelism": (before.max_parallelism, after.max_parallelism),
        "key type": (before.key_schema or "undeclared", after.key_schema or "undeclared"),
    }
    return [f"{name} {old} -> {new}" for name, (old, new) in pairs.items() if old != new]


def _types(record: OperatorRecord | None) -> dict[str, str]:
    return {} if record is None else {state.name: state.schema for state in record.states}


def _states(snapshot: Snapshot, uid: str) -> dict[tuple[str, str], Entries]:
    """Returns the entries of each state of an operator by what identifies them."""
    found: dict[tuple[str, str], Entries] = {}
    for row in snapshot.keyed_state(uid):
        entries = found.setdefault((row.state, row.kind), {})
        if row.kind == "map":
            entries[row.key, row.namespace, row.value[0]] = row.value[1]
        elif row.kind == "list":
            # A long list comes in several rows.
            entries.setdefault((row.key, row.namespace), []).extend(row.value)
        elif row.kind == "value":
            entries[row.key, row.namespace] = row.value
        else:
            entries[row.key, row.namespace, row.value] = True
    positions: dict[tuple[str, str], int] = {}
    for own in snapshot.operator_state(uid):
        entries = found.setdefault((own.state, own.kind), {})
        if own.kind == "operator-broadcast":
            # Every subtask holds a copy; they are the same.
            entries[own.value[0],] = own.value[1]
        else:
            # Which subtask holds an element says nothing, the order of all of them does.
            place = positions[own.state, own.kind] = positions.get((own.state, own.kind), -1) + 1
            entries[place,] = own.value
    return found


def _state(  # noqa: PLR0913, PLR0917 - two sides of one state
    name: str,
    kind: str,
    before: Entries,
    after: Entries,
    types: tuple[dict[str, str], dict[str, str]],
    limit: int,
) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {change: [] for change in _CHANGES}
    same = unknown = 0
    for entry, value in before.items():
        other = after.get(entry, _MISSING)
        if other is _MISSING:
            lists["removed"].append(entry)
        elif other == value:
            same += 1
        elif is_hidden(value) or is_hidden(other):
            # Equal values may have different pickles.
            unknown += 1
        else:
            lists["changed"].append(entry)
    lists["added"] += [entry for entry in after if entry not in before]
    schemas = [each.get(name, "") for each in types]
    is_same = not any(lists.values()) and schemas[0] == schemas[1] and not unknown
    change = "same" if is_same else "changed"
    if bool(before) != bool(after) and (name in types[0]) != (name in types[1]):
        change = "added" if after else "removed"
    return {
        "name": name,
        "kind": kind,
        "change": change,
        "type": schemas if schemas[0] != schemas[1] else [],
        **{each: len(found) for each, found in lists.items()},
        "same": same,
        "unknown": unknown,
        "keys": {
            each: [_identity(entry) for entry in found[:limit]] for each, found in lists.items()
        },
    }


def _identity(entry: Any) -> Any:
    """Returns a key alone where that says all; with namespace and map key or time otherwise."""
    key, *rest = entry
    if not rest or rest == [None]:
        return to_json(key)
    return [to_json(part) for part in entry]
