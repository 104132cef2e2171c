"""Counts requests to checkpoint storage, for whoever watches a job."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from penstock.checkpoint.errors import ObjectExistsError, ObjectMissingError, UnknownOutcomeError

Result = TypeVar("Result")


class StorageCounts:
    """Requests so far; any thread counts, any thread reads.

    An outcome is `ok`, `exists` (the name is taken), `missing`, `unknown` (it may have taken
    effect) or `failed`. Each try is a request, and each but the first also a retry.

    Attributes:
        retries: How often something was asked once more.
        fenced_writes: How often a write was refused because another leader is at work.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self.retries = 0
        self.fenced_writes = 0

    def counted(self, operation: str, request: Callable[[], Result]) -> Result:
        """Makes a request and counts it."""
        outcome = "failed"
        try:
            result = request()
            outcome = "ok"
            return result
        except ObjectExistsError:
            outcome = "exists"
            raise
        except ObjectMissingError:
            outcome = "missing"
            raise
        except UnknownOutcomeError:
            outcome = "unknown"
            raise
        finally:
            with self._lock:
                self._requests[operation, outcome] += 1

    def note_retry(self) -> None:
        """Something is asked once more."""
        with self._lock:
            self.retries += 1

    def note_fenced(self) -> None:
        """A write was refused because another leader is at work."""
        with self._lock:
            self.fenced_writes += 1

    def requests(self) -> dict[tuple[str, str], int]:
        """Returns numbers of requests by operation and outcome."""
        with self._lock:
            return dict(self._requests)
