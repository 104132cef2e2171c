"""What web pages show of snapshots: their operators and states, and the first rows of a state.

A list comes from metadata alone. Rows, and lists of many thousand files, are read in a process of
their own, one reading at a time: whatever a snapshot holds, the service goes on answering.

    python -m penstock.inspection.pages

takes a `RowsRequest` as JSON from its input and writes the answer, or `{"error": "…"}`, to its
output. It has a limit of memory and of time, and gives up beyond. Pickles are not loaded: a pickled
value is shown by its size.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import METADATA, snapshot_directory
from penstock.core.errors import PenstockError
from penstock.files.urls import Storages, configured_storages
from penstock.inspection.contents import keyed_entry, list_states, operator_entry
from penstock.inspection.reader import Snapshot, open_snapshot

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StoredHandle
    from penstock.core.configuration import Configuration


MOST_BYTES: Final = 32 << 20
"""How much of a snapshot is read for the first rows."""
MOST_METADATA: Final = 2 << 20
"""How long a `_metadata` may be that is read here: to take in the 20 MB of 100,000 files would hold
up all other requests for a second or two."""
MOST_SECONDS: Final = 30
_WAIT_S: Final = 10.0


class SnapshotPages:
    """Reads snapshots for a service.

    Args:
        configuration: Of the service; it may hold keys of the storage.
        most_seconds: How long that may take.
    """

    def __init__(self, configuration: Configuration, most_seconds: int = MOST_SECONDS) -> None:
        self._configuration = configuration
        self._most_seconds = most_seconds
        self._turn = threading.Lock()

    def list_states(self, path: str) -> dict[str, Any]:
        """Returns what a snapshot holds, without reading any value.

        Raises:
            CheckpointError: It cannot be read, or others are being read for too long.
        """
        storages, directory = configured_storages(self._configuration), snapshot_directory(path)
        if (storages.at(directory).size(METADATA) or 0) <= MOST_METADATA:
            return list_states(path, storages, count=False)
        options = self._configuration.to_dict()
        return self._read(RowsRequest(path=path, most_seconds=self._most_seconds, options=options))

    def first_rows(self, path: str, uid: str, state: str | None, limit: int) -> dict[str, Any]:
        """Returns the first rows of a state, as `read_rows` does.

        Raises:
            CheckpointError: They cannot be read, or others are being read for too long.
        """
        request = RowsRequest(
            path=path,
            uid=uid,
            state=state,
            limit=limit,
            most_bytes=MOST_BYTES,
            most_seconds=self._most_seconds,
            options=self._configuration.to_dict(),
        )
        return self._read(request)

    def _read(self, request: RowsRequest) -> dict[str, Any]:
        if not self._turn.acquire(timeout=_WAIT_S):
            raise CheckpointError("another snapshot is being read; try again in a moment.")
        try:
            answer = _answer(request)
        finally:
            self._turn.release()
        if "error" in answer:
            raise CheckpointError(answer["error"])
        return answer


def _answer(request: RowsRequest) -> dict[str, Any]:
    # The process ends by itself in time, also when this one is killed meanwhile.
    done = subprocess.run(
        [sys.executable, "-m", "penstock.inspection.pages"],
        input=msgspec.json.encode(request),
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    if done.returncode < 0:
        raise CheckpointError(
            f"reading {request.path} took too long or too much memory, and was ended; `penstock "
            "state get` reads it without a limit."
        )
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise CheckpointError(f"{request.path} could not be read: {said[-1] if said else 'no reason'}")


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
