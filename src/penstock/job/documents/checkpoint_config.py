"""`/jobs/:jobid/checkpoints/config`: what governs checkpoints, each with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.retention import RetentionPolicy
from penstock.checkpoint.settings import StorageKind

if TYPE_CHECKING:
    from penstock.checkpoint.settings import CheckpointSettings
    from penstock.core.configuration import Configuration

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
