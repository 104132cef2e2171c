"""Reads what a job needs from the configuration."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.checkpoint.settings import CheckpointSettings, ClaimMode
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError
from penstock.files.private import make_private
from penstock.job.attempt_directories import directory_name, remove_dead_attempt
from penstock.jobmanager.high_availability.coordination import coordination_of
from penstock.jobmanager.restart_strategies import RestartStrategy, restart_strategy
from penstock.runtime.admission import LARGEST, Admission
from penstock.runtime.records import StateSettings
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from penstock.jobmanager.high_availability.coordination import HaSettings
from penstock.spark.dependencies import Dependencies

_PLACES = (
    "execution.checkpointing.dir",
    "execution.checkpointing.savepoint-dir",
    "execution.state-recovery.path",
)
_SCHEDULER = "penstock.scheduler"
_EXECUTING = "jobmanager.adaptive-scheduler.executing."
IN_PROCESS = "in-process"
"""A master of our own: epochs run in this process, one subtask after the other, without a JVM."""

_SHARED = "penstock.state.local.shared"
_STORAGE = ("s3.", "gs.", "azure.", "abfs.", "az.", "hdfs.", "fs.")
"""Beginnings of the keys that checkpoint storage reads."""
_ALLOW_PICKLE = "penstock.state.allow-pickle"
_BACKENDS = ("hashmap", "rocksdb")


@dataclass(frozen=True, slots=True)
class ReactiveSettings:
    """When a job takes the parallelism of its executors, as for Flink's adaptive scheduler."""

    stabilization_ms: int  # Time from a change of the executors to the rescale.
    cooldown_ms: int  # Least time from one rescale to the next.


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of one job."""

    master: str  # Spark master for a session that has to be made, or `in-process`.
    spark: dict[str, str]  # Spark settings of the user.
    state: StateSettings  # Where and how state is kept.
    # Whether executors share the directory of state files; None: if they are on this machine.
    shares_directory: bool | None
    admission: Admission  # Size of epochs.
    epoch_interval_ms: int  # Least time from one epoch to the next.
    parameters: tuple[tuple[str, str], ...]  # Global job parameters.
    checkpoints: CheckpointSettings  # When and where checkpoints are taken.
    # What follows a failure; keeps count over the attempts of the job.
    restart_strategy: RestartStrategy
    restore_path: str | None  # Snapshot to start from, or None.
    ignore_unclaimed_state: bool  # Whether state without an operator in the program is dropped.
    claim_mode: ClaimMode  # Who owns the snapshot that the job starts from.
    dependencies: Dependencies  # Python files, archives and requirements of the program.
    lowers: bool  # Whether window aggregates run on columns where they can.
    object_reuse: bool  # Whether records are handed on without copies.
    shares_classes: bool = True  # Whether a JVM on this machine uses an archive of classes.
    leader_epoch: int = 1  # Rises with every attempt that a job manager starts; 1 for the first.
    # Where the records of a highly available job are; None for any other.
    coordination: HaSettings | None = None
    reactive: ReactiveSettings | None = None  # When the job follows its executors; None for never.
    # The whole configuration, for storage that has keys of its own (`s3.…`).
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def make_absolute(configuration: Configuration) -> None:
    """Has places of snapshots mean the same to every process, now and after a restart.

    What a program or a command line says is relative to where the user called `penstock run`.
    """
    for key in _PLACES:
        setting = configuration.setting(key)
        if setting is None or ":/" in setting.value:
            continue
        path = Path(setting.value).expanduser()
        if not setting.value.strip():
            raise ConfigurationError(
                f"{key} is empty; it was set by {setting}. Give a path or URL, or leave it out."
            )
        if not path.is_absolute():
            called = configuration.read("penstock.job.base-directory")
            base = Path(called) if called and setting.rank > Rank.FILE else Path.cwd()
            place = os.path.normpath(base / path)
            source = f"{setting.source}, relative to {base}"
            configuration.put(key, place, setting.rank, source)


def read_settings(configuration: Configuration, job_id: str, leader_epoch: int = 1) -> JobSettings:
    """Reads and checks the settings of a job."""
    everything = configuration.to_dict()
    prefix = "penstock.spark.conf."
    checkpoints = CheckpointSettings.from_configuration(configuration)
    ceiling = configuration.get_integer("penstock.epoch.max-records", LARGEST)
    return JobSettings(
        master=everything.get("penstock.spark.master", "local[*]"),
        spark={
            key.removeprefix(prefix): value
            for key, value in everything.items()
            if key.startswith(prefix)
        },
        state=_state(configuration, job_id, leader_epoch),
        shares_directory=(
            configuration.get_boolean(_SHARED) if configuration.contains_key(_SHARED) else None
        ),
        admission=Admission(
            target_ms=configuration.get_duration_ms("penstock.epoch.target-duration"),
            max_records=min(Admission().max_records, ceiling),
            ceiling=ceiling,
            max_bytes=configuration.get_size_bytes("penstock.epoch.max-bytes"),
        ),
        epoch_interval_ms=configuration.get_duration_ms("penstock.epoch.interval"),
        parameters=tuple(sorted(configuration.get_map("pipeline.global-job-parameters").items())),
        checkpoints=checkpoints,
        restart_strategy=restart_strategy(configuration, checkpointing=checkpoints.is_enabled),
        restore_path=configuration.read("execution.state-recovery.path") or None,
        ignore_unclaimed_state=configuration.read(
            "execution.state-recovery.ignore-unclaimed-state"
        ),
        dependencies=Dependencies(
            files=tuple(configuration.get_list("python.files")),
            archives=tuple(configuration.get_list("python.archives")),
            requirements=configuration.read("python.requirements") or None,
            executable=configuration.read("python.executable") or None,
        ),
        claim_mode=ClaimMode(configuration.read("execution.state-recovery.claim-mode")),
        lowers=configuration.get_boolean("penstock.lowering.enabled"),
        object_reuse=configuration.get_boolean("pipeline.object-reuse"),
        shares_classes=configuration.get_boolean("penstock.spark.share-classes"),
        leader_epoch=leader_epoch,
        coordination=coordination_of(configuration, leader_epoch),
        reactive=_reactive(configuration, checkpoints),
        storage_options=everything,
    )


def _reactive(
    configuration: Configuration, checkpoints: CheckpointSettings
) -> ReactiveSettings | None:
    if configuration.get_enum(_SCHEDULER) != "reactive":
        return None
    if not checkpoints.is_enabled:
        raise ConfigurationError(
            f"{_SCHEDULER} is reactive, and the job takes no checkpoints, from which it would be "
            "rescaled. Set execution.checkpointing.interval."
        )
    return ReactiveSettings(
        configuration.get_duration_ms(_EXECUTING + "resource-stabilization-timeout"),
        configuration.get_duration_ms(_EXECUTING + "cooldown-after-rescaling"),
    )


def _state(configuration: Configuration, job_id: str, leader_epoch: int) -> StateSettings:
    backend = configuration.get_string("state.backend.type", "hashmap")
    if backend not in _BACKENDS:
        raise ConfigurationError(
            f"state.backend.type is '{backend}'; it must be one of {', '.join(_BACKENDS)}. It was "
            f"set by {configuration.setting('state.backend.type')}."
        )
    base = configuration.get_string(
        "state.backend.rocksdb.localdir", ""
    ) or configuration.get_string("io.tmp.dirs", "")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    directory = root / directory_name(job_id, leader_epoch)
    # Of a process with this id that was killed before storage knew of it, or without checkpoints.
    remove_dead_attempt(directory)
    if (directory / "state").exists():
        raise ConfigurationError(
            f"the working directory {directory} is that of another process of job {job_id}, which "
            "may still run. End that process, or remove the directory if there is none."
        )
    try:
        # A configured directory may be shared by users; the one that we name ourselves is ours.
        make_private(directory, directory if base else root)
        (directory / "state").mkdir(mode=0o700)
        (directory / "scratch").mkdir(mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"the working directory {directory} of the job cannot be made: "
            f"{error.strerror or error}. Set io.tmp.dirs to a directory on local disk where this "
            "user may write."
        ) from error
    return StateSettings(
        backend=backend,
        directory=str(directory / "state"),
        scratch_directory=str(directory / "scratch"),
        inline_threshold_bytes=configuration.get_size_bytes(
            "execution.checkpointing.data-inline-threshold"
        ),
        pickles=Pickles.ALLOW if configuration.get_boolean(_ALLOW_PICKLE) else Pickles.REFUSE,
        options=_backend_options(configuration, backend),
        storage=tuple(
            (key, value)
            for key, value in sorted(configuration.to_dict().items())
            if key.startswith(_STORAGE)
        ),
    )


def _backend_options(configuration: Configuration, backend: str) -> tuple[tuple[str, int], ...]:
    """Returns the memory that the state of a subtask may take; half of it holds blocks of files."""
    key = "state.backend.rocksdb.memory.fixed-per-slot"
    if backend != "rocksdb" or not configuration.contains_key(key):
        return ()
    half = configuration.get_size_bytes(key) // 2
    return (("memory_bytes", half), ("block_cache_bytes", half))
