"""Deletes savepoints in the background: one at a time, and only what a valid `_metadata` names."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.deletion import delete_snapshot
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.checkpoint.storage_open import Storages
from penstock.core.errors import PenstockError
from penstock.jobmanager.dispatching import Operation, OperationStatus, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEPT: Final = 100
_MOST_OPEN: Final = 50


class SavepointDisposals:
    """Disposals of one job manager; the last ones are remembered.

    Args:
        options: Configuration; keys of storage are read from it.
        is_running: Says whether a job has not ended: its checkpoints are not for disposal.
    """

    def __init__(self, options: Mapping[str, str], is_running: Callable[[str], bool]) -> None:
        self._storages = Storages(options)
        self._is_running = is_running
        self._lock = threading.Lock()
        self._operations: dict[str, Operation] = {}
        self._worker = ThreadPoolExecutor(1, "penstock-disposals")

    def dispose(self, path: str, trigger_id: str) -> None:
        """Begins a disposal; the same trigger id again changes nothing."""
        with self._lock:
            if trigger_id in self._operations:
                return
            statuses = [each.status for each in self._operations.values()]
            if statuses.count(OperationStatus.IN_PROGRESS) >= _MOST_OPEN:
                raise RefusedError(f"{_MOST_OPEN} disposals wait already; ask again later.")
            self._operations[trigger_id] = Operation(trigger_id, OperationStatus.IN_PROGRESS)
            for done in [*self._operations][:-_KEPT]:
                if self._operations[done].status is not OperationStatus.IN_PROGRESS:
                    del self._operations[done]
        self._worker.submit(self._run, path, trigger_id)

    def operation(self, trigger_id: str) -> Operation | None:
        """Returns what became of a disposal."""
        with self._lock:
            return self._operations.get(trigger_id)

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _run(self, path: str, trigger_id: str) -> None:
        status, error = OperationStatus.COMPLETED, None
        try:
            self._dispose(path)
        except PenstockError as problem:
            status, error = OperationStatus.FAILED, str(problem)
        except Exception as problem:
            status, error = OperationStatus.FAILED, f"{type(problem).__name__}: {problem}"
        with self._lock:
            self._operations[trigger_id] = Operation(trigger_id, status, error=error)

    def _dispose(self, path: str) -> None:
        loaded = load_snapshot(self._storages, path)
        manifest = loaded.manifest
        if not manifest.kind.is_savepoint and self._is_running(manifest.job_id):
            raise CheckpointError(
                f"{loaded.directory} is checkpoint {manifest.checkpoint_id} of job "
                f"{manifest.job_id}, which has not ended and may need it. Stop or cancel the job "
                "first."
            )
        report = delete_snapshot(self._storages, loaded)
        if not report.is_complete:
            place, reason = report.failed[0]
            raise CheckpointError(
                f"{len(report.failed)} files of {loaded.directory} could not be deleted, among "
                f"them {place}: {reason}"
            )
