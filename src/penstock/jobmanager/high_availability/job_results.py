"""The job result store: jobs that have ended, so that no job manager ever starts them again.

    <storageDir>/job-result-store/<cluster-id>/<job-id>.json

A file is written once. It has the fields of Flink's entries, and a few more for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint.errors import ObjectExistsError, ObjectMissingError
from penstock.checkpoint.storage.content import Content
from penstock.core.envelope import DamagedError

if TYPE_CHECKING:
    from penstock.checkpoint.storage.contract import CheckpointStorage

_STATUS: Final = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED"}
_SUFFIX: Final = ".json"


class JobResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job has ended."""

    job_id: str  # 32 hex digits.
    status: str  # FINISHED, FAILED or CANCELED.
    name: str = ""
    started_ms: int = 0  # Wall time of the submission.
    ended_ms: int = 0  # Wall time of the end.
    error: str | None = None  # Why it failed, shortened.


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    id: str
    application_status: str
    net_runtime: int
    job_status: str
    job_name: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    error: str | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    result: _Entry


class JobResultStore:
    """Results of one cluster."""

    def __init__(self, storage: CheckpointStorage, cluster_id: str) -> None:
        self._storage = storage
        self._directory = f"job-result-store/{cluster_id}"

    def add(self, result: JobResult) -> None:
        """Writes a result; fine when it is there already, because a job ends once."""
        entry = _Entry(
            id=result.job_id,
            application_status=_STATUS[result.status],
            net_runtime=max(0, result.ended_ms - result.started_ms),
            job_status=result.status,
            job_name=result.name,
            started_ms=result.started_ms,
            ended_ms=result.ended_ms,
            error=result.error,
        )
        data = msgspec.json.encode(_File(version=1, result=entry))
        self._storage.make_directory(self._directory)
        try:
            self._storage.put_if_absent(self._key(result.job_id), Content.of_bytes(data))
        except ObjectExistsError:
            return

    def get(self, job_id: str) -> JobResult | None:
        """Returns how a job has ended; None when it has not.

        Raises:
            DamagedError: The file is not what was written.
        """
        key = self._key(job_id)
        try:
            data = self._storage.read(key)
        except ObjectMissingError:
            return None
        try:
            found = msgspec.json.decode(data, type=_File).result
        except msgspec.DecodeError as error:
            raise DamagedError(f"the job result {self._storage.url_of(key)}: {error}.") from error
        return JobResult(
            job_id=found.id,
            status=found.job_status,
            name=found.job_name,
            started_ms=found.started_ms,
            ended_ms=found.ended_ms,
            error=found.error,
        )

    def newest(self, number: int) -> list[JobResult]:
        """Returns the results that were written last, newest first."""
        entries = [
            entry for entry in self._storage.list(self._directory) if entry.key.endswith(_SUFFIX)
        ]
        entries.sort(key=lambda entry: entry.modified_ms, reverse=True)
        names = [entry.key.rpartition("/")[2].removesuffix(_SUFFIX) for entry in entries]
        found = [self.get(name) for name in names[:number]]
        return [result for result in found if result is not None]

    def _key(self, job_id: str) -> str:
        return f"{self._directory}/{job_id}{_SUFFIX}"
