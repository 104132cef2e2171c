"""Serves the page of a job in its program's process; one job at a time has one.

The page stays when the job has ended, for as long as the process does or until the next job has
one: a failure is looked at afterwards.
"""

from __future__ import annotations

import atexit
import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigurationError, install_extra
from penstock.inspection.pages import SnapshotPages
from penstock.job.embedded_dispatcher import EmbeddedDispatcher

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.job.local_job import LocalJob
    from penstock.rest.server import RestServer

_log = logging.getLogger("penstock.rest")


class EmbeddedService:
    """A job's page.

    Attributes:
        url: Where it is.
    """

    def __init__(self, job: LocalJob, configuration: Configuration) -> None:
        server = _open(job, configuration)
        self._dispatcher, self._server = server
        self._server.start()
        self.url = self._server.url

    def address(self, page: str = "") -> str:
        """Returns where a page is, for people: with the token where no log is written."""
        return address_for_people(self._server, page)

    def close(self) -> None:
        self._dispatcher.close()
        self._server.stop()


_services: Final[list[EmbeddedService]] = []


def serve(job: LocalJob, configuration: Configuration) -> EmbeddedService:
    """Serves a job's page and prints where it is."""
    close_all()
    service = EmbeddedService(job, configuration)
    _services.append(service)
    # People look at what is printed, and a notebook shows no log.
    print(f"Web interface of job {job.job_id}: {service.address()}", flush=True)
    return service


def current_address(page: str = "") -> str | None:
    """Returns where a page of this process is, if it has any."""
    return _services[-1].address(page) if _services else None


def address_for_people(server: RestServer, page: str = "") -> str:
    """Returns the address of a page, with the token if a terminal or a notebook shows it.

    Anything else may be a log, which others read later: there it is the file of the token.
    """
    if sys.stdout.isatty() or "ipykernel" in sys.modules:
        return f"{server.page_url}{page}"
    return f"{server.url}{'/#' if page else ''}{page} (token: {server.settings.token_place})"


def close_all() -> None:
    """Ends the service of an earlier job."""
    while _services:
        _services.pop().close()


atexit.register(close_all)


def check_available() -> None:
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


def _open(job: LocalJob, configuration: Configuration) -> tuple[EmbeddedDispatcher, RestServer]:
    from penstock.rest.server import open_server
    from penstock.rest.settings import rest_settings

    dispatcher = EmbeddedDispatcher(job, configuration)
    try:
        settings = replace(rest_settings(configuration), snapshots=SnapshotPages(configuration))
        return dispatcher, open_server(dispatcher, settings, or_free_port=True)
    except BaseException:
        dispatcher.close()
        raise
