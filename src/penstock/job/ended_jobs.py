"""Cleans up for a job whose process died for the last time, or before it could.

What the process would have done at its end: checkpoints go or stay as the retention policy says,
and local directories go. Nothing of the program is run for that: its driver has left the settings.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.coordinator import CheckpointCoordinator
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.executor import execute
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.pointer import open_records
from penstock.checkpoint.settings import CheckpointSettings, RetentionPolicy, StorageKind, is_kept
from penstock.checkpoint.snapshot_load import LoadedSnapshot, loaded_of
from penstock.checkpoint.start_point import own_start
from penstock.core.configuration import Configuration, Rank
from penstock.core.job import JobStatus
from penstock.core.times import SystemClock
from penstock.files.urls import Storages
from penstock.job.attempt_directories import remove_earlier_attempts
from penstock.job.settings import JobSettings, read_settings
from penstock.jobmanager.high_availability.coordination import open_job_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.jobmanager.job_directory import JobDirectory

_log = logging.getLogger("penstock.checkpoint")
PROGRAM: Final = "program-"
"""Begins the names of the directories into which programs are unpacked."""


def clean_up(directory: JobDirectory, status: JobStatus, leader_epoch: int) -> None:
    """Cleans up after the processes of a job, which are dead.

    Args:
        directory: Of the job.
        status: How it ended.
        leader_epoch: Above that of every process: should one live, it is locked out.

    Raises:
        PenstockError: Something is left; the next try may have more luck.
    """
    remove_programs(directory)
    given = directory.settings.read()
    if given is None:
        return  # The program got no further than its first lines.
    configuration = Configuration()
    for key, value in given.items():
        configuration.put(key, value, Rank.CODE, "program")
    settings = read_settings(configuration, directory.job_id, leader_epoch)
    local = Path(settings.state.directory).parent
    try:
        _end_checkpoints(directory.job_id, settings, status)
    finally:
        remove_earlier_attempts(local, directory.job_id)
        shutil.rmtree(local, ignore_errors=True)


def remove_programs(directory: JobDirectory) -> None:
    """Removes the unpacked files of the program."""
    for program in directory.path.glob(f"{PROGRAM}*"):
        shutil.rmtree(program, ignore_errors=True)


def _end_checkpoints(job_id: str, settings: JobSettings, status: JobStatus) -> None:
    # Whatever lies about was written by processes that are dead by now, and need not grow old.
    checkpoints = dataclasses.replace(settings.checkpoints, orphan_ttl_ms=0, timeout_ms=10)
    place = checkpoints.directory
    if checkpoints.storage is not StorageKind.FILE_SYSTEM or not place:
        return
    storages = Storages(settings.storage_options)
    records = open_job_records(settings.coordination, settings.storage_options, job_id, place)
    try:
        layout = layout_of(job_id, create_subdir=checkpoints.create_subdirectory)
        if open_records(records, storages.at(place), layout)[0].read() is None:
            return
        identity = JobIdentity(job_id, "", settings.state.directory, settings.leader_epoch, records)
        files = CheckpointFiles(identity, checkpoints, SystemClock(), storages)
        try:
            _end(files, checkpoints, status)
        finally:
            files.close()
    finally:
        if records is not None:
            records.close()


def _end(files: CheckpointFiles, settings: CheckpointSettings, status: JobStatus) -> None:
    """Has the coordinator end the job from where its checkpoints stand."""
    files.pointer.ending = status.name
    pointer, last_id = files.take_over()
    own = own_start(pointer, last_id, files)
    if own is None:
        files.orphans.finish(last_id, ())
        return
    files.registry = own.registry
    coordinator = CheckpointCoordinator(_keeping_what_is_owed(settings, own.loaded, status))
    ended = _EndedJob()
    coming: deque[events.Event] = deque([own.restored, events.JobEnded(status)])
    left: list[str] = []
    while coming:
        event = coming.popleft()
        match event:
            case events.DeletionFailed(_, message) | events.SharedFilesReleased(message):
                left.append(message)
            case events.PointerRemovalUnknown(message) | events.LeadershipLost(message):
                left.append(message)
        for instruction in coordinator.handle(event, now_ms=0):
            answer = execute(instruction, files, ended, ended)
            if answer is not None:
                coming.append(answer)
    if ended.is_closed:
        files.orphans.finish(coordinator.last_id, map(loaded_of, coordinator.needed))
    else:
        left.append("their coordinator did not come to an end.")
    if left := [message for message in left if message]:
        raise CheckpointError(f"checkpoints of job {files.job_id} are left: {left[0]}")


class _EndedJob:
    """Stands for a job that does not run any more: only its files are left."""

    is_closed = False

    def steer(self, instruction: instructions.Steering) -> None:
        self.is_closed |= isinstance(instruction, instructions.Close)

    def in_background(self, work: Callable[[], events.Event]) -> events.Event:
        return work()

    def figures(self, _instruction: object, _uploaded: object) -> CheckpointFigures:
        return CheckpointFigures()

    def promise(self, sinks: object) -> None:
        """Nothing is written any more."""

    def commit(self, epoch: int, checkpoint_id: int) -> None:
        """Only the program can commit its output; the checkpoint is kept for that."""


def _keeping_what_is_owed(
    settings: CheckpointSettings, latest: LoadedSnapshot, status: JobStatus
) -> CheckpointSettings:
    """Returns settings that keep checkpoints with output that may not be visible yet.

    Only the program can commit it: the one that died, or one that starts from the checkpoint.
    """
    owing = latest.manifest.owing
    if not owing or status is JobStatus.FINISHED or is_kept(settings.retention, status):
        return settings
    _log.warning(
        "%s stays: its process died when output of the sinks %s may not have been visible yet. A "
        "program that starts from it makes it so; if that is not wanted, delete it.",
        latest.directory,
        ", ".join(map(repr, owing)),
    )
    return dataclasses.replace(settings, retention=RetentionPolicy.RETAIN_ON_CANCELLATION)
