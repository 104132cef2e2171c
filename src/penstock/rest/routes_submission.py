"""`POST /jobs`: a job is handed in, as a form with two parts or as one JSON document.

    multipart/form-data    `submission`: JSON as below without the package; `package`: the zip file
    application/json       {"program", "module", "arguments", "configuration", "package": base64}

The guard has seen to the token already. Bodies are spooled to files without a name while they
arrive, a few at once; each is read and checked alone. So memory holds one package at most, however
many clients send however slowly. Nothing in a submission is ever executed or unpacked here, and it
holds no pickle.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import re
import tempfile
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from penstock.core.errors import ProgramError
from penstock.job.package import check_zip
from penstock.jobmanager.dispatching import Submission
from penstock.rest.context import Context

if TYPE_CHECKING:
    from typing import BinaryIO

    from penstock.rest.context import RestContext


MAX_ARGUMENTS: Final = 10_000
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_PROGRAM: Final = re.compile(r"[^/\\\0]{1,255}")
_DISPOSITION: Final = re.compile(rb';\s*name="(?P<name>[a-z]+)"')


def read_submission(body: bytes, content_type: str) -> Submission:
    """Reads and checks the body of a request that submits a job.

    Raises:
        ProgramError: It is not what it should be; the text says what.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        parts = _parts(body, content_type)
        if parts.keys() != {"submission", "package"}:
            raise ProgramError("the form needs the parts 'submission' (JSON) and 'package' (zip).")
        request, package = _json(parts["submission"]), parts["package"]
    elif kind == "application/json":
        request = _json(body)
        try:
            package = base64.b64decode(str(request.pop("package", "")), validate=True)
        except binascii.Error:
            raise ProgramError("'package' is a zip file in base64.") from None
    else:
        raise ProgramError("send a submission as multipart/form-data or application/json.")
    return _checked(request, package)


def _parts(body: bytes, content_type: str) -> dict[str, bytes]:
    match = re.search(r'boundary="?([\w\'()+,./:=?-]{1,70})"?', content_type, re.ASCII)
    if match is None:
        raise ProgramError("the form has no boundary.")
    mark = b"--" + match[1].encode()
    parts: dict[str, bytes] = {}
    # The first piece comes before the first mark, the last one is what ends the form.
    for piece in (b"\r\n" + body).split(b"\r\n" + mark)[1:-1]:
        head, found, content = piece.partition(b"\r\n\r\n")
        name = _DISPOSITION.search(head)
        if not found or name is None or len(parts) > 2:
            raise ProgramError("a part of the form has no name.")
        parts[name["name"].decode()] = content
    return parts


def _json(content: bytes) -> dict[str, Any]:
    try:
        request = json.loads(content)
    except (ValueError, RecursionError):
        raise ProgramError("the request is not JSON.") from None
    if not isinstance(request, dict):
        raise ProgramError("the request is not a JSON object.")
    return request


def _checked(request: dict[str, Any], package: bytes) -> Submission:
    program, module = request.get("program"), request.get("module")
    if (program is None) == (module is None):
        raise ProgramError("name either a 'program' or a 'module' to run.")
    if program is not None and not (isinstance(program, str) and _PROGRAM.fullmatch(program)):
        raise ProgramError("'program' is the name of a file in the package, without a directory.")
    if module is not None and not (isinstance(module, str) and _MODULE.fullmatch(module)):
        raise ProgramError("'module' is a dotted name, such as jobs.wordcount.")
    arguments, settings = request.get("arguments") or [], request.get("configuration") or {}
    if not _are_texts(arguments) or len(arguments) > MAX_ARGUMENTS:
        raise ProgramError(f"'arguments' is a list of at most {MAX_ARGUMENTS:,} texts.")
    if not isinstance(settings, dict) or not _are_texts([*settings, *settings.values()]):
        raise ProgramError("'configuration' has texts as keys and values.")
    names = check_zip(package)
    if program is not None and program not in names:
        raise ProgramError(f"the package holds no '{program}'.")
    return Submission(program, package, module, tuple(arguments), tuple(sorted(settings.items())))


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


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
    spool: Spool = request.app.state.spool
    async with spool.receive(request) as file, spool.turn:
        job_id = await run_in_threadpool(_submit, context, file, kind)
    return {"jobid": job_id, "jobUrl": f"/jobs/{job_id}"}


def _submit(context: RestContext, file: BinaryIO, kind: str) -> str:
    return context.dispatcher.submit(read_submission(file.read(), kind))
