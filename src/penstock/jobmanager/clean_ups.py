"""Removes what dead processes left of jobs that have ended: one job at a time, in the background.

What is to be removed is noted in the job's record with its end, and the next job manager goes on
with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

    from penstock.core.job import JobStatus
    from penstock.jobmanager.job_directory import JobDirectory
    from penstock.jobmanager.supervised_job import SupervisedJob

    CleanUp = Callable[[JobDirectory, JobStatus, int], None]

_log = logging.getLogger("penstock.jobmanager")


class CleanUps:
    """Clean-ups of one job manager.

    Args:
        clean: Does one; is given the job's directory, how it ended, and the epoch to write in.
        lock: Guards the jobs.
    """

    def __init__(self, clean: CleanUp, lock: threading.RLock) -> None:
        self._clean = clean
        self._lock = lock
        self._worker = ThreadPoolExecutor(1, "penstock-clean-up")

    def begin(self, job: SupervisedJob, done: Callable[[], None] = lambda: None) -> None:
        """Cleans up after a job, if there is something to remove, and says when that is over."""
        if job.record.leftover:
            self._worker.submit(self._run, job, done)
        else:
            done()

    def close(self) -> None:
        """Waits for none: the next job manager goes on."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _run(self, job: SupervisedJob, done: Callable[[], None]) -> None:
        try:
            with self._lock:
                epoch = job.clean_up_begins()
            self._clean(job.directory, job.status, epoch)
            with self._lock:
                job.clean_up_ends()
        except Exception as error:
            _log.warning(
                "Something of job %s is left, and the next job manager tries again: %s",
                job.job_id,
                error,
            )
        done()
