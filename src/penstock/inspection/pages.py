"""What web pages show of snapshots: their operators and states, and the first rows of a state.

A list comes from metadata alone. Rows, and lists of many thousand files, are read in a process of
their own (`state_rows`), one reading at a time: whatever a snapshot holds, the service goes on
answering.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import METADATA, snapshot_directory
from penstock.files.urls import configured_storages
from penstock.inspection.contents import list_states
from penstock.inspection.state_rows import RowsRequest

if TYPE_CHECKING:
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
        """Returns the first rows of a state, as `state_rows.read_rows` does.

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
        [sys.executable, "-m", "penstock.inspection.state_rows"],
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
