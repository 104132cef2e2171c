"""Settings of checkpointing, read from `execution.checkpointing.*` and checked.

Which checkpoints outlive what:

    policy                       subsumed  FINISHED  CANCELED  FAILED  SUSPENDED
    NO_EXTERNALIZED_CHECKPOINTS  delete    delete    delete    delete  delete
    DELETE_ON_CANCELLATION       delete    delete    delete    keep    delete
    RETAIN_ON_CANCELLATION       delete    delete    keep      keep    keep
    any savepoint                keep      keep      keep      keep    keep

The loss of a job manager under high availability is not the end of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.job import JobStatus
from penstock.core.times import format_millis

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


class RetentionPolicy(Enum):
    """Flink's `externalized-checkpoint-retention`."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


ENDINGS: Final = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)
"""The states in which a job has ended, in the order of the table."""

_KEPT: Final = {
    RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS: frozenset[JobStatus](),
    RetentionPolicy.DELETE_ON_CANCELLATION: frozenset({JobStatus.FAILED}),
    RetentionPolicy.RETAIN_ON_CANCELLATION: frozenset(
        {JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED}
    ),
}


def is_kept(policy: RetentionPolicy, ending: JobStatus) -> bool:
    """Whether checkpoints stay when the job ends so. Savepoints always stay."""
    assert ending in ENDINGS, f"{ending} is no ending"
    return ending in _KEPT[policy]


PREFIX: Final = "execution.checkpointing."
MINIMAL_TIME_MS: Final = 10
"""Flink's least interval and timeout."""

MAX_INLINE_THRESHOLD_BYTES: Final = 1024 * 1024
MAX_QUEUED_REQUESTS: Final = 1000


class ClaimMode(Enum):
    """Who owns the snapshot that a job starts from."""

    NO_CLAIM = "NO_CLAIM"
    CLAIM = "CLAIM"
    LEGACY = "LEGACY"


class StorageKind(Enum):
    """Where checkpoints live."""

    JOB_MANAGER = "jobmanager"
    FILE_SYSTEM = "filesystem"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """What the configuration says about checkpoints. Times in milliseconds, sizes in bytes."""

    # Time between periodic checkpoints; None when checkpointing is off.
    interval_ms: int | None = None
    timeout_ms: int = 600_000  # Longest time from trigger to completion.
    min_pause_ms: int = 0  # Least time from a completion to the next periodic trigger.
    max_concurrent: int = 1  # As configured; `concurrency` is what counts.
    tolerable_failures: int = 0  # Consecutive failures that the job survives.
    num_retained: int = 1  # Completed checkpoints to keep.
    # Which checkpoints outlive the job.
    retention: RetentionPolicy = RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS
    interval_during_backlog_ms: int | None = None  # None = as otherwise, 0 = none during backlog.
    # Whether checkpoints go on when some tasks have finished.
    checkpoints_after_tasks_finish: bool = True
    storage: StorageKind = StorageKind.JOB_MANAGER  # Where checkpoints live.
    directory: str | None = None  # Root of checkpoints, or None.
    # Where savepoints go when a request names no target, or None.
    savepoint_directory: str | None = None
    create_subdirectory: bool = True  # Whether the job id is a level of the path.
    # Largest state chunk that is stored inside `_metadata`.
    inline_threshold_bytes: int = 20 * 1024
    incremental: bool = False  # Whether a checkpoint may refer to files of earlier ones.
    history_size: int = 10  # Checkpoints that the history shows.
    max_queued_requests: int = MAX_QUEUED_REQUESTS  # Requests that may wait.
    # How old a file must be that nothing names before it is deleted; never less than a checkpoint
    # may take.
    orphan_ttl_ms: int = 24 * 60 * 60 * 1000

    def __post_init__(self) -> None:
        _at_least("interval", self.interval_ms, MINIMAL_TIME_MS, is_time=True)
        _at_least("timeout", self.timeout_ms, MINIMAL_TIME_MS, is_time=True)
        _at_least("min-pause", self.min_pause_ms, 0, is_time=True)
        _at_least("max-concurrent-checkpoints", self.max_concurrent, 1)
        _at_least("tolerable-failed-checkpoints", self.tolerable_failures, 0)
        _at_least("num-retained", self.num_retained, 1)
        _at_least("data-inline-threshold", self.inline_threshold_bytes, 0)
        if self.inline_threshold_bytes > MAX_INLINE_THRESHOLD_BYTES:
            raise ConfigurationError(
                f"{PREFIX}data-inline-threshold is {self.inline_threshold_bytes:,} bytes, but "
                f"at most 1 MB ({MAX_INLINE_THRESHOLD_BYTES:,} bytes) fits into _metadata; "
                "lower it, larger state is kept in files anyway."
            )
        self._check_backlog_interval()
        if self.storage is StorageKind.FILE_SYSTEM and not self.directory:
            raise ConfigurationError(
                f"{PREFIX}storage is 'filesystem', but no directory is set; set {PREFIX}dir."
            )

    def _check_backlog_interval(self) -> None:
        backlog, interval = self.interval_during_backlog_ms, self.interval_ms
        if not backlog or interval is None or backlog >= interval:
            return
        raise ConfigurationError(
            f"{PREFIX}interval-during-backlog is {format_millis(backlog)}, less than "
            f"{PREFIX}interval ({format_millis(interval)}); set it to at least that, or to 0 "
            "for no checkpoints during backlog."
        )

    @property
    def is_enabled(self) -> bool:
        return self.interval_ms is not None

    @property
    def period_ms(self) -> int | None:
        """Time between periodic triggers; as in Flink never less than the pause."""
        return None if self.interval_ms is None else max(self.interval_ms, self.min_pause_ms)

    @property
    def backlog_period_ms(self) -> int | None:
        """The same during backlog; None when no periodic checkpoint is taken then."""
        if self.interval_during_backlog_ms is None or self.interval_ms is None:
            return self.period_ms
        if self.interval_during_backlog_ms == 0:
            return None
        return max(self.interval_during_backlog_ms, self.min_pause_ms)

    @property
    def concurrency(self) -> int:
        """Checkpoints that may be pending at once; a pause implies one."""
        return 1 if self.min_pause_ms > 0 else self.max_concurrent

    @property
    def takes_last(self) -> bool:
        """Whether a job whose input has ended takes a last checkpoint."""
        return self.is_enabled and self.checkpoints_after_tasks_finish

    @property
    def orphan_grace_ms(self) -> int:
        """What the sweep goes by."""
        return max(self.orphan_ttl_ms, self.timeout_ms)

    @property
    def first_delay_range_ms(self) -> tuple[int, int]:
        """Both ends, inclusive, of the range from which the first delay is drawn."""
        return self.min_pause_ms, self.period_ms or self.min_pause_ms

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> CheckpointSettings:
        """Reads the settings.

        Raises:
            ConfigurationError: A value is malformed or out of range.
        """

        def read(name: str) -> Any:
            return configuration.read(PREFIX + name)

        directory = read("dir")
        storage = read("storage") or ("filesystem" if directory else "jobmanager")
        return cls(
            interval_ms=read("interval"),
            timeout_ms=read("timeout"),
            min_pause_ms=read("min-pause"),
            max_concurrent=read("max-concurrent-checkpoints"),
            tolerable_failures=read("tolerable-failed-checkpoints"),
            num_retained=read("num-retained"),
            retention=RetentionPolicy(read("externalized-checkpoint-retention")),
            interval_during_backlog_ms=read("interval-during-backlog"),
            checkpoints_after_tasks_finish=read("checkpoints-after-tasks-finish"),
            storage=StorageKind(storage),
            directory=directory,
            savepoint_directory=read("savepoint-dir"),
            create_subdirectory=read("create-subdir"),
            inline_threshold_bytes=read("data-inline-threshold"),
            incremental=read("incremental"),
            history_size=configuration.read("web.checkpoints.history"),
            orphan_ttl_ms=configuration.read("penstock.checkpoint.orphan-ttl"),
        )


def _at_least(name: str, value: int | None, least: int, *, is_time: bool = False) -> None:
    if value is None or value >= least:
        return
    shown, limit = (format_millis(value), format_millis(least)) if is_time else (value, least)
    raise ConfigurationError(
        f"{PREFIX}{name} is {shown}, but it must be at least {limit}; raise it."
    )
