"""The process of one job: runs a user's program for a job manager.

    python -m penstock.job.driver_process <job directory> <attempt>

1. The package is unpacked into a private directory, and comes first on the path.
2. The program runs as `python program.py arguments…` would; its `execute()` becomes the job.
3. The end of the job, or why there is none, is written to `end.json`.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.config_file import COMMAND_LINE_VARIABLE
from penstock.core.configuration import import_path
from penstock.core.errors import JobExecutionError, PenstockError, ProgramError
from penstock.core.job import JobStatus
from penstock.core.redaction import SecretlessFormatter
from penstock.core.setting_texts import parse_files
from penstock.core.times import SystemClock
from penstock.job.ended_jobs import PROGRAM, remove_programs
from penstock.job.managed_job import OVERRULED, ManagedJob
from penstock.job.package import resolve, unpack_package
from penstock.job.record import failure_of
from penstock.job.start import run_program, set_launcher
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.processes import start_time
from penstock.spark.dependencies import remove_shipped_files

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from penstock.jobmanager.job_records import ProcessRecord, Submission

_log = logging.getLogger("penstock.job")
_LOG_FORMAT: Final = "%(asctime)s %(levelname)-5s %(name)s - %(message)s"
_OUTPUT: Final = 1
_LOG: Final = 2
"""Where the job manager has led the standard output and standard error."""
CHECKPOINTS: Final = "checkpoints"
"""Below the job manager's directory: where checkpoints of programs go that name no place."""


def main(arguments: Sequence[str]) -> int:
    """Runs the job of a directory to its end."""
    logging.basicConfig(level=logging.INFO)
    logging.getLogger().handlers[0].setFormatter(SecretlessFormatter(_LOG_FORMAT))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    sys.stdout = io.TextIOWrapper(_PrintedAndLogged(), encoding="utf-8", write_through=True)
    directory = JobDirectory(Path(arguments[0]))
    process = _registered(directory, int(arguments[1]))
    submission = directory.submission.read()
    if process is None or submission is None:
        _log.error(
            "%s does not expect attempt %s: this process ends.", directory.path, arguments[1]
        )
        return OVERRULED
    checkpoints = str(directory.path.parent.parent / CHECKPOINTS)
    job = ManagedJob(directory, process, checkpoints, SystemClock())
    job.start()
    private = _private_directory(directory, process)
    try:
        failure = _run_program(directory, submission, private, job)
        end = job.finish(failure)
        is_cancelled = end.status is JobStatus.CANCELED and isinstance(failure, JobExecutionError)
        if failure is not None and not is_cancelled:
            _log.error("%s", failure_of(failure, 0, 0).text)
        counts = directory.process.read()
        if counts is not None and counts.attempt == process.attempt:
            directory.end.write(end)
        _log.info("The job has ended: %s", end.status.name)
    finally:
        shutil.rmtree(private, ignore_errors=True)
        stop_spark()
    return 0


class _PrintedAndLogged(io.RawIOBase):
    """The standard output of the program: a file of its own, and the log, which has the order."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _OUTPUT

    def write(self, data: Buffer) -> int:
        for file in (_OUTPUT, _LOG):
            left = memoryview(data).cast("B")
            while left:
                left = left[os.write(file, left) :]
        return memoryview(data).nbytes


def _registered(directory: JobDirectory, attempt: int) -> ProcessRecord | None:
    """Completes the record that the manager made: it may have died before it knew our number."""
    expected = directory.process.read()
    if expected is None or expected.attempt != attempt:
        return None
    began = start_time(os.getpid()) or ""
    process = msgspec.structs.replace(expected, pid=os.getpid(), start_time=began)
    directory.process.write(process)
    return process


def _private_directory(directory: JobDirectory, process: ProcessRecord) -> Path:
    """Makes the directory of the program's files; those of killed attempts go."""
    remove_programs(directory)
    private = directory.path / f"{PROGRAM}{process.attempt}"
    private.mkdir(mode=0o700)
    return private


def _run_program(
    directory: JobDirectory, submission: Submission, private: Path, job: ManagedJob
) -> BaseException | None:
    """Runs the program; returns what it raised."""
    try:
        package = directory.package.read_bytes()
        if hashlib.sha256(package).hexdigest() != submission.package_sha256:
            raise ProgramError(f"{directory.package} is not the package that was submitted.")
        unpack_package(package, private)
        configuration = resolve(submission.configuration, private)
        files = parse_files(configuration.get("python.files", ""))
        os.environ[COMMAND_LINE_VARIABLE] = json.dumps(configuration)
        set_launcher(job.launch)
        program = None if submission.program is None else str(private / submission.program)
        paths = [str(private.resolve()), *map(import_path, files)]
        run_program(program, submission.module, submission.arguments, paths)
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        return ProgramError(f"the program ended itself with sys.exit({error.code!r:.200}).")
    except BaseException as error:
        return error
    return None


def stop_spark() -> None:
    """Ends the session, if the program made one: the JVM must not outlive us, nor its files."""
    remove_shipped_files()
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None:
        return
    try:
        context.stop()
    except Exception:
        _log.warning("Spark could not be stopped.", exc_info=True)


if __name__ == "__main__":
    status = 1
    try:
        status = main(sys.argv[1:])
    except PenstockError as problem:
        _log.error("%s", problem)
    # Threads of the program must not keep the process: its job has ended.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
