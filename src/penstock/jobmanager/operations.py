"""Triggered operations that this process carries out itself, and what became of the last ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.core.errors import PenstockError
from penstock.jobmanager.dispatching import Operation, OperationStatus, RefusedError


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
        """Returns what became of an operation; None if it is unknown."""
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
