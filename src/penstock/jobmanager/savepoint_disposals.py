"""Deletes savepoints in the background: one at a time, and only what a valid `_metadata` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.checkpoint.clean_up.deletion import delete_snapshot
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.checkpoint.storage.urls import Storages
from penstock.jobmanager.operations import Operations


class SavepointDisposals:
    """Disposals of one job manager; the last ones are remembered.

    Args:
        options: Configuration; keys of storage are read from it.
        is_running: Says whether a job has not ended: its checkpoints are not for disposal.
    """

    def __init__(self, options: Mapping[str, str], is_running: Callable[[str], bool]) -> None:
        self._storages = Storages(options)
        self._is_running = is_running
        self._operations = Operations("disposals", workers=1, most_open=50, kept=100)
        self.operation = self._operations.get
        self.close = self._operations.close

    def dispose(self, path: str, trigger_id: str) -> None:
        """Begins a disposal; the same trigger id again changes nothing."""
        self._operations.begin(trigger_id, lambda: self._dispose(path))

    def _dispose(self, path: str) -> Mapping[str, str]:
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
        return {}
