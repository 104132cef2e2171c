"""What dispatchers have in common: operations that they carry out themselves, and their base."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.checkpoint.clean_up.deletion import delete_snapshot
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.core.errors import PenstockError
from penstock.files.urls import Storages
from penstock.jobmanager.dispatching import (
    Leadership,
    NotLeaderError,
    Operation,
    OperationStatus,
    RefusedError,
)
from penstock.jobmanager.job_directory import checked_id


class Operations:
    """Operations by trigger id; the same id twice is one operation.

    Args:
        what: What they are, for people and as the name of threads.
        workers: How many go on at once.
        most_open: How many may wait or go on.
        kept: How many are remembered.
    """

    def __init__(self, what: str, *, workers: int, most_open: int, kept: int) -> None:
        self._what = what
        self._most_open = most_open
        self._kept = kept
        self._lock = threading.Lock()
        self._known: dict[str, Operation] = {}
        self._workers = ThreadPoolExecutor(workers, f"penstock-{what}")

    def begin(self, trigger_id: str, work: Callable[[], Mapping[str, Any]]) -> None:
        """Has a thread do something; the result is the rest of the `Operation`.

        Raises:
            RefusedError: Too many wait already.
        """
        if self._note(Operation(trigger_id, OperationStatus.IN_PROGRESS)):
            self._workers.submit(self._run, trigger_id, work)

    def done(self, trigger_id: str, work: Callable[[], None]) -> None:
        """Does something at once that takes no time."""
        if self._note(Operation(trigger_id, OperationStatus.COMPLETED)):
            work()

    def get(self, trigger_id: str) -> Operation | None:
        with self._lock:
            return self._known.get(trigger_id)

    def close(self) -> None:
        """What has not begun does not begin any more."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _note(self, operation: Operation) -> bool:
        """Remembers an operation; says whether it is new."""
        with self._lock:
            if operation.trigger_id in self._known:
                return False
            is_open = [each.status is OperationStatus.IN_PROGRESS for each in self._known.values()]
            if sum(is_open) >= self._most_open:
                raise RefusedError(f"{sum(is_open)} {self._what} wait already; ask again later.")
            self._known[operation.trigger_id] = operation
            for known in [*self._known][: -self._kept]:
                if self._known[known].status is not OperationStatus.IN_PROGRESS:
                    del self._known[known]
            return True

    def _run(self, trigger_id: str, work: Callable[[], Mapping[str, Any]]) -> None:
        try:
            done = Operation(trigger_id, OperationStatus.COMPLETED, **work())
        except Exception as problem:
            text = str(problem)
            if not isinstance(problem, PenstockError):
                text = f"{type(problem).__name__}: {problem}"
            done = Operation(trigger_id, OperationStatus.FAILED, error=text)
        with self._lock:
            self._known[trigger_id] = done


class BaseDispatcher:
    """What every dispatcher does alike: asks who leads, checks ids, deletes savepoints.

    A savepoint is deleted in the background: one at a time, and only what a valid `_metadata`
    names. The last disposals are remembered.

    Args:
        options: Configuration; keys of storage are read from it.
        new_id: Returns 32 hex digits that are never used again.
    """

    def __init__(self, options: Mapping[str, str], new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._storages = Storages(options)
        self._disposals = Operations("disposals", workers=1, most_open=50, kept=100)

    def leadership(self) -> Leadership:
        """Says who leads: this one, unless there are others."""
        return Leadership(True, 0, None)

    def dispose_savepoint(self, path: str, trigger_id: str | None = None) -> str:
        self._check_leads()
        trigger_id = self._trigger_id(trigger_id)
        self._disposals.begin(trigger_id, lambda: self._dispose(path))
        return trigger_id

    def disposal(self, trigger_id: str) -> Operation | None:
        self._check_leads()
        return self._disposals.get(checked_id(trigger_id, "trigger id"))

    def end_disposals(self) -> None:
        """Waits for none: what has not begun does not begin any more."""
        self._disposals.close()

    def is_running(self, job_id: str) -> bool:
        """Whether a job has not ended: its checkpoints are not for disposal."""
        raise NotImplementedError

    def _check_leads(self) -> None:
        found = self.leadership()
        if not found.is_leader:
            leader = found.leader_url
            known = f"ask {leader}" if leader else "no leader is known; ask again in a moment"
            raise NotLeaderError(f"this job manager does not lead: {known}.", leader)

    def _trigger_id(self, given: str | None) -> str:
        return checked_id(given or self._new_id(), "trigger id")

    def _dispose(self, path: str) -> Mapping[str, str]:
        loaded = load_snapshot(self._storages, path)
        manifest = loaded.manifest
        if not manifest.kind.is_savepoint and self.is_running(manifest.job_id):
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
