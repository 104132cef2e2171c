"""Wires high availability: election, job store, and checkpoint records outside the directory.

zookeeper    every record is a node; files are in `high-availability.storageDir`
filesystem   every record is in `high-availability.storageDir`; those of checkpoints stay in
             the checkpoint directory, where they are fenced by leader epoch as well
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.pointer import JobRecords
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.versioned import VersionedRecord
from penstock.files.records import open_record
from penstock.files.urls import Storages, canonical_url, probe_storage
from penstock.jobmanager.high_availability.candidate import LeaderElection
from penstock.jobmanager.high_availability.election import Election, LeaseTimes, decode_lease
from penstock.jobmanager.high_availability.job_store import HaJobStore
from penstock.jobmanager.high_availability.zookeeper import (
    ZooKeeper,
    ZooKeeperRecord,
    ZooKeeperSettings,
    names_of,
)
from penstock.jobmanager.job_records import ATTEMPT_BITS

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.files.contract import Storage

_log = logging.getLogger("penstock.job")

_PREFIX: Final = "high-availability."
_LEASE_TIMEOUT: Final = "penstock.high-availability.lease-timeout"
LEASE: Final = "leader/latch"
"""Name of the leader's lease."""


@dataclass(frozen=True, slots=True)
class HaSettings:
    """How several job managers share one cluster of jobs."""

    storage_directory: str  # Shared directory of submitted jobs and results.
    cluster_id: str  # Name of the cluster, without slashes around it.
    lease_timeout_ms: int  # A leader without a sign of life for this long is followed by another.
    zookeeper: ZooKeeperSettings | None = None  # None: the records are files in the directory.

    @property
    def cluster_directory(self) -> str:
        return f"{self.storage_directory.rstrip('/')}/{self.cluster_id}"

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> HaSettings | None:
        """Reads the settings; None when high availability is off.

        Raises:
            ConfigurationError: Something is missing or malformed.
        """
        name = configuration.get_enum(_PREFIX + "type")
        if name is None or name == "NONE":
            return None
        directory = configuration.get_string(_PREFIX + "storageDir")
        if not directory:
            raise ConfigurationError(
                f"{_PREFIX}type is {name.lower()}, and {_PREFIX}storageDir is not set. Set it "
                "to a directory that all job managers share: submitted jobs are kept there."
            )
        zookeeper = (
            ZooKeeperSettings.from_configuration(configuration) if name == "ZOOKEEPER" else None
        )
        return cls(
            storage_directory=directory,
            cluster_id=names_of(configuration, _PREFIX + "cluster-id"),
            lease_timeout_ms=(
                configuration.get_duration_ms(_LEASE_TIMEOUT)
                if zookeeper is None
                else zookeeper.session_timeout_ms
            ),
            zookeeper=zookeeper,
        )


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
        purpose = "be high-availability.storageDir"
        probe_storage(records.storage, settings.cluster_id, _new_id(), purpose)
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


def coordination_of(configuration: Configuration, leader_epoch: int) -> HaSettings | None:
    """Returns how an attempt of a highly available job finds its records.

    None for a job without a job manager, whatever the configuration says: it has no rival,
    and is not restarted.
    """
    if leader_epoch < 1 << ATTEMPT_BITS:
        return None
    return HaSettings.from_configuration(configuration)


def open_job_records(
    settings: HaSettings | None,
    options: Mapping[str, str],
    job_id: str,
    checkpoint_directory: str | None,
) -> JobRecords | None:
    """Opens pointer and counter of a job; None when they are in the checkpoint directory.

    Raises:
        ConfigurationError: They are there, and nothing would keep two leaders apart.
    """
    if settings is None:
        return None
    if settings.zookeeper is None:
        if checkpoint_directory:
            storage = Storages(options).at(checkpoint_directory)
            _check_safe(storage, "execution.checkpointing.dir")
        return None
    return CoordinationRecords(settings, options).open_of_job(job_id)


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
            self._top = f"{settings.zookeeper.root}/{settings.cluster_id}"
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
        node = self._node(name, file_prefix)
        if node is not None:
            return VersionedRecord(node)
        return open_record(self.storage, f"{self._settings.cluster_id}/{name}")

    def open_of_job(self, job_id: str) -> JobRecords:
        """Returns the records of a job's checkpoints."""
        pointer, counter = (self.open(*each) for each in _of_job(job_id))
        return JobRecords(pointer, counter, self.close)

    def forget(self, job_id: str) -> None:
        """Removes the records of a job that has ended; those in its directory stay there."""
        if self._zookeeper is None:
            return
        for node in (self._node(*each) for each in _of_job(job_id)):
            assert node is not None
            node.remove()
        self._zookeeper.remove(f"{self._top}/jobs/{job_id}")

    def _node(self, name: str, file_prefix: str) -> ZooKeeperRecord | None:
        if self._zookeeper is None:
            return None
        prefix = file_prefix or name.rpartition("/")[2]
        return ZooKeeperRecord(
            self._zookeeper, f"{self._top}/{name}", self._files, prefix, lambda: _new_id()[:12]
        )

    def close(self) -> None:
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


def _of_job(job_id: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Returns name and file prefix of a job's pointer and counter."""
    above = f"jobs/{job_id}"
    return (f"{above}/checkpoints", "completedCheckpoint"), (f"{above}/checkpoint_id_counter", "")


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


_LOOK_SECONDS: Final = 0.5
_LOOKS_PER_TIMEOUT: Final = 6


def watch_leadership(
    configuration: Configuration,
    attempt_epoch: int,
    leave: Callable[[], None],
    find_parent: Callable[[], int] = os.getppid,
) -> None:
    """Has a driver process end with the leadership that started it; only among job managers.

    Its checkpoints are fenced when another job manager takes the job over. This is about all else
    that it does, above all about jobs without checkpoints, whose output nothing else would stop. It
    leaves when its job manager is gone, and when the lease says that a later epoch has begun: its
    job manager may be asleep, or cut off.

    Args:
        configuration: Of the job.
        attempt_epoch: Epoch in which this attempt writes.
        leave: Ends the process; called by a thread.
        find_parent: Returns the number of the parent process; another one when it has died.
    """
    settings = coordination_of(configuration, attempt_epoch)
    if settings is None:
        return
    lease = CoordinationRecords(settings, configuration.to_dict()).open(LEASE)
    epoch, parent = attempt_epoch >> ATTEMPT_BITS, find_parent()
    pause_seconds = settings.lease_timeout_ms / 1000 / _LOOKS_PER_TIMEOUT
    looks_per_read = max(1, round(pause_seconds / _LOOK_SECONDS))

    def run() -> None:
        waiting = threading.Event()
        for number in itertools.count():
            reason = None
            if find_parent() != parent:
                reason = "its job manager is gone, and another one goes on with the job"
            elif number % looks_per_read == 0:
                reason = superseded(lease, epoch)
            if reason is not None:
                _log.error("This process ends: %s.", reason)
                leave()
                return
            waiting.wait(_LOOK_SECONDS)

    threading.Thread(target=run, name="penstock-leadership", daemon=True).start()


def superseded(lease: VersionedRecord, epoch: int) -> str | None:
    """Returns why to leave if a later leader is known. A lease out of reach says nothing."""
    try:
        current = lease.read()
    except PenstockError:
        return None
    if current is None or current.leader_epoch <= epoch:
        return None
    return f"leader epoch {current.leader_epoch} has begun, and it was started in epoch {epoch}"
