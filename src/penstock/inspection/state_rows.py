"""Reads a snapshot in a process of its own: `python -m penstock.inspection.state_rows`.

Reading takes memory and time that the web service does not have, so this process has a
limit of either, and is given up beyond. It takes a `RowsRequest` as JSON from its input and writes
the answer, or `{"error": "…"}`, to its output. Pickles are not loaded: a pickled value is shown by
its size.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.errors import PenstockError
from penstock.files.urls import Storages
from penstock.inspection.contents import keyed_entry, list_states, operator_entry
from penstock.inspection.reader import Snapshot, open_snapshot

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StoredHandle

_SECONDS_TO_CLEAN: Final = 5
_MOST_MEMORY: Final = 4 << 30
_CELL_CHARACTERS: Final = 400


class RowsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows, or a list of what there is."""

    path: str
    uid: str | None = None  # The operator; None for a list of all operators and states.
    state: str | None = None  # One of its states; None for all, timers included.
    limit: int = 0  # At most so many rows.
    most_bytes: int = 0  # At most so much is read.
    most_seconds: int  # For so long at most.
    options: dict[str, str]  # Configuration of the storage.


def read_rows(request: RowsRequest) -> dict[str, Any]:
    """Returns the first rows of a state.

    Returns:
        `path`, `checkpoint_id`, `uid`, `state`, `rows` (entries as `read_state` has them; a
        long value is `{"$cut": "<how its JSON begins>", "length": <of all>}`),
        `is_truncated`, and `unread_bytes`: what was not read because it is too much, or 0.
    """
    with open_snapshot(request.path, Storages(request.options)) as snapshot:
        reading = _Reading(snapshot, request)
        rows: list[dict[str, Any]] = []
        is_truncated = False
        for entry in reading.entries():
            if len(rows) == request.limit:
                is_truncated = True
                break
            rows.append({name: _cell(value) for name, value in entry.items()})
        return {
            "path": snapshot.loaded.directory,
            "checkpoint_id": snapshot.manifest.checkpoint_id,
            "uid": request.uid,
            "state": request.state,
            "rows": rows,
            "is_truncated": is_truncated or reading.unread_bytes > 0,
            "unread_bytes": reading.unread_bytes,
        }


class _Reading:
    """Reads subtask by subtask until it has read enough."""

    def __init__(self, snapshot: Snapshot, request: RowsRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._left = request.most_bytes
        self.unread_bytes = 0

    def entries(self) -> Iterator[dict[str, Any]]:
        snapshot, wanted = self._snapshot, self._request.state
        record = snapshot.operator(self._request.uid or "")
        files = (handle for each in record.lists for handle in each)
        if self._may_read((*record.logic, *files)):
            for own in snapshot.operator_state(record.uid):
                if wanted in (None, own.state):
                    yield operator_entry(own)
        for subtask in record.subtasks:
            if self._may_read(() if subtask.keyed is None else subtask.keyed.handles):
                for row in snapshot.keyed_state_of(subtask):
                    if wanted in (None, row.state):
                        yield keyed_entry(row)

    def _may_read(self, handles: Iterable[StoredHandle]) -> bool:
        size = sum(handle.size_bytes for handle in handles)
        if self.unread_bytes or size > self._left:
            # From here on nothing is read, so that what is shown is the beginning.
            self.unread_bytes += size
            return False
        self._left -= size
        return True


def _cell(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _CELL_CHARACTERS:
        return value
    return {"$cut": text[:_CELL_CHARACTERS], "length": len(text)}


class _TooLong(BaseException):
    """No `Exception`, since code that repeats failed requests must not repeat this one."""


def _give_up(*_: object) -> None:
    # What was fetched is removed on the way out; who does not come out is ended.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS_TO_CLEAN)
    raise _TooLong


def main() -> None:
    """Answers one request."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, most))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=RowsRequest)
    answer: dict[str, Any]
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(request.most_seconds)
    try:
        if request.uid is None:
            answer = list_states(request.path, Storages(request.options), count=False)
        else:
            answer = read_rows(request)
    except PenstockError as error:
        answer = {"error": str(error)}
    except _TooLong:
        answer = {"error": f"reading {request.path} takes more than {request.most_seconds} s."}
    except MemoryError:
        answer = {"error": f"reading {request.path} takes more than {_MOST_MEMORY:,} bytes."}
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
