"""`POST /jobs`: a job is handed in. The guard has seen to the token already.

Bodies are spooled to files without a name while they arrive, a few at once; each is read and
checked alone. So memory holds one package at most, however many clients send however slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from penstock.rest.routes_jobs import Context
from penstock.rest.submission import read_submission

if TYPE_CHECKING:
    from typing import BinaryIO

    from penstock.rest.context import RestContext

router = APIRouter()

MOST_AT_ONCE: Final = 8


class Spool:
    """Submissions on their way to a service.

    Attributes:
        count: How many there are.
        turn: Held while one is read and stored.
    """

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def receive(self, request: Request) -> AsyncIterator[BinaryIO]:
        """Writes the body of a request to a file, which is gone when it is closed.

        Raises:
            HTTPException: There are too many of them (429), or the disk is full (507). The guard
                bounds size (413) and time (408).
        """
        if self.count >= MOST_AT_ONCE:
            raise HTTPException(
                429,
                f"{MOST_AT_ONCE} submissions are on their way already; send this one again in a "
                "few seconds.",
                {"retry-after": "5"},
            )
        self.count += 1
        try:
            with tempfile.TemporaryFile(buffering=0, prefix="penstock-submission-") as file:
                try:
                    async for piece in request.stream():
                        await run_in_threadpool(_write, file, piece)
                except ClientDisconnect:
                    raise HTTPException(400, "The client went away.") from None
                file.seek(0)
                yield file
        finally:
            self.count -= 1


def _write(file: BinaryIO, piece: bytes) -> None:
    try:
        view = memoryview(piece)
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise HTTPException(
            507,
            f"The submission cannot be spooled to {tempfile.gettempdir()}: {error.strerror}. Free "
            "some space there, or set TMPDIR for the job manager.",
        ) from None


@router.post("/jobs", status_code=202)
async def submit_job(request: Request, context: Context) -> dict[str, Any]:
    """Stores a job and starts it; answers with its id."""
    kind = request.headers.get("content-type", "")
    async with context.spool.receive(request) as file, context.spool.turn:
        job_id = await run_in_threadpool(_submit, context, file, kind)
    return {"jobid": job_id, "jobUrl": f"/jobs/{job_id}"}


def _submit(context: RestContext, file: BinaryIO, kind: str) -> str:
    return context.dispatcher.submit(read_submission(file.read(), kind))
