"""Settings of high availability."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

PREFIX: Final = "high-availability."
ZOOKEEPER: Final = "high-availability.zookeeper."
LEASE_TIMEOUT: Final = "penstock.high-availability.lease-timeout"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class HaKind(Enum):
    """Where the coordination records are kept."""

    ZOOKEEPER = "ZOOKEEPER"
    FILESYSTEM = "FILESYSTEM"


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How to reach ZooKeeper."""

    quorum: str  # `host:port` of its servers, separated by commas.
    root: str  # Node below which everything lies, such as `/flink`.
    session_timeout_ms: int
    connection_timeout_ms: int  # How long to wait for a first connection, and for an answer.
    retry_wait_ms: int  # Longest pause before connecting again.
    max_retries: int  # How often a read is asked again.


@dataclass(frozen=True, slots=True)
class HaSettings:
    """How several job managers share one cluster of jobs."""

    kind: HaKind  # Where the coordination records are kept.
    storage_directory: str  # Shared directory of submitted jobs and results.
    cluster_id: str  # Name of the cluster, without slashes around it.
    lease_timeout_ms: int  # A leader without a sign of life for this long is followed by another.
    zookeeper: ZooKeeperSettings | None = None

    @property
    def cluster_directory(self) -> str:
        return f"{self.storage_directory.rstrip('/')}/{self.cluster_id}"

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> HaSettings | None:
        """Reads the settings; None when high availability is off.

        Raises:
            ConfigurationError: Something is missing or malformed.
        """
        name = configuration.get_enum(PREFIX + "type")
        if name is None or name == "NONE":
            return None
        kind = HaKind(name)
        directory = configuration.get_string(PREFIX + "storageDir")
        if not directory:
            raise ConfigurationError(
                f"{PREFIX}type is {kind.value.lower()}, and {PREFIX}storageDir is not set. Set it "
                "to a directory that all job managers share: submitted jobs are kept there."
            )
        zookeeper = _zookeeper(configuration) if kind is HaKind.ZOOKEEPER else None
        return cls(
            kind=kind,
            storage_directory=directory,
            cluster_id=_path(configuration, PREFIX + "cluster-id"),
            lease_timeout_ms=(
                configuration.get_duration_ms(LEASE_TIMEOUT)
                if zookeeper is None
                else zookeeper.session_timeout_ms
            ),
            zookeeper=zookeeper,
        )


def _zookeeper(configuration: Configuration) -> ZooKeeperSettings:
    quorum = configuration.get_string(ZOOKEEPER + "quorum")
    if not quorum:
        raise ConfigurationError(
            f"{PREFIX}type is zookeeper, and {ZOOKEEPER}quorum is not set. Set it to the servers, "
            "such as 'zk1:2181,zk2:2181,zk3:2181'."
        )
    client = ZOOKEEPER + "client."
    return ZooKeeperSettings(
        quorum=",".join(part.strip() for part in re.split("[,;]", quorum) if part.strip()),
        root="/" + _path(configuration, ZOOKEEPER + "path.root"),
        session_timeout_ms=configuration.get_duration_ms(client + "session-timeout"),
        connection_timeout_ms=configuration.get_duration_ms(client + "connection-timeout"),
        retry_wait_ms=configuration.get_duration_ms(client + "retry-wait"),
        max_retries=configuration.get_integer(client + "max-retry-attempts"),
    )


def _path(configuration: Configuration, key: str) -> str:
    """Returns a name made of parts, without slashes around it."""
    text = configuration.get_string(key)
    parts = [part for part in text.split("/") if part]
    if not parts or not all(_SEGMENT.fullmatch(part) for part in parts):
        raise ConfigurationError(
            f"{key} is '{text}'; it must be one or more names joined by '/', of letters, digits, "
            "'.', '_' and '-'."
        )
    return "/".join(parts)
