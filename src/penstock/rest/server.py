"""Serves the REST interface: puts it together, binds the port, makes the token, runs uvicorn.

    guard (host, token, size, pace) -> standby? -> routes, under `/v1` and bare -> dispatcher
                                                   files of the web page

A client that is slow with its headers, or with taking what it is sent, is cut off by timers of the
connection, one that is slow with its body by the guard. Of connections that have not said anything
yet there are a few: the oldest makes room for a new one, so that idle ones do not block others.
"""

from __future__ import annotations

import dataclasses
import logging
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.core.errors import ConfigurationError
from penstock.rest import routes_cluster, routes_jobs, routes_operations, routes_submission
from penstock.rest.access import Guard
from penstock.rest.context import EventHub, RestContext, install_errors
from penstock.rest.leader import ToLeader
from penstock.rest.trust import remove_token, token_path, write_token
from penstock.version import __version__

if TYPE_CHECKING:
    import asyncio

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
    for module in (routes_jobs, routes_operations, routes_submission, routes_cluster):
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


_log = logging.getLogger("penstock.rest")

HEADER_TIMEOUT_S: Final = 10.0
READER_TIMEOUT_S: Final = 30.0
MOST_SILENT: Final = 100
_MOST_CONNECTIONS: Final = 500
_BACKLOG: Final = 128
_HEADER_BYTES: Final = 16 * 1024
_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 5


class _ImpatientProtocol(H11Protocol):
    """Closes a connection whose first request does not come, or whose reader takes nothing.

    Attributes:
        silent: Connections of the service that have sent no request yet, oldest first.
    """

    silent: dict[_ImpatientProtocol, None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._patience = self.loop.call_later(HEADER_TIMEOUT_S, self._give_up)
        self._reader: asyncio.TimerHandle | None = None
        self.silent[self] = None
        if len(self.silent) > MOST_SILENT:
            next(iter(self.silent))._give_up()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None:
            self.silent.pop(self, None)

    def _give_up(self) -> None:
        self.silent.pop(self, None)
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        # What is written at once is small, so a reader who is only slow resumes in time.
        self._reader = self.loop.call_later(READER_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_waiting()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        self._stop_waiting()
        self.silent.pop(self, None)
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


class _Server(uvicorn.Server):
    """Ends event streams first, which would otherwise be waited for."""

    def __init__(self, config: uvicorn.Config, hub: EventHub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.close()
        await super().shutdown(sockets)


class RestServer:
    """A bound port and what is served there.

    Attributes:
        settings: With the port that was bound and the token that counts.
        url: For people.
        page_url: The same with the token, which a browser keeps to itself: it is no part of what
            is asked for. For terminals and notebooks, and not for logs.
    """

    def __init__(
        self, dispatcher: Dispatcher, settings: RestSettings, bound: socket.socket
    ) -> None:
        port = bound.getsockname()[1]
        self._bound = bound
        self._own_token: str | None = None
        token, place = settings.token, settings.token_place
        if token is None:
            token, place = write_token(port), str(token_path(port))
            self._own_token = token
        self.settings = dataclasses.replace(settings, port=port, token=token, token_place=place)
        scheme, certificate, key = (
            ("https", *settings.tls) if settings.tls else ("http", None, None)
        )
        self.url = f"{scheme}://{settings.advertised}:{port}"
        self.page_url = f"{self.url}/#token={token}"
        self.app = create_app(dispatcher, self.settings)
        self._server = _Server(
            uvicorn.Config(
                self.app,
                http=type("Protocol", (_ImpatientProtocol,), {"silent": {}}),
                ssl_certfile=certificate,
                ssl_keyfile=key,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_STOP_TIMEOUT_S,
                limit_concurrency=_MOST_CONNECTIONS,
                h11_max_incomplete_event_size=_HEADER_BYTES,
            ),
            self.app.state.context.hub,
        )
        self._thread: threading.Thread | None = None

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    def run(self) -> None:
        """Serves until SIGTERM, SIGINT or `stop`, in the calling thread."""
        try:
            self._server.run(sockets=[self._bound])
        finally:
            self._close()

    def start(self) -> None:
        """Serves in a thread of its own; returns when requests are answered."""
        # In a thread of its own, uvicorn leaves the process' signals alone.
        self._thread = threading.Thread(
            target=self._server.run, args=([self._bound],), name="penstock-rest", daemon=True
        )
        self._thread.start()
        waiting = threading.Event()
        for _ in range(int(_START_TIMEOUT_S / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waiting.wait(0.01)
        if not self._server.started:
            self._close()
            raise ConfigurationError(f"the REST interface could not be started at {self.url}.")

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * _STOP_TIMEOUT_S)
            self._close()

    def _close(self) -> None:
        self._bound.close()
        if self._own_token is not None:
            remove_token(self.settings.port, self._own_token)


def open_server(
    dispatcher: Dispatcher, settings: RestSettings, *, or_free_port: bool = False
) -> RestServer:
    """Binds the port and makes the service; it does not serve yet.

    Args:
        dispatcher: Has the jobs.
        settings: Where and how.
        or_free_port: Takes a free port if the wanted one is in use.

    Raises:
        ConfigurationError: The port is in use, or not ours to take.
    """
    bound = _bind(settings.host, settings.port, or_free_port=or_free_port)
    try:
        return RestServer(dispatcher, settings, bound)
    except BaseException:
        bound.close()
        raise


def _bind(host: str, port: int, *, or_free_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle's algorithm off; without it, an answer on a
    # kept connection waits 40 ms for the client's delayed acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
        # At once: a second service must find the port taken, and who reads the address may call.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if or_free_port and port != 0:
            return _bind(host, 0, or_free_port=False)
        raise ConfigurationError(
            f"the REST interface cannot listen at {host}:{port}: {error}. Another job manager may "
            "be running there; choose another port with rest.port."
        ) from None
    return bound
