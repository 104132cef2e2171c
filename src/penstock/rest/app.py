"""Puts the service's outside together: guard, routes under `/v1` and bare, the web page.

guard (host, token, size, pace) -> standby? -> routes -> dispatcher
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from penstock.rest import (
    routes_checkpoints,
    routes_cluster,
    routes_jobs,
    routes_operations,
    routes_submission,
)
from penstock.rest.access import Guard
from penstock.rest.context import EventHub, RestContext, install_errors
from penstock.rest.leader import ToLeader
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Dispatcher
    from penstock.rest.settings import RestSettings


def create_app(dispatcher: Dispatcher, settings: RestSettings) -> FastAPI:
    """Returns the application that serves a dispatcher."""
    app = FastAPI(
        title="Penstock",
        version=__version__,
        description="Jobs and their checkpoints, by the routes of Flink's REST interface.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        responses=_ERRORS,
    )
    hub = EventHub(dispatcher, settings.max_streams)
    app.state.context = RestContext(dispatcher, settings, hub)
    app.state.spool = routes_submission.Spool()
    install_errors(app)
    routes = APIRouter()
    # In this order: a fixed path is tried before one with a trigger id in its place.
    for module in (
        routes_jobs,
        routes_checkpoints,
        routes_operations,
        routes_submission,
        routes_cluster,
    ):
        routes.include_router(module.router)
    app.include_router(routes, prefix="/v1")
    app.include_router(routes, include_in_schema=False)
    app.include_router(routes_cluster.plain_router)
    page = Page()
    app.add_route("/{path:path}", lambda request: page.answer(request.scope["path"]), ["GET"])
    app.add_middleware(ToLeader, dispatcher=dispatcher, is_own=page.holds, settings=settings)
    app.add_middleware(Guard, settings=settings, is_page=page.holds)
    return app


_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {
        "description": "An error.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
                    "required": ["errors"],
                }
            }
        },
    }
    for code in ("4XX", "5XX")
}


DIRECTORY: Final = Path(__file__).with_name("static")
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


class Page:
    """The page's files by the path under which they are served."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        files = {
            f"/{file.relative_to(directory).as_posix()}": file
            for file in sorted(directory.rglob("*"))
            if file.is_file() and not file.is_symlink() and file.suffix in _KINDS
        }
        if "/index.html" in files:
            files["/"] = files["/index.html"]
        self._files = files

    def holds(self, path: str) -> bool:
        """Says whether a path is one of the page's."""
        return path in self._files

    def answer(self, path: str) -> Response:
        """Returns a file.

        Raises:
            HTTPException: There is none of this name.
        """
        file = self._files.get(path)
        if file is None:
            raise HTTPException(404, "There is nothing at this path.")
        # The page and the service are of one version: a file is never older than what it asks.
        return FileResponse(
            file, media_type=_KINDS[file.suffix], headers={"cache-control": "no-cache"}
        )
