"""The directory of a job manager: its lock, and submissions that are stored whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError, PenstockError, ProgramError, StateError
from penstock.core.job import JobStatus
from penstock.files.errors import FilesError
from penstock.files.private import make_durable, make_private, replace_file
from penstock.files.urls import Storages
from penstock.jobmanager.job_directory import FILE_MODE, JobDirectory, is_id
from penstock.jobmanager.job_records import JobRecord, RefusedError, Submission
from penstock.jobmanager.restart_strategies import restart_strategy

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_PROGRAM: Final = re.compile(r"[^/\\\0]{1,255}")
_DRAFT: Final = ".new-"
_NOT_THE_JOBS: Final = ("rest.", "web.", "jobmanager.", "penstock.rest.", "penstock.jobmanager.")
"""Settings that are about the service, and that its jobs do not get."""


def check_names(program: Any, module: Any) -> None:
    """Checks what a submission says is to run.

    Raises:
        ProgramError: It is not the name of one program or module.
    """
    if (program is None) == (module is None):
        raise ProgramError("name either a 'program' or a 'module' to run.")
    if program is not None and not (isinstance(program, str) and _PROGRAM.fullmatch(program)):
        raise ProgramError("'program' is the name of a file in the package, without a directory.")
    if module is not None and not (isinstance(module, str) and _MODULE.fullmatch(module)):
        raise ProgramError("'module' is a dotted name, such as jobs.wordcount.")


def completed(submission: Submission, package: bytes, defaults: Configuration) -> Submission:
    """Checks a submission; adds the job manager's settings to it.

    Args:
        submission: What was sent.
        package: What was sent with it.
        defaults: Configuration of the job manager; what its command line says is passed on.

    Raises:
        ProgramError: It names nothing that could run.
        RefusedError: It cannot run; says why.
    """
    check_names(submission.program, submission.module)
    configuration = _passed_on(defaults) | submission.configuration
    _check(configuration)
    return msgspec.structs.replace(
        submission, configuration=configuration, package_sha256=hashlib.sha256(package).hexdigest()
    )


def first_record(submission: Submission, job_id: str, now_ms: int) -> JobRecord:
    """Returns what is known of a job when it is submitted."""
    name = submission.program or submission.module or ""
    shown = submission.configuration.get("pipeline.name") or PurePosixPath(name).stem
    return JobRecord(
        job_id=job_id,
        name=shown,
        submitted_ms=now_ms,
        changed_ms=now_ms,
        timestamps={JobStatus.INITIALIZING: now_ms},
    )


def store(root: Path, record: JobRecord, submission: Submission, package: bytes) -> None:
    """Writes a job's directory; it is there with all it needs, or it is not there.

    Raises:
        RefusedError: It cannot be written, for example because the disk is full.
    """
    draft = JobDirectory(root / f"{_DRAFT}{record.job_id}")
    shutil.rmtree(draft.path, ignore_errors=True)
    try:
        draft.create()
        replace_file(draft.package, package, durable=True)
        draft.submission.write(submission)
        draft.job.write(record)
        draft.path.rename(root / record.job_id)
        make_durable(root)
    except OSError as error:
        shutil.rmtree(draft.path, ignore_errors=True)
        raise RefusedError(f"the job cannot be stored in {root}: {error.strerror}.") from None


def remove_drafts(root: Path) -> None:
    """Deletes half-written submissions, whose ids were never returned."""
    for path in root.glob(f"{_DRAFT}*"):
        shutil.rmtree(path, ignore_errors=True)


def recorded_jobs(root: Path) -> list[JobRecord]:
    """Returns all jobs of a directory, oldest first.

    Raises:
        PenstockError: A job cannot be read. It is not skipped: it may have to go on.
    """
    found: list[JobRecord] = []
    for path in root.iterdir():
        if not is_id(path.name):
            continue
        record = JobDirectory(path).job.read()
        if record is None or record.job_id != path.name:
            raise PenstockError(
                f"{path} holds no job.json of this job. Bring it back from a copy, or delete the "
                "directory if the job is not needed."
            )
        found.append(record)
    return sorted(found, key=lambda record: (record.submitted_ms, record.job_id))


def _passed_on(defaults: Configuration) -> dict[str, str]:
    """Returns what the job manager's command line says about jobs."""
    return {
        key: setting.value
        for key, setting in defaults.settings().items()
        if setting.rank is Rank.COMMAND_LINE and not key.startswith(_NOT_THE_JOBS)
    }


def _check(settings: dict[str, str]) -> None:
    """Finds mistakes in settings that the job manager itself goes by."""
    configuration = Configuration()
    for key, value in settings.items():
        configuration.put(key, value, Rank.COMMAND_LINE, "-D")
    try:
        restart_strategy(configuration, checkpointing=False)
        configuration.get_duration_ms("task.cancellation.timeout")
        configuration.get_duration_ms("execution.checkpointing.interval")
        start = configuration.read("execution.state-recovery.path")
        if start and "://" not in start:
            # What the program starts from elsewhere, with keys of its own perhaps, it sees itself.
            load_snapshot(Storages(), start)
    except (ConfigurationError, FilesError, StateError) as error:
        raise RefusedError(str(error)) from None


class DirectoryLock:
    """Held until `release`, or the end of the process.

    Args:
        directory: Made if it is missing.

    Raises:
        ConfigurationError: Another process holds it, or the directory cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        try:
            make_private(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, FILE_MODE)
        except OSError as error:
            raise ConfigurationError(
                f"the job manager cannot use {directory}: {error.strerror}. Set "
                "penstock.jobmanager.directory to a directory of your own."
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._descriptor, 100).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise ConfigurationError(
                f"another job manager (process {owner or 'unknown'}) works in {directory}. Use "
                "that one, stop it first, or give this one a directory of its own: "
                "-D penstock.jobmanager.directory=…"
            ) from None
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)
