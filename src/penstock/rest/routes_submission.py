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
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO, Final

from fastapi import APIRouter, Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from penstock.core.errors import ProgramError
from penstock.job.package import check_zip
from penstock.jobmanager.job_intake import check_names
from penstock.jobmanager.job_records import Submission
from penstock.rest.context import Context, RestContext

MAX_ARGUMENTS: Final = 10_000
_PIECE_BYTES: Final = 1024 * 1024


def read_submission(body: BinaryIO, content_type: str) -> tuple[Submission, bytes]:
    """Reads and checks the body of a request that submits a job; returns its package, too.

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
        request = _json(body.read())
        try:
            package = base64.b64decode(str(request.pop("package", "")), validate=True)
        except binascii.Error:
            raise ProgramError("'package' is a zip file in base64.") from None
    else:
        raise ProgramError("send a submission as multipart/form-data or application/json.")
    return _checked(request, package), package


def _parts(body: BinaryIO, content_type: str) -> dict[str, bytes]:
    """Takes a form apart piece by piece, so that memory holds its parts and nothing else."""
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise ProgramError("the form has no boundary.")
    parts: dict[str, bytearray] = {}
    names: list[str] = []
    field, value, ends = bytearray(), bytearray(), []

    def header_ends() -> None:
        name = parse_options_header(bytes(value))[1].get(b"name")
        if name is not None and field.lower() == b"content-disposition":
            names.append(name.decode("ascii", "replace"))
        field.clear()
        value.clear()

    def headers_end() -> None:
        if len(names) != len(parts) + 1 or names[-1] in parts or len(names) > 2:
            raise ProgramError("a part of the form has no name, or one that is not expected.")
        parts[names[-1]] = bytearray()

    def take(target: Callable[[], bytearray]) -> Callable[[bytes, int, int], None]:
        return lambda data, start, end: target().extend(memoryview(data)[start:end])

    parser = MultipartParser(
        boundary,
        {
            "on_header_field": take(lambda: field),
            "on_header_value": take(lambda: value),
            "on_header_end": header_ends,
            "on_headers_finished": headers_end,
            "on_part_data": take(lambda: parts[names[-1]]),
            "on_end": lambda: ends.append(True),
        },
    )
    try:
        while piece := body.read(_PIECE_BYTES):
            parser.write(piece)
    except FormParserError as error:
        raise ProgramError(f"the form is damaged: {error}.") from None
    if not ends:
        raise ProgramError("the form is cut off: its last boundary is missing.")
    return {name: bytes(part) for name, part in parts.items()}


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
    check_names(program, module)
    arguments, settings = request.get("arguments") or [], request.get("configuration") or {}
    if not _are_texts(arguments) or len(arguments) > MAX_ARGUMENTS:
        raise ProgramError(f"'arguments' is a list of at most {MAX_ARGUMENTS:,} texts.")
    if not isinstance(settings, dict) or not _are_texts([*settings, *settings.values()]):
        raise ProgramError("'configuration' has texts as keys and values.")
    names = check_zip(package)
    if program is not None and program not in names:
        raise ProgramError(f"the package holds no '{program}'.")
    return Submission(
        program=program, module=module, arguments=tuple(arguments), configuration=settings
    )


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
    return context.dispatcher.submit(*read_submission(file, kind))
