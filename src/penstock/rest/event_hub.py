"""Hands the dispatcher's events to any number of readers, with one thread for each watched job.

A dispatcher's `events` blocks while nothing happens. A reader who is slow, or has many events
waiting, is told less: only the names of documents travel, and each name once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.jobmanager.job_records import RefusedError

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Dispatcher


class Reader:
    """One stream: the names that have changed since it looked last."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._names: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._has_ended = False

    def tell(self, name: str | None) -> None:
        """Notes a change, None for the end; from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._note, name)

    def _note(self, name: str | None) -> None:
        if name is None:
            self._has_ended = True
        else:
            self._names[name] = None
        self._changed.set()

    async def names(self, heartbeat_s: float) -> AsyncIterator[str | None]:
        """Yields names; None when nothing has happened for a while."""
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), heartbeat_s)
            except TimeoutError:
                yield None
                continue
            self._changed.clear()
            names, self._names = self._names, {}
            for name in names:
                yield name
            if self._has_ended:
                return


class EventHub:
    """All streams of a service.

    Args:
        dispatcher: Where events come from.
        max_readers: Streams at once.
    """

    def __init__(self, dispatcher: Dispatcher, max_readers: int) -> None:
        self._dispatcher = dispatcher
        self._max_readers = max_readers
        self._lock = threading.Lock()
        self._readers: dict[str, set[Reader]] = {}
        self._count = 0

    def subscribe(self, job_id: str) -> Reader:
        """Returns a new reader, which must be given back. Call it in the event loop.

        Raises:
            RefusedError: There are too many.
        """
        reader = Reader(asyncio.get_running_loop())
        with self._lock:
            if self._count >= self._max_readers:
                raise RefusedError(
                    f"{self._max_readers} event streams are open already; close one, or ask for "
                    "the documents themselves every few seconds."
                )
            self._count += 1
            readers = self._readers.get(job_id)
            if readers is not None:
                readers.add(reader)
                return reader
            self._readers[job_id] = {reader}
        thread = threading.Thread(
            target=self._pump, args=(job_id,), name=f"penstock-events-{job_id[:8]}", daemon=True
        )
        thread.start()
        return reader

    def unsubscribe(self, job_id: str, reader: Reader) -> None:
        """Gives a reader back."""
        with self._lock:
            self._count -= 1
            self._readers.get(job_id, set()).discard(reader)

    def close(self) -> None:
        with self._lock:
            readers = [reader for each in self._readers.values() for reader in each]
        for reader in readers:
            reader.tell(None)

    def _pump(self, job_id: str) -> None:
        with self._lock:
            own = self._readers[job_id]
        with contextlib.suppress(PenstockError):
            for name in self._dispatcher.events(job_id):
                with self._lock:
                    readers = list(own)
                    if not readers:
                        # The next reader starts a new thread.
                        del self._readers[job_id]
                        return
                for reader in readers:
                    reader.tell(name)
        with self._lock:
            left = self._readers.pop(job_id)
        for reader in left:
            reader.tell(None)
