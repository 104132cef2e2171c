"""The job manager as a service, or of one application: dispatcher, REST and page in one process.

    penstock jobmanager

Ctrl-C and SIGTERM end the service and nothing else: jobs go on in their own processes, and the next
job manager on the same directory takes them over. So does one that follows a killed one. Among
several (`high-availability.type`) the one that leads runs the jobs; when it ends, another goes on.

    penstock run-application app.py

Application mode: the job manager and page of one job, in the process that runs its program.
"""

from __future__ import annotations

import dataclasses
import logging
import logging.handlers
import os
import random  # noqa: TID251 - the composition root is where chance comes from
import signal
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.core.errors import ConfigurationError, EnvironmentError_, install_extra
from penstock.core.redaction import SecretlessFormatter
from penstock.core.times import SystemClock
from penstock.files.urls import canonical_url
from penstock.inspection.pages import SnapshotPages
from penstock.job.application import Application, job_id_of
from penstock.job.ended_jobs import clean_up
from penstock.jobmanager.dispatcher import DispatcherSettings, JobDispatcher
from penstock.jobmanager.high_availability.cluster import ClusterJobs
from penstock.jobmanager.high_availability.coordination import open_high_availability
from penstock.jobmanager.job_intake import DirectoryLock
from penstock.jobmanager.processes import DriverLauncher
from penstock.launch.local import address_for_people
from penstock.rest.trust import TLS_ADVICE, is_loopback, rest_scheme

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.job.start import ProgramRequest
    from penstock.jobmanager.high_availability.coordination import HaSettings

_log = logging.getLogger("penstock.jobmanager")
DRIVER_MODULE: Final = "penstock.job.driver_process"
_LOG_FORMAT: Final = "%(asctime)s %(levelname)-5s %(name)s - %(message)s"
_LOG_BYTES: Final = 16 * 1024 * 1024
_MOST_CANDIDATES: Final = 100


def run_job_manager(
    configuration: Configuration, host: str | None = None, port: int | None = None
) -> None:
    """Serves until Ctrl-C or SIGTERM.

    Args:
        configuration: Of the job manager; settings of its command line are defaults of its jobs.
        host: Address to listen at instead of the configured one.
        port: Port to listen at instead of the configured one.

    Raises:
        ConfigurationError: A setting is wrong, the port is in use, or another job manager works in
            the directory.
        EnvironmentError_: The packages of the service are not installed.
    """
    open_server, rest_settings = rest_packages()
    settings = dataclasses.replace(
        rest_settings(configuration, host, port), snapshots=SnapshotPages(configuration)
    )
    directory, lock = _own_directory(configuration)
    try:
        log = _log_to(directory)
        max_ended = _max_ended(configuration)
        cluster = _join_cluster(configuration, directory / "jobs", max_ended)
        dispatcher = JobDispatcher(
            DispatcherSettings(directory, configuration, max_ended, Path(log.baseFilename)),
            DriverLauncher(DRIVER_MODULE, clean_up),
            SystemClock(),
            new_id=lambda: uuid.uuid4().hex,  # noqa: TID251 - the composition root
            random=random.random,
            shared=cluster,
        )
        server = open_server(dispatcher, settings)
        dispatcher.url = server.url
        for number in (signal.SIGTERM, signal.SIGINT):
            # The server has handlers of its own while it runs, and hands the signal on at its end.
            signal.signal(number, lambda *_: server.stop())
        dispatcher.start()
        if cluster is None:
            dispatcher.lead()
        else:
            cluster.start(dispatcher, url_for_others(configuration, server.url))
        print(f"Penstock job manager at {server.url}, jobs in {directory}", flush=True)
        print(f"Web page: {address_for_people(server)}", flush=True)
        try:
            server.run()
        finally:
            if cluster is not None:
                cluster.stop()
            _say_farewell(dispatcher.close(), directory, among_others=cluster is not None)
    finally:
        lock.release()


def run_application(
    configuration: Configuration,
    request: ProgramRequest,
    *,
    job_id: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> NoReturn:
    """Runs a program's job to its end in this process, and ends that with its exit code.

    Args:
        configuration: Of file and command line.
        request: The program.
        job_id: 32 hex digits; None for the configured one.
        host: Address to listen at instead of the configured one.
        port: Port to listen at instead of the configured one.

    Raises:
        ConfigurationError: A setting is wrong, or the port is in use.
        EnvironmentError_: The packages of the service are not installed.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(SecretlessFormatter(_LOG_FORMAT))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    shares_cluster = configuration.get_enum("high-availability.type") != "NONE"
    found = job_id_of(configuration, job_id, shares_cluster=shares_cluster)
    services = open_high_availability(configuration)
    open_server, rest_settings = rest_packages()
    settings = rest_settings(configuration, host, port)
    application = Application(configuration, request, found, services)
    server = open_server(
        application.dispatcher,
        dataclasses.replace(settings, snapshots=SnapshotPages(configuration)),
    )
    application.server = server
    for number in (signal.SIGTERM, signal.SIGINT):
        # Of its own, since the main thread may be anywhere in the program.
        signal.signal(
            number, lambda *_: threading.Thread(target=application.terminated, daemon=True).start()
        )
    server.start()
    print(f"Application of job {found} at {server.url}", flush=True)
    print(f"Web page: {address_for_people(server)}", flush=True)
    if services is not None:
        for warning in member_warnings(services.settings, configuration):
            _log.warning("%s", warning)
    application.run(url_for_others(configuration, server.url))


def state_directory(configuration: Configuration) -> Path:
    """Returns the directory of a job manager: the configured one, or the user's own."""
    configured = configuration.get_string("penstock.jobmanager.directory")
    if configured:
        return Path(configured).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state").absolute() / "penstock"


def rest_packages() -> Any:
    """Imports what the extra `server` brings."""
    try:
        from penstock.rest.server import open_server
        from penstock.rest.settings import rest_settings
    except ModuleNotFoundError as error:
        raise EnvironmentError_(
            f"the job manager needs the package {error.name}. Install its packages: "
            f"{install_extra('server')}"
        ) from None
    return open_server, rest_settings


def _own_directory(configuration: Configuration) -> tuple[Path, DirectoryLock]:
    """Returns a directory that no other job manager works in, and what keeps it so."""
    directory = state_directory(configuration)
    if configuration.get_enum("high-availability.type") == "NONE":
        return directory, DirectoryLock(directory)
    # Candidates on one machine may share the setting: what they share is the storage directory.
    for number in range(_MOST_CANDIDATES):
        candidate = directory / f"candidate-{number}"
        try:
            return candidate, DirectoryLock(candidate)
        except ConfigurationError:
            if number + 1 == _MOST_CANDIDATES:
                raise
    raise AssertionError("unreachable")


def _max_ended(configuration: Configuration) -> int:
    number = int(configuration.get_integer("jobstore.max-capacity"))
    if number < 0:
        raise ConfigurationError(
            f"jobstore.max-capacity is {number}; it is how many ended jobs are remembered, 0 or "
            "more."
        )
    return number


def _log_to(directory: Path) -> logging.handlers.RotatingFileHandler:
    """Logs to the terminal and to a file of bounded size, which REST shows."""
    path = directory / "jobmanager.log"
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=2)
    path.chmod(0o600)
    for each in (handler, logging.StreamHandler(sys.stderr)):
        each.setFormatter(SecretlessFormatter(_LOG_FORMAT))
        logging.getLogger().addHandler(each)
    logging.getLogger().setLevel(logging.INFO)
    return handler


def _say_farewell(living: list[tuple[str, int]], directory: Path, *, among_others: bool) -> None:
    if among_others:
        print(
            "The job manager has stopped; if it led, another one goes on with its jobs, or the "
            "next one that is started for the cluster.",
            flush=True,
        )
        return
    if not living:
        print("The job manager has stopped; no job was running.", flush=True)
        return
    listed = "".join(f"\n  {job_id}  process {pid}" for job_id, pid in living)
    print(
        f"The job manager has stopped; running jobs go on without it:{listed}\n"
        f"`penstock jobmanager` with the same directory ({directory}) takes them over, and starts "
        "again what has died meanwhile. To end a job for good, cancel it there.",
        flush=True,
    )


# -- among other job managers ---------------------------------------------------------------------


def _join_cluster(configuration: Configuration, root: Path, history: int) -> ClusterJobs | None:
    """Opens what a member of a cluster needs; None when high availability is off."""
    services = open_high_availability(configuration)
    if services is None:
        return None
    for warning in member_warnings(services.settings, configuration):
        _log.warning("%s", warning)
    return ClusterJobs(services, root, SystemClock(), history)


def url_for_others(configuration: Configuration, url: str) -> str:
    """Returns where other machines reach a REST interface, given how this one does."""
    if not configuration.contains_key("rest.address"):
        return url
    scheme, _, place = url.partition("://")
    host = configuration.get_string("rest.address")
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}:{place.rpartition(':')[2]}"


def member_warnings(settings: HaSettings, configuration: Configuration) -> list[str]:
    """Returns what an operator should know before the first failover and not after it."""
    found = []
    directory = canonical_url(settings.storage_directory)
    if directory.startswith(f"{tempfile.gettempdir()}/"):
        found.append(
            f"high-availability.storageDir is {directory}, a temporary directory: submitted jobs "
            "are lost when the machine empties it. Use durable storage that all job managers share."
        )
    if not configuration.get_string("penstock.rest.token-file"):
        found.append(
            "each job manager makes a token of its own, so what a standby passes on to the leader "
            "is refused there. Set penstock.rest.token-file to the same token on all of them."
        )
    bound = configuration.get_string("rest.bind-address")
    is_clear = rest_scheme(configuration) == "http"
    if is_clear and not (
        is_loopback(bound) or configuration.get_boolean("penstock.rest.token-in-clear")
    ):
        found.append(
            f"rest.bind-address is {bound}, and without TLS a standby passes no request with the "
            f"token on to a leader on another machine. {TLS_ADVICE}"
        )
    return found
