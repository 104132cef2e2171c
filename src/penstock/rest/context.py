"""What routes share: the dispatcher, the settings, documents, and ids that were checked.

An id is checked before it becomes part of a document's name: job, vertex and trigger ids are 32 hex
digits, a checkpoint is a number. Nothing else that a client says is ever joined to a path.

Every error is a status and `{"errors": ["…"]}`, as Flink's clients read them.

Events of a job come from the dispatcher by one thread for each job that is watched, however many
read them: `Dispatcher.events` blocks while nothing happens. A reader who is slow, or has many
events waiting, is told less: only the names of documents travel, and each name once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from fastapi import Depends, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from penstock.core.errors import PenstockError, ProgramError
from penstock.core.redaction import without_secrets
from penstock.core.times import Clock, SystemClock
from penstock.job import documents
from penstock.job.documents.current import current_job
from penstock.jobmanager.dispatching import Dispatcher, NotLeaderError, UnknownJobError
from penstock.jobmanager.job_records import RefusedError

if TYPE_CHECKING:
    from fastapi import FastAPI, Response

    from penstock.rest.settings import RestSettings


_log = logging.getLogger("penstock.rest")

LEADER_HEADER: Final = "X-Penstock-Leader"


def problem(status: int, *messages: str, leader_url: str | None = None) -> JSONResponse:
    """Returns an error."""
    headers = {} if leader_url is None else {LEADER_HEADER: leader_url}
    content = {"errors": [without_secrets(message) for message in messages]}
    return JSONResponse(content, status, headers)


def install_errors(app: FastAPI) -> None:
    """Makes all errors of an application look alike."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(PenstockError, _expected)
    app.add_exception_handler(Exception, _unexpected)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    messages = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"] if part not in ("body", "path", "query"))
        given = each["input"]
        shown = f" {given!r:.80}" if isinstance(given, str | int) else ""
        said = each["msg"]
        if each.get("ctx", {}).get("pattern") == HEX_32:
            said = "it must have 32 hexadecimal digits; GET /jobs lists the ids of jobs"
        messages.append(f"{place or 'the body'}{shown}: {said}.")
    return problem(400, *messages)


def _expected(_: Request, error: Exception) -> Response:
    message = str(error)
    if isinstance(error, UnknownJobError):
        return problem(404, message)
    if isinstance(error, RefusedError):
        return problem(409, message)
    if isinstance(error, NotLeaderError):
        return problem(503, message, leader_url=error.leader_url)
    return problem(400 if isinstance(error, ProgramError) else 500, message)


def _unexpected(request: Request, error: Exception) -> Response:
    # The text may hold anything, so only the log has it.
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "The service failed; its log says how.")


HEX_32: Final = r"^[0-9a-f]{32}$"

JobId = Annotated[str, Path(pattern=HEX_32, description="32 hex digits.", examples=["0" * 32])]
VertexId = Annotated[str, Path(pattern=HEX_32, description="32 hex digits.")]
TriggerId = Annotated[str, Path(pattern=HEX_32, description="32 hex digits.")]
CheckpointId = Annotated[int, Path(ge=0, le=2**63 - 1)]


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


@dataclass(slots=True)
class RestContext:
    """One service."""

    dispatcher: Dispatcher
    settings: RestSettings
    hub: EventHub
    clock: Clock = field(default_factory=SystemClock)

    def find(self, job_id: str, name: str) -> Any:
        content = self.dispatcher.document(job_id, name)
        return None if content is None else msgspec.json.decode(content)

    def document(self, job_id: str, name: str) -> Any:
        """Returns a document that must be there."""
        found = self.find(job_id, name)
        if found is None:
            raise HTTPException(
                404, f"Job {job_id} has no document '{name}': not yet, or not any more."
            )
        return found

    def checkpoints(self, job_id: str) -> CheckpointsDocument | None:
        """Returns the document of a job's checkpoints, or None while there is none."""
        content = self.dispatcher.document(job_id, documents.CHECKPOINTS)
        if content is None:
            return None
        return CheckpointsDocument(content)

    def job(self, job_id: str) -> dict[str, Any]:
        """Returns the document of a job as of now, whatever its driver wrote last."""
        record = self.dispatcher.job(job_id)
        return current_job(self.find(job_id, documents.JOB), record, self.clock.wall_ms())


def context_of(request: Request) -> RestContext:
    """Returns the context of the application that serves a request."""
    context: RestContext = request.app.state.context
    return context


Context = Annotated[RestContext, Depends(context_of)]


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lines = msgspec.json.Decoder(list[msgspec.Raw])


class _Numbered(msgspec.Struct):
    id: int


_numbers = msgspec.json.Decoder(list[_Numbered])


class CheckpointsDocument:
    """A document of checkpoints.

    Args:
        content: As the driver wrote it.
    """

    def __init__(self, content: bytes) -> None:
        self._parts = _parts.decode(content)

    def latest(self) -> dict[str, Any]:
        """Returns the latest checkpoint of each kind."""
        found: dict[str, Any] = msgspec.json.decode(self._parts.get("latest", b"{}"))
        return found

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yields lines of the history, newest first."""
        for line in _lines.decode(self._parts["history"]):
            yield msgspec.json.decode(line)

    def part(self, newest: int, older_than: int | None) -> bytes:
        """Returns the document with a part of its history.

        Args:
            newest: How many lines.
            older_than: Only checkpoints with lower numbers.
        """
        history = _lines.decode(self._parts["history"])
        first = 0
        if older_than is not None:
            numbers = _numbers.decode(self._parts["history"])
            newer = (place for place, line in enumerate(numbers) if line.id < older_than)
            first = next(newer, len(numbers))
        shown = history[first : first + newest]
        return msgspec.json.encode(
            self._parts | {"history": shown, "history_total": len(history), "history_first": first}
        )
