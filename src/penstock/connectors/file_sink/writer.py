"""The writing half of the file sink: pending files, hidden beside where they will be visible.

A pending file is called `.<part>.<attempt>.inprogress` and lies in the directory of its bucket, so
that a rename makes it visible at once and as a whole. The name of the part holds a digest of job,
sink and attempt: nothing that another attempt or another job wrote is ever overwritten.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.file_sink.rolling import BucketAssigner, checked_bucket
from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.connectors.user_sink import SinkContext
from penstock.core.errors import JobExecutionError
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from penstock.connectors.file_sink.encoders import OutputFormat, PendingFile
    from penstock.connectors.file_sink.rolling import OutputFileConfig, RollingPolicy

PENDING_SUFFIX = ".inprogress"


@dataclass(frozen=True, slots=True)
class FileSinkSettings:
    """What writer and committer share."""

    base_path: str  # Absolute directory.
    output_format: OutputFormat  # How records become bytes.
    assigner: BucketAssigner  # Which bucket a record belongs to.
    policy: RollingPolicy  # When parts are closed.
    names: OutputFileConfig  # How parts are called.


def sink_digest(job_id: str, uid: str) -> str:
    """Returns what all file names of a sink contain."""
    return hashlib.sha256(f"{job_id}/{uid}".encode()).hexdigest()[:8]


class FileSinkWriter(SinkWriter):
    """Writes the pending files of one subtask and epoch."""

    def __init__(self, settings: FileSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._context = context
        self._record = SinkContext(context.now_ms)
        self._open: dict[str, tuple[PendingFile, dict[str, Any]]] = {}
        self._complete: list[tuple[PendingFile, dict[str, Any]]] = []
        self._count = 0
        self._is_prepared = False

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        if not values:
            return
        bucket = self._settings.assigner.bucket_of_epoch(self._context.now_ms)
        if bucket is not None:
            self._write(bucket, values)
            return
        self._record._watermark = watermark
        for chosen, records in self._by_bucket(values, timestamps).items():
            self._write(chosen, records)

    def _by_bucket(self, values: list[Any], timestamps: list[int] | None) -> dict[str, list[Any]]:
        record, assign = self._record, self._settings.assigner.get_bucket_id
        grouped: dict[str, list[Any]] = {}
        for at, value in enumerate(values):
            record._timestamp = NO_TIMESTAMP if timestamps is None else timestamps[at]
            bucket = assign(value, record)
            if bucket in grouped:
                grouped[bucket].append(value)
            else:
                grouped[bucket] = [value]
        return grouped

    def _write(self, bucket: str, values: list[Any]) -> None:
        if bucket not in self._open:
            self._open[bucket] = self._begin(checked_bucket(bucket))
        file, committable = self._open[bucket]
        file.write(values)
        committable["size"] = file.size()
        if committable["size"] >= self._settings.policy.part_size:
            self._complete.append(self._open.pop(bucket))

    def _begin(self, bucket: str) -> tuple[PendingFile, dict[str, Any]]:
        context, names = self._context, self._settings.names
        number, self._count = self._count, self._count + 1
        attempt = hashlib.sha256(f"{context.attempt_id}/{number}".encode()).hexdigest()[:8]
        digest = sink_digest(context.job_id, context.uid) + attempt
        part = (
            f"{names.part_prefix}-{context.subtask}-{context.epoch:06d}-{digest}{names.part_suffix}"
        )
        committable = {
            "base": self._settings.base_path,
            "bucket": bucket,
            "part": part,
            "pending": f".{part}.{context.attempt_id}{PENDING_SUFFIX}",
            "subtask": context.subtask,
            "epoch": context.epoch,
            "number": number,
            "size": 0,
            "written_ms": context.now_ms,
        }
        folder = self._folder(committable)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobExecutionError(
                f"the file sink cannot make the directory {folder}: {error.strerror}. Give it a "
                "path where this user may write."
            ) from None
        path = folder / str(committable["pending"])
        if path.exists():
            raise JobExecutionError(
                f"{path} exists already: another attempt had the same name, {context.attempt_id}. "
                "Names of attempts must be unique; if no job is running, delete the file."
            )
        return self._settings.output_format.open(path), committable

    def _folder(self, committable: dict[str, Any]) -> Path:
        return Path(self._settings.base_path, committable["bucket"])

    def prepare_commit(self) -> list[Any]:
        self._complete += self._open.values()
        self._open = {}
        folders: dict[Path, None] = {}
        for file, committable in self._complete:
            file.close()
            folder = self._folder(committable)
            folders[folder] = None
            path = folder / committable["pending"]
            make_durable(path)
            committable["size"] = path.stat().st_size
        for folder in folders:
            make_durable(folder)
        self._is_prepared = True
        committables = [committable for _, committable in self._complete]
        return sorted(committables, key=lambda committable: int(committable["number"]))

    def close(self) -> None:
        if self._is_prepared:
            return
        for _, committable in (*self._complete, *self._open.values()):
            (self._folder(committable) / committable["pending"]).unlink(missing_ok=True)
        self._complete, self._open = [], {}


def make_durable(path: Path) -> None:
    """Flushes a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
