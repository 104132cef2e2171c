"""`/jobs/:jobid/checkpoints` and the details of each: counts, summary, latest, history.

Alignment is always 0: an exchange is read to the end of its epoch, so no record waits for a
barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.figures import SubtaskFigures, Summary, TaskFigures, summary_of
from penstock.checkpoint.settings import CheckpointSettings, RetentionPolicy, StorageKind
from penstock.checkpoint.statistics import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    CheckpointRecord,
    CheckpointStatistics,
    RestoredRecord,
)
from penstock.core.redaction import without_secrets

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


_NO_SUMMARY: Final = asdict(Summary())
_CLASS_NAMES: Final = {COMPLETED: "completed", FAILED: "failed", IN_PROGRESS: "in_progress"}


def checkpoints_view(
    statistics: CheckpointStatistics | None, history: Iterable[Any], leader_epoch: int = 0
) -> dict[str, Any]:
    """Returns the document of all checkpoints.

    Args:
        statistics: What is known; None before the job runs.
        history: Lines of the history, newest first, as `record_view` makes them.
        leader_epoch: Of the attempt that writes.
    """
    statistics = statistics or CheckpointStatistics()
    latest = statistics.latest
    return {
        "counts": asdict(statistics.counts),
        "summary": {
            **{name: asdict(figures) for name, figures in statistics.summary().items()},
            "alignment_buffered": _NO_SUMMARY,
            "processed_data": _NO_SUMMARY,
            "persisted_data": _NO_SUMMARY,
        },
        "latest": {
            "completed": _optional(latest.completed, leader_epoch),
            "savepoint": _optional(latest.savepoint, leader_epoch),
            "failed": _optional(latest.failed, leader_epoch),
            "restored": None if latest.restored is None else _restored(latest.restored),
        },
        "history": history,
        # Ours.
        "declined": dict(sorted(statistics.declined.items())),
    }


def _optional(record: CheckpointRecord | None, leader_epoch: int) -> dict[str, Any] | None:
    return None if record is None else record_view(record, leader_epoch)


def _restored(record: RestoredRecord) -> dict[str, Any]:
    return {
        "id": record.checkpoint_id,
        "restore_timestamp": record.restored_ms,
        "is_savepoint": record.is_savepoint,
        "external_path": record.location,
    }


def record_view(record: CheckpointRecord, leader_epoch: int = 0) -> dict[str, Any]:
    """Returns one line of the history."""
    figures = record.figures
    view = {
        "className": _CLASS_NAMES[record.status],
        "id": record.checkpoint_id,
        "status": record.status,
        "is_savepoint": record.is_savepoint,
        "savepointFormat": record.savepoint_format,
        "checkpoint_type": _kind(record),
        "trigger_timestamp": record.triggered_ms,
        "latest_ack_timestamp": -1 if record.latest_ack_ms is None else record.latest_ack_ms,
        "checkpointed_size": figures.checkpointed_bytes,
        "state_size": figures.state_bytes,
        "end_to_end_duration": record.duration_ms,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": record.num_subtasks,
        "num_acknowledged_subtasks": record.num_acknowledged,
        "tasks": {},
        # Ours.
        "epoch": record.epoch,
        "is_periodic": record.is_periodic,
        "files": figures.files_new,
        "files_reused": figures.files_reused,
        "bytes_inline": figures.inline_bytes,
        "leader_epoch": leader_epoch,
        "failure_reason": record.failure_reason,
    }
    if record.status == COMPLETED:
        view |= {"external_path": record.location, "discarded": record.is_discarded}
    if record.status == FAILED:
        view |= {
            "failure_timestamp": record.failed_ms,
            "failure_message": without_secrets(record.failure_message or ""),
        }
    return view


def _kind(record: CheckpointRecord) -> str:
    return "SAVEPOINT" if record.is_savepoint else "CHECKPOINT"


def details_view(record: CheckpointRecord, leader_epoch: int = 0) -> dict[str, Any]:
    """Returns one checkpoint with its tasks and, under `subtasks`, theirs.

    The routes give out `subtasks` one vertex at a time, as Flink's do.
    """
    tasks = record.figures.tasks
    view = record_view(record, leader_epoch)
    view["tasks"] = {task.task_id: _task(record, task) for task in tasks}
    view["subtasks"] = {task.task_id: _subtasks(record, task) for task in tasks}
    return view


def _task(record: CheckpointRecord, task: TaskFigures) -> dict[str, Any]:
    rows = task.subtasks
    return {
        "id": record.checkpoint_id,
        "status": record.status,
        "latest_ack_timestamp": max((row.acknowledged_ms for row in rows), default=-1),
        "checkpointed_size": sum(row.checkpointed_bytes for row in rows),
        "state_size": sum(row.state_bytes for row in rows),
        "end_to_end_duration": max((row.end_to_end_ms for row in rows), default=-1),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": len(rows),
        "num_acknowledged_subtasks": len(rows),
        # Ours.
        "name": without_secrets(task.name),
    }


def _subtasks(record: CheckpointRecord, task: TaskFigures) -> dict[str, Any]:
    def summed(field: str) -> dict[str, Any]:
        return asdict(summary_of(getattr(row, field) for row in task.subtasks))

    return _task(record, task) | {
        "summary": {
            "checkpointed_size": summed("checkpointed_bytes"),
            "state_size": summed("state_bytes"),
            "end_to_end_duration": summed("end_to_end_ms"),
            "checkpoint_duration": {"sync": summed("sync_ms"), "async": summed("async_ms")},
            "alignment": dict.fromkeys(
                ("buffered", "processed", "persisted", "duration"), _NO_SUMMARY
            ),
            "start_delay": summed("start_delay_ms"),
        },
        "subtasks": [_subtask(row) for row in task.subtasks],
    }


def _subtask(row: SubtaskFigures) -> dict[str, Any]:
    return {
        "className": "completed",
        "index": row.subtask,
        "status": "completed",
        "ack_timestamp": row.acknowledged_ms,
        "end_to_end_duration": row.end_to_end_ms,
        "checkpointed_size": row.checkpointed_bytes,
        "state_size": row.state_bytes,
        "checkpoint": {"sync": row.sync_ms, "async": row.async_ms},
        "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0},
        "start_delay": row.start_delay_ms,
        "unaligned_checkpoint": False,
        "aborted": False,
    }


_PREFIX: Final = "execution.checkpointing."
_KEYS: Final = {
    "mode": _PREFIX + "mode",
    "interval": _PREFIX + "interval",
    "timeout": _PREFIX + "timeout",
    "min_pause": _PREFIX + "min-pause",
    "max_concurrent": _PREFIX + "max-concurrent-checkpoints",
    "externalization": _PREFIX + "externalized-checkpoint-retention",
    "state_backend": "state.backend.type",
    "checkpoint_storage": _PREFIX + "storage",
    "directory": _PREFIX + "dir",
    "savepoint_directory": _PREFIX + "savepoint-dir",
    "num_retained": _PREFIX + "num-retained",
    "incremental": _PREFIX + "incremental",
    "inline_threshold": _PREFIX + "data-inline-threshold",
    "unaligned_checkpoints": _PREFIX + "unaligned.enabled",
    "tolerable_failed_checkpoints": _PREFIX + "tolerable-failed-checkpoints",
    "aligned_checkpoint_timeout": _PREFIX + "aligned-checkpoint-timeout",
    "checkpoints_after_tasks_finish": _PREFIX + "checkpoints-after-tasks-finish",
    "state_changelog_enabled": "state.changelog.enabled",
}
_NEVER: Final = 2**63 - 1
"""What Flink shows as the interval when checkpointing is off."""


def checkpoint_config_view(
    settings: CheckpointSettings, backend: str, configuration: Configuration
) -> dict[str, Any]:
    """Returns the document."""
    retention = settings.retention
    sources = {name: configuration.setting(key) for name, key in _KEYS.items()}
    return {
        "mode": str(configuration.read(_PREFIX + "mode")).lower(),
        "interval": _NEVER if settings.interval_ms is None else settings.interval_ms,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.concurrency,
        "externalization": {
            "enabled": retention is not RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": retention is not RetentionPolicy.RETAIN_ON_CANCELLATION,
        },
        "state_backend": backend,
        "checkpoint_storage": (
            "FileSystemCheckpointStorage"
            if settings.storage is StorageKind.FILE_SYSTEM
            else "JobManagerCheckpointStorage"
        ),
        # An exchange is read to the end of its epoch, so barriers are always aligned.
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": settings.checkpoints_after_tasks_finish,
        "state_changelog_enabled": False,
        "changelog_storage": None,
        "changelog_periodic_materialization_interval": None,
        # Ours.
        "enabled": settings.is_enabled,
        "directory": settings.directory,
        "savepoint_directory": settings.savepoint_directory,
        "num_retained": settings.num_retained,
        "incremental": settings.incremental,
        "inline_threshold": settings.inline_threshold_bytes,
        "sources": {
            name: "default" if source is None else str(source) for name, source in sources.items()
        },
    }
