"""A job manager as a member of a cluster: one leads, the others stand by."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.clock import SystemClock
from penstock.core.tls import rest_scheme
from penstock.files.urls import canonical_url
from penstock.jobmanager.high_availability.cluster import ClusterJobs
from penstock.jobmanager.high_availability.coordination import open_high_availability
from penstock.rest.token_file import TLS_ADVICE, is_loopback

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.jobmanager.dispatcher import JobDispatcher
    from penstock.jobmanager.high_availability.coordination import HaServices
    from penstock.jobmanager.high_availability.settings import HaSettings

_log = logging.getLogger("penstock.jobmanager")


class ClusterMember:
    """This job manager's part in a cluster.

    Args:
        services: Election and job store.
        root: Directory of the jobs on this one.
        history: How many ended jobs are shown.

    Attributes:
        jobs: What its dispatcher keeps the jobs in.
    """

    def __init__(self, services: HaServices, root: Path, history: int) -> None:
        self._services = services
        self.jobs = ClusterJobs(
            services.job_store,
            root,
            history=history,
            leadership=services.election.leadership,
            clock=SystemClock(),
            forget=services.forget,
        )

    def start(self, dispatcher: JobDispatcher, url: str) -> None:
        """Has the dispatcher lead when it is this job manager's turn.

        Args:
            dispatcher: Made with `jobs`, and started.
            url: Where others reach this job manager.
        """
        self.jobs.start(dispatcher)
        self._services.election.start(self.jobs, url)

    def stop(self) -> None:
        """Kills the drivers, gives the lease up, so that another goes on at once, and ends."""
        self._services.election.stop()
        self.jobs.close()
        self._services.close()


def url_for_others(configuration: Configuration, url: str) -> str:
    """Returns where other machines reach a REST interface, given how this one does."""
    if not configuration.contains_key("rest.address"):
        return url
    scheme, _, place = url.partition("://")
    host = configuration.get_string("rest.address")
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}:{place.rpartition(':')[2]}"


def join_cluster(configuration: Configuration, root: Path, history: int) -> ClusterMember | None:
    """Opens what is needed to be a member; None when high availability is off.

    Raises:
        ConfigurationError: Settings are missing or wrong, or ZooKeeper cannot be reached.
        EnvironmentError_: A package is not installed.
    """
    services = open_high_availability(configuration)
    if services is None:
        return None
    for warning in member_warnings(services.settings, configuration):
        _log.warning("%s", warning)
    return ClusterMember(services, root, history)


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
