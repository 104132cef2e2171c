"""Runs a program in the user's process: `env.execute()` and `env.execute_async()`, with a page.

One job at a time has a page. It stays when the job has ended, for as long as the process does or
until the next job has one: a failure is looked at afterwards.
"""

from __future__ import annotations

import atexit
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigurationError, install_extra
from penstock.job.start import launcher, start_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.configuration import Configuration
    from penstock.graph.nodes import StreamGraph
    from penstock.job.embedded_dispatcher import EmbeddedDispatcher
    from penstock.job.local_job import Listener, LocalJob
    from penstock.rest.server import RestServer


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    return (launcher() or start_with_page)(graph, configuration, listener)


def start_with_page(
    graph: StreamGraph,
    configuration: Configuration,
    listener: Listener | None = None,
    *,
    before_start: Callable[[LocalJob], None] | None = None,
) -> LocalJob:
    """Starts a job in this process, with a web page if the configuration asks for one."""
    has_page = configuration.read("penstock.ui.enabled")
    if has_page:
        _check_available()
    job = start_job(graph, configuration, listener, before_start=before_start)
    if has_page:
        _serve(job, configuration)
    return job


_pages: Final[list[tuple[EmbeddedDispatcher, RestServer]]] = []


def current_address(page: str = "") -> str | None:
    """Returns where a page of this process is, if it has any."""
    return address_for_people(_pages[-1][1], page) if _pages else None


def address_for_people(server: RestServer, page: str = "") -> str:
    """Returns the address of a page, with the token if a terminal or a notebook shows it.

    Anything else may be a log, which others read later: there it is the file of the token.
    """
    if sys.stdout.isatty() or "ipykernel" in sys.modules:
        return f"{server.page_url}{page}"
    return f"{server.url}{'/#' if page else ''}{page} (token: {server.settings.token_place})"


def close_all() -> None:
    """Ends the page of an earlier job."""
    while _pages:
        dispatcher, server = _pages.pop()
        dispatcher.close()
        server.stop()


atexit.register(close_all)


def _check_available() -> None:
    """Says before the job starts whether there can be a page.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"the web page of a job (ui=True, penstock.ui.enabled) needs {error.name}: "
            f"{install_extra('server')}."
        ) from None


def _serve(job: LocalJob, configuration: Configuration) -> None:
    """Serves a job's page and prints where it is."""
    # Not with this module: pages, and what they show of snapshots, take long to import.
    from penstock.inspection.pages import SnapshotPages
    from penstock.job.embedded_dispatcher import EmbeddedDispatcher
    from penstock.rest.server import open_server
    from penstock.rest.settings import rest_settings

    close_all()
    dispatcher = EmbeddedDispatcher.of(job, configuration)
    try:
        settings = replace(rest_settings(configuration), snapshots=SnapshotPages(configuration))
        server = open_server(dispatcher, settings, or_free_port=True)
    except BaseException:
        dispatcher.close()
        raise
    server.start()
    _pages.append((dispatcher, server))
    # People look at what is printed, and a notebook shows no log.
    print(f"Web interface of job {job.job_id}: {address_for_people(server)}", flush=True)
