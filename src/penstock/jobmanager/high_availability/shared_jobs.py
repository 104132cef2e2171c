"""Jobs of several job managers, as the dispatcher of each knows them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.jobmanager.dispatching import NotLeaderError

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Leadership
    from penstock.jobmanager.job_records import JobRecord, SubmissionRecord

_log = logging.getLogger("penstock.jobmanager")


class SharedJobs(Protocol):
    """Jobs of a cluster of job managers, as its leader keeps them for a successor."""

    def add(self, record: JobRecord, submission: SubmissionRecord, package: bytes) -> None:
        """Keeps a job that was submitted; nothing of it has run yet."""

    def request_cancel(self, job_id: str, now_ms: int) -> None:
        """Notes that a job is to end, before anything is done about it."""

    def end(self, record: JobRecord) -> None:
        """Notes that a job has ended for good."""

    def confirmed(self, own: Leadership) -> Leadership:
        """Returns who leads at this moment, given what this dispatcher was told last."""


def note_end(shared: SharedJobs | None, record: JobRecord) -> None:
    """Notes that a job has ended, unless that is for another job manager to decide by now."""
    if shared is None:
        return
    try:
        shared.end(record)
    except NotLeaderError as error:
        _log.warning("The end of job %s is not recorded: %s", record.job_id, error)
