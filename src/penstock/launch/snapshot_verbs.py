"""Snapshots as plain data, for the command line and everybody who writes JSON.

Each function takes paths as users give them (a snapshot's directory or its `_metadata`) and returns
dicts, lists, texts and numbers only: whatever it returns, `json.dumps` can write. None of them runs
code that a snapshot holds, unless it is told to with `unpickle=True`.

What has no JSON form is a dict with one key that starts with `$`: `{"$pickle": 412}` for a pickled
value of 412 bytes that was not read, `{"$bytes": "00ff"}`, `{"$tuple": [1, 2]}`,
`{"$repr": "…"}` for any other Python object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.errors import UnsupportedError

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.graph.nodes import StreamGraph


def list_states(path: str) -> dict[str, Any]:
    """Returns what a snapshot holds, operator by operator.

    Returns:
        `path`, `kind` (`checkpoint`, `savepoint-canonical`, `savepoint-native`), `checkpoint_id`,
        `job_id`, `job_name`, `created_ms`, `epoch`, `penstock_version`, `total_bytes`,
        `inline_bytes`, and `operators`: a list of dicts with `uid`, `name`, `parallelism`,
        `max_parallelism`, `key_type` ("" when undeclared), `files`, `file_bytes`, `inline_bytes`,
        `has_source_position`, `has_pending_output`, `event_timers`, `processing_timers` and
        `states`: a list of dicts with `name`, `kind`, `codec` (`msgpack` or `pickle`), `type`
        (as declared, "" when it was not), `key_codec`, `ttl` ("" without one) and `entries`.

    Raises:
        CheckpointError: There is no snapshot.
        StateError: A file is missing or damaged.
    """
    raise UnsupportedError(f"{path}: states cannot be listed yet.")


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
    raise UnsupportedError(f"{path}: the state of {uid} cannot be read yet.")


def diff_snapshots(
    before: str, after: str, uid: str | None = None, *, limit: int = 20, unpickle: bool = False
) -> dict[str, Any]:
    """Returns what changed from one snapshot to another.

    Args:
        before: The older snapshot.
        after: The newer one.
        uid: Only this operator.
        limit: At most so many keys are named in each list.
        unpickle: As for `read_state`; without it pickled values are compared by their bytes.

    Returns:
        `before`, `after`, `is_same`, and `operators`: a list of dicts with `uid`, `change`
        (`added`, `removed`, `changed`, `same`), `settings` (texts such as
        `"parallelism 2 -> 4"`), and `states`: a list of dicts with `name`, `kind`, `change`,
        `type` (before and after, when they differ), `added`, `removed`, `changed`, `same` (counts
        of entries), and `keys`: up to `limit` entries of each of `added`, `removed`, `changed`.
    """
    raise UnsupportedError(f"{before} and {after} cannot be compared yet.")


def verify_snapshot(path: str, *, orphans: bool = False) -> dict[str, Any]:
    """Reads every file of a snapshot, or of all snapshots of a job, and compares checksums.

    Args:
        path: A snapshot; or a directory that holds snapshots: the checkpoints of a job, a folder
            of savepoints, a checkpoint directory with the directories of several jobs.
        orphans: Also list files that no snapshot in the directory names. Nothing is deleted.

    Returns:
        `path`, `is_whole`, `snapshots` (dicts with `path`, `checkpoint_id`, `files`, `total_bytes`,
        `inline_bytes`, `is_whole`, `problems`: dicts with `place`, `text`, `used_by`), and
        `orphans` (dicts with `path`, `size_bytes`, `age_ms`, `reason`), None if not asked for.
    """
    raise UnsupportedError(f"{path}: snapshots cannot be verified yet.")


def check_restore(
    graph: StreamGraph, configuration: Configuration, path: str | None = None
) -> dict[str, Any]:
    """Returns what would become of a snapshot if a program started from it; starts nothing.

    Args:
        graph: The program.
        configuration: Its settings.
        path: The snapshot; by default `execution.state-recovery.path`.

    Returns:
        `path`, `fits`, `problems` (texts: everything that is wrong, at once), `warnings`, and
        `operators`: a list of dicts with `uid`, `name`, `verdict` (`matched`, `new`, `dropped`,
        `unmatched`), `parallelism` and `max_parallelism` (before and after, None where there is
        none), `key_groups` (the ranges of the subtasks afterwards), and `states`: a list of dicts
        with `name`, `kind`, `verdict` (`as is`, `migrated`, `incompatible`, `new`, `kept`,
        `unknown`), `before` and `after` (types), and `text`.
    """
    raise UnsupportedError(f"{path}: the restore cannot be checked yet.")
