"""Every error is a status and `{"errors": ["…"]}`, as Flink's clients read them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from penstock.core.errors import PenstockError, ProgramError
from penstock.core.redaction import without_secrets
from penstock.jobmanager.dispatching import NotLeaderError, RefusedError, UnknownJobError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

_log = logging.getLogger("penstock.rest")

LEADER_HEADER: Final = "X-Penstock-Leader"


def problem(status: int, *messages: str, leader_url: str | None = None) -> JSONResponse:
    """Returns an error."""
    headers = {} if leader_url is None else {LEADER_HEADER: leader_url}
    content = {"errors": [without_secrets(message) for message in messages]}
    return JSONResponse(content, status, headers)


def install(app: FastAPI) -> None:
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
        messages.append(f"{place or 'the body'}: {each['msg']}.")
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
