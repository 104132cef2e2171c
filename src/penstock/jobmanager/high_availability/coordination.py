"""Wires high availability: election, job store, and checkpoint records outside the directory.

zookeeper    every record is a node; files are in `high-availability.storageDir`
filesystem   every record is in `high-availability.storageDir`; those of checkpoints stay in
             the checkpoint directory, where they are fenced by leader epoch as well
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.pointer import JobRecords
from penstock.core.errors import ConfigurationError
from penstock.core.versioned import VersionedRecord
from penstock.files.probe import probe_storage
from penstock.files.records import open_record
from penstock.files.urls import Storages, canonical_url
from penstock.jobmanager.election.decider import Election
from penstock.jobmanager.election.driver import LeaderElection
from penstock.jobmanager.election.lease import LeaseTimes, decode_lease
from penstock.jobmanager.high_availability.job_store import HaJobStore
from penstock.jobmanager.high_availability.settings import HaKind, HaSettings
from penstock.jobmanager.high_availability.zookeeper import ZooKeeper, ZooKeeperRecord
from penstock.jobmanager.job_records import ATTEMPT_BITS

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.files.contract import Storage

LEASE: Final = "leader/latch"
"""Name of the leader's lease."""


@dataclass(frozen=True, slots=True)
class HaServices:
    """What a job manager among others needs."""

    settings: HaSettings  # As they were read.
    election: LeaderElection  # Its candidacy; `start` makes it one.
    job_store: HaJobStore  # Jobs of the cluster.
    # Removes the checkpoint records of a job that has ended, given its id.
    forget: Callable[[str], None]
    close: Callable[[], None]  # Ends connections, after the election was stopped.


def open_high_availability(configuration: Configuration) -> HaServices | None:
    """Opens what the configuration asks for; None when high availability is off.

    Raises:
        ConfigurationError: Settings are missing or malformed, the storage directory cannot keep
            two leaders apart, or ZooKeeper cannot be reached.
        StorageError: The storage directory cannot be used, or the lease not be read.
        StateError: The lease is damaged.
        EnvironmentError_: A package is not installed.
    """
    settings = HaSettings.from_configuration(configuration)
    if settings is None:
        return None
    times = LeaseTimes(settings.lease_timeout_ms)
    records = CoordinationRecords(settings, configuration.to_dict())
    try:
        # Whatever is forbidden, damaged or missing shows now and not when it is needed.
        probe_storage(records.storage, settings.cluster_id, _new_id())
        records.open(LEASE).read()
    except BaseException:
        records.close()
        raise
    job_store = HaJobStore(
        records.storage, settings.cluster_id, records.open("execution-plans"), _new_id
    )
    candidate = _new_id()[:12]
    election = LeaderElection(
        Election(candidate, "", times),
        records.open(LEASE),
        before_first=lambda: job_store.check_never_elected(records.place),
    )
    return HaServices(settings, election, job_store, records.forget, records.close)


@dataclass(frozen=True, slots=True)
class Coordination:
    """What a driver process needs to find the records of its job."""

    settings: HaSettings
    options: Mapping[str, str]  # Configuration, for keys of the storage.


def read_coordination(configuration: Configuration, leader_epoch: int) -> Coordination | None:
    """Returns how an attempt of a highly available job finds its records.

    None for a job without a job manager, whatever the configuration says: it has no rival,
    and is not restarted.
    """
    if leader_epoch < 1 << ATTEMPT_BITS:
        return None
    settings = HaSettings.from_configuration(configuration)
    return None if settings is None else Coordination(settings, configuration.to_dict())


def open_job_records(
    coordination: Coordination | None, job_id: str, checkpoint_directory: str | None
) -> JobRecords | None:
    """Opens pointer and counter of a job; None when they are in the checkpoint directory.

    Raises:
        ConfigurationError: They are there, and nothing would keep two leaders apart.
    """
    if coordination is None:
        return None
    if coordination.settings.kind is not HaKind.ZOOKEEPER:
        if checkpoint_directory:
            storage = Storages(coordination.options).at(checkpoint_directory)
            _check_safe(storage, "execution.checkpointing.dir")
        return None
    records = CoordinationRecords(coordination.settings, coordination.options)
    return JobRecords(records.pointer(job_id), records.counter(job_id), records.close)


def shared_checkpoints(configuration: Configuration) -> str | None:
    """Returns where checkpoints of programs go that name no place, if several managers share it."""
    settings = HaSettings.from_configuration(configuration)
    return None if settings is None else f"{settings.cluster_directory}/checkpoints"


class CoordinationRecords:
    """Records of one cluster.

    Args:
        settings: Of high availability.
        options: Configuration, for keys of the storage.

    Attributes:
        storage: The shared directory.
        place: What keeps the records, for errors.
    """

    def __init__(self, settings: HaSettings, options: Mapping[str, str]) -> None:
        self._settings = settings
        storages = Storages(options)
        directory = canonical_url(settings.storage_directory)
        self.storage = storages.at(directory)
        self._files = storages.at(f"{directory}/{settings.cluster_id}")
        self._zookeeper: ZooKeeper | None = None
        if settings.zookeeper is not None:
            self._zookeeper = ZooKeeper(settings.zookeeper)
            self.place = self._zookeeper.place
        else:
            self.place = self.storage.url
            _check_safe(self.storage, "high-availability.storageDir")

    def open(self, name: str, file_prefix: str = "") -> VersionedRecord:
        """Returns the record of a name.

        Args:
            name: Below the cluster, such as `leader/latch`.
            file_prefix: Beginning of the names of files for what is too long for ZooKeeper.
        """
        settings = self._settings
        if self._zookeeper is None or settings.zookeeper is None:
            return open_record(self.storage, f"{settings.cluster_id}/{name}")
        path = f"{settings.zookeeper.root}/{settings.cluster_id}/{name}"
        prefix = file_prefix or name.rpartition("/")[2]
        return VersionedRecord(
            ZooKeeperRecord(self._zookeeper, path, self._files, prefix, lambda: _new_id()[:12])
        )

    def pointer(self, job_id: str) -> VersionedRecord:
        """Returns the record of a job's completed checkpoints."""
        return self.open(f"jobs/{job_id}/checkpoints", "completedCheckpoint")

    def counter(self, job_id: str) -> VersionedRecord:
        """Returns the record of a job's checkpoint ids."""
        return self.open(f"jobs/{job_id}/checkpoint_id_counter")

    def forget(self, job_id: str) -> None:
        """Removes the records of a job that has ended; those in its directory stay there."""
        settings = self._settings
        if self._zookeeper is not None and settings.zookeeper is not None:
            top = f"{settings.zookeeper.root}/{settings.cluster_id}"
            self._zookeeper.remove(f"{top}/jobs/{job_id}")

    def close(self) -> None:
        """Ends the connection."""
        if self._zookeeper is not None:
            self._zookeeper.close()


def find_leader_url(configuration: Configuration) -> str | None:
    """Returns where the leader's REST interface is, by its lease; None without a leader.

    The holder of a lease that was not released may be dead: then requests fail until another
    job manager takes the lease over.

    Raises:
        ConfigurationError: Settings are missing, or ZooKeeper cannot be reached.
    """
    settings = HaSettings.from_configuration(configuration)
    if settings is None:
        return None
    records = CoordinationRecords(settings, configuration.to_dict())
    try:
        version = records.open(LEASE).read()
    finally:
        records.close()
    if version is None:
        return None
    lease = decode_lease(version)
    return None if lease.is_released else lease.address or None


def _check_safe(storage: Storage, key: str) -> None:
    found = storage.capabilities
    if not (found.cas or found.atomic_create):
        raise ConfigurationError(
            f"high-availability.type is filesystem, and {storage.url} can neither create a file "
            "exactly once nor replace one on condition: two job managers could lead at once. "
            f"Choose a local or mounted directory or s3: for {key}, or set high-availability.type "
            "to zookeeper."
        )


def _new_id() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - the composition root is where ids come from
