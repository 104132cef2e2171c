"""What snapshots hold, as plain data for the command line and everybody who writes JSON.

Each function takes paths as users give them (a snapshot's directory or its `_metadata`) and returns
dicts, lists, texts and numbers only: whatever it returns, `json.dumps` can write. None of them runs
code that a snapshot holds, unless it is told to with `unpickle=True`.

What has no JSON form is a dict with one key that starts with `$`: `{"$pickle": 412}` for a pickled
value in a pickle of 412 bytes that was not read, `{"$bytes": "00ff"}`, `{"$tuple": [1, 2]}`,
`{"$row": [1, 2]}` for a row without names, `{"$map": [[1, "a"]]}` for a dict whose keys are not
texts, `{"$repr": "…"}` for any other Python object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.errors import CheckpointError
from penstock.core.errors import StateError
from penstock.core.row import Row
from penstock.inspection.reader import OperatorStateRow, Snapshot, StateRow, open_snapshot
from penstock.state.plain_serializer import Opaque
from penstock.state.schema import PLAIN

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import OperatorRecord, StateRecord
    from penstock.files.urls import Storages


def list_states(
    path: str, storages: Storages | None = None, *, count: bool = True
) -> dict[str, Any]:
    """Returns what a snapshot holds, operator by operator.

    Args:
        path: The snapshot.
        storages: Where to look; by default as the configuration in force says.
        count: Count entries and timers, for which all files are read.

    Returns:
        `path`, `kind` (`checkpoint`, `savepoint-canonical`, `savepoint-native`), `checkpoint_id`,
        `job_id`, `job_name`, `created_ms`, `epoch`, `penstock_version`, `total_bytes`,
        `inline_bytes`, and `operators`: a list of dicts with `uid`, `name`, `parallelism`,
        `max_parallelism`, `key_type` ("" when undeclared), `files`, `file_bytes`, `inline_bytes`,
        `has_source_position`, `has_pending_output`, `event_timers`, `processing_timers`, `note`
        ("", or why nothing could be counted), and `states`: a list of dicts with `name`, `kind`,
        `codec` (`msgpack` or `pickle`), `type` (as declared, "" when it was not), `key_codec`,
        `ttl` ("" without one) and `entries`. Counts are None where nothing was counted.

    Raises:
        CheckpointError: There is no snapshot.
        StateError: A file is missing or damaged.
    """
    with open_snapshot(path, storages) as snapshot:
        manifest = snapshot.manifest
        return {
            "path": snapshot.loaded.directory,
            "kind": manifest.kind.value,
            "checkpoint_id": manifest.checkpoint_id,
            "job_id": manifest.job_id,
            "job_name": manifest.job_name,
            "created_ms": manifest.created_ms,
            "epoch": manifest.epoch,
            "penstock_version": manifest.penstock_version,
            "total_bytes": snapshot.loaded.size_bytes + manifest.full_bytes - manifest.inline_bytes,
            "inline_bytes": manifest.inline_bytes,
            "operators": [
                _operator(snapshot, record, count=count) for record in manifest.operators
            ],
        }


def _operator(snapshot: Snapshot, record: OperatorRecord, *, count: bool) -> dict[str, Any]:
    manifest = snapshot.manifest
    handles = record.handles
    files = {handle.path: handle.size_bytes for handle in handles if handle.path is not None}
    counts, note = _counts(snapshot, record.uid) if count else (None, "")
    states = [_state(state, counts) for state in record.states]
    known = {state.name for state in record.states}
    for (name, kind), entries in sorted((counts or Counter()).items()):
        if name and name not in known and not kind.startswith("operator-"):
            found = {"name": name, "kind": kind, "codec": "pickle", "type": "", "key_codec": ""}
            states.append({**found, "ttl": "", "entries": entries})
    return {
        "uid": record.uid,
        "name": record.name,
        "parallelism": record.parallelism,
        "max_parallelism": record.max_parallelism,
        "key_type": record.key_schema,
        "files": len(files),
        "file_bytes": sum(files.values()),
        "inline_bytes": sum(len(h.inline) for h in handles if h.inline is not None),
        "has_source_position": record.uid in manifest.sources,
        "has_pending_output": bool(manifest.sinks.get(record.uid, {}).get("pending")),
        "event_timers": None if counts is None else counts["", "event_timer"],
        "processing_timers": None if counts is None else counts["", "processing_timer"],
        "note": note,
        "states": states,
    }


def _counts(snapshot: Snapshot, uid: str) -> tuple[Counter[tuple[str, str]] | None, str]:
    """Returns numbers of entries by name and kind; None and why for what would need a pickle."""
    counts: Counter[tuple[str, str]] = Counter()
    try:
        for row in snapshot.keyed_state(uid):
            size = len(row.value) if row.kind == "list" else 1
            counts[row.state, row.kind] += size
        for own in snapshot.operator_state(uid):
            counts[own.state, own.kind] += 1
    except StateError as error:
        if "unpickle" not in str(error):
            raise
        return None, str(error)
    return counts, ""


def _state(state: StateRecord, counts: Counter[tuple[str, str]] | None) -> dict[str, Any]:
    stored = {"reducing": "value", "aggregating": "value"}.get(state.kind, state.kind)
    return {
        "name": state.name,
        "kind": state.kind,
        "codec": state.value_codec or "pickle",
        "type": "" if state.schema == PLAIN else state.schema,
        "key_codec": state.key_codec,
        "ttl": state.ttl,
        "entries": None if counts is None else counts[state.name, stored],
    }


def read_state(  # noqa: PLR0913 - the options of the verb
    path: str,
    uid: str,
    state: str | None = None,
    *,
    key: str | None = None,
    limit: int | None = None,
    unpickle: bool = False,
) -> dict[str, Any]:
    """Returns entries of the state of one operator: keyed, operator and broadcast state, timers.

    Args:
        path: The snapshot.
        uid: The operator.
        state: Only this state.
        key: Only this key, as text: `alice`, `7` or JSON such as `["a", 1]`.
        limit: At most so many entries.
        unpickle: Run the pickles in the snapshot, which may do anything; without it they are
            `{"$pickle": <bytes>}`.

    Returns:
        `path`, `uid`, `entries` and `is_truncated`. An entry has `state` ("" for timers), `kind`
        (`value`, `list`, `map`, `event_timer`, `processing_timer`, `operator-list`,
        `operator-union`, `operator-broadcast`), `key`, `namespace`, `value`; entries of maps have
        `map_key` too, entries of operator state `subtask` and no `key`.

    Raises:
        CheckpointError: There is no such snapshot, operator or state; the text lists what there is.
    """
    with open_snapshot(path, unpickle=unpickle) as snapshot:
        _check_state(snapshot, uid, state)
        found = _entries(snapshot, uid, state, key)
        entries = list(islice(found, limit))
        is_truncated = limit is not None and next(found, None) is not None
        return {
            "path": snapshot.loaded.directory,
            "uid": uid,
            "entries": entries,
            "is_truncated": is_truncated,
        }


def _check_state(snapshot: Snapshot, uid: str, state: str | None) -> None:
    if state is None:
        return
    named = [record.name for record in snapshot.operator(uid).states]
    if state not in named and state not in [name for name, _ in snapshot.state_names(uid)]:
        raise CheckpointError(
            f"operator {uid!r} has no state {state!r} in {snapshot.loaded.directory}; it has "
            f"{', '.join(map(repr, sorted(named))) or 'none'}."
        )


def _entries(
    snapshot: Snapshot, uid: str, state: str | None, key: str | None
) -> Iterator[dict[str, Any]]:
    for row in snapshot.keyed_state(uid):
        if (state is None or row.state == state) and (key is None or is_key(row.key, key)):
            yield keyed_entry(row)
    for own in snapshot.operator_state(uid) if key is None else ():
        if state is None or own.state == state:
            yield operator_entry(own)


def keyed_entry(row: StateRow) -> dict[str, Any]:
    """Returns an entry of keyed state, or a timer, as `read_state` has them."""
    entry = {"state": row.state, "kind": row.kind, "key": to_json(row.key)}
    entry["namespace"] = to_json(row.namespace)
    return entry | _value(row.kind, row.value)


def operator_entry(own: OperatorStateRow) -> dict[str, Any]:
    """Returns an entry of operator state as `read_state` has them."""
    entry = {"state": own.state, "kind": own.kind, "subtask": own.subtask}
    return entry | _value(own.kind, own.value)


def _value(kind: str, value: Any) -> dict[str, Any]:
    if kind in {"map", "operator-broadcast"}:
        return {"map_key": to_json(value[0]), "value": to_json(value[1])}
    return {"value": to_json(value)}


_SIMPLE: Final = frozenset({type(None), bool, int, str})
_LARGEST_FLOAT: Final = 1.7976931348623157e308


def to_json(value: Any) -> Any:  # noqa: PLR0911 - one branch per family
    """Returns a value in a form that `json.dumps` can write."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is float:
        return value if abs(value) <= _LARGEST_FLOAT else {"$repr": repr(value)}
    if kind is list:
        return [to_json(part) for part in value]
    if kind is tuple:
        return {"$tuple": [to_json(part) for part in value]}
    if kind is bytes or kind is bytearray:
        return {"$bytes": value.hex()}
    if kind is Opaque:
        return {"$pickle": value.size_bytes}
    if isinstance(value, Row):
        fields = [to_json(part) for part in value]
        if value._fields is None:
            return {"$row": fields}
        return dict(zip(value._fields, fields, strict=True))
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: to_json(part) for key, part in value.items()}
        return {"$map": [[to_json(key), to_json(part)] for key, part in value.items()]}
    return {"$repr": repr(value)}


def is_key(key: Any, text: str) -> bool:
    """Returns whether a text means a key: the key itself, its JSON or its Python form."""
    if key == text or repr(key) == text or str(key) == text:
        return True
    try:
        typed = json.loads(text)
    except ValueError:
        return False
    return bool(key == typed or (isinstance(typed, list) and key == tuple(typed)))
