"""Puts the service's outside together: guard, routes under `/v1` and bare, the web page.

guard (host, token, size, pace) -> standby? -> routes -> dispatcher
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI

from penstock.rest import (
    errors,
    routes_checkpoints,
    routes_cluster,
    routes_jobs,
    routes_operations,
    routes_state,
    routes_submission,
)
from penstock.rest.context import RestContext
from penstock.rest.event_hub import EventHub
from penstock.rest.guard import Guard
from penstock.rest.leader import ToLeader
from penstock.rest.page import Page
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
    app.state.context = RestContext(dispatcher, settings, hub, routes_submission.Spool())
    errors.install(app)
    routes = APIRouter()
    # In this order: a fixed path is tried before one with a trigger id in its place.
    for module in (
        routes_jobs,
        routes_checkpoints,
        routes_operations,
        routes_state,
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
