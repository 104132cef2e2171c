"""Puts the service's outside together: guard, routes under `/v1` and bare, the web page.

guard (host, token, size, pace) -> standby? -> routes -> dispatcher
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from penstock.rest import (
    errors,
    routes_checkpoints,
    routes_cluster,
    routes_jobs,
    routes_operations,
    routes_submission,
)
from penstock.rest.context import RestContext
from penstock.rest.event_hub import EventHub
from penstock.rest.guard import Guard
from penstock.rest.leader import ToLeader

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Dispatcher
    from penstock.rest.settings import RestSettings

PAGE: Path = Path(__file__).with_name("static")
"""Files of the web page."""


def create_app(dispatcher: Dispatcher, settings: RestSettings) -> FastAPI:
    """Returns the application that serves a dispatcher."""
    app = FastAPI(
        title="Penstock",
        version=version("penstock"),
        description="Jobs and their checkpoints, by the routes of Flink's REST interface.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        responses=_ERRORS,
    )
    hub = EventHub(dispatcher, settings.max_streams)
    app.state.context = RestContext(dispatcher, settings, hub)
    errors.install(app)
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
    names = _page_names()
    if names:
        app.mount("/", StaticFiles(directory=PAGE, html=True, follow_symlink=False))
    app.add_middleware(ToLeader, dispatcher=dispatcher)
    app.add_middleware(Guard, settings=settings, is_page=lambda path: _first(path) in names)
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


def _page_names() -> frozenset[str]:
    """Returns what the page's paths begin with; nothing else is served from its directory."""
    if not (PAGE / "index.html").is_file():
        return frozenset()
    return frozenset({"", *(each.name for each in PAGE.iterdir())})


def _first(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]
