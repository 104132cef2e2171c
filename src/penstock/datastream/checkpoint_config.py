"""PyFlink's `datastream.checkpoint_config`: checkpoint settings, kept in the configuration."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from penstock.core.configuration import checked_number
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.refused_names import earlier_keywords, names_of
from penstock.core.times import Duration, to_millis
from penstock.datastream.checkpoint_storage import CheckpointStorage, storage_of
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

__all__ = ["MINIMAL_CHECKPOINT_INTERVAL_MS", "CheckpointConfig"]

__getattr__ = names_of(__name__)

MINIMAL_CHECKPOINT_INTERVAL_MS: Final = 10
_UNLIMITED: Final = 2**31 - 1
_PREFIX: Final = "execution.checkpointing."

E_ = TypeVar("E_", bound=Enum)


class CheckpointConfig:
    """A view on the configuration of an environment; every method returns it again."""

    DEFAULT_MODE: ClassVar[CheckpointingMode] = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: ClassVar[int] = 600_000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: ClassVar[int] = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: ClassVar[int] = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _set(self, key: str, value: Any) -> CheckpointConfig:
        self._configuration.set(_PREFIX + key, value)
        return self

    def _set_span(self, key: str, value: Any, least: int) -> CheckpointConfig:
        millis = to_millis(value, _PREFIX + key)
        if millis < least:
            raise ProgramError(
                f"{_PREFIX}{key} was set to {millis} ms; it must be at least {least} ms."
            )
        return self._set(key, f"{millis} ms")

    def _set_number(self, key: str, value: int, least: int) -> CheckpointConfig:
        return self._set(key, checked_number(value, _PREFIX + key, least))

    # ---- whether, how often, how long ----

    def is_checkpointing_enabled(self) -> bool:
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Returns milliseconds; -1 when checkpointing is off."""
        interval = self._configuration.get_duration_ms(_PREFIX + "interval")
        return -1 if interval is None else int(interval)

    def set_checkpoint_interval(self, checkpoint_interval: Any) -> CheckpointConfig:
        """Turns checkpointing on; a span or milliseconds, at least 10 ms."""
        return self._set_span("interval", checkpoint_interval, MINIMAL_CHECKPOINT_INTERVAL_MS)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return CheckpointingMode[str(self._configuration.get_enum(_PREFIX + "mode"))]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        mode = checked_enum(checkpointing_mode, CheckpointingMode, "the checkpointing mode")
        return self._set("mode", mode.name)

    def get_checkpoint_timeout(self) -> int:
        return int(self._configuration.get_duration_ms(_PREFIX + "timeout"))

    def set_checkpoint_timeout(self, checkpoint_timeout: Any) -> CheckpointConfig:
        """Sets after how long an unfinished checkpoint is given up."""
        return self._set_span("timeout", checkpoint_timeout, MINIMAL_CHECKPOINT_INTERVAL_MS)

    def get_min_pause_between_checkpoints(self) -> int:
        return int(self._configuration.get_duration_ms(_PREFIX + "min-pause"))

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: Any
    ) -> CheckpointConfig:
        """Sets the least time from the end of a checkpoint to the next one's start."""
        return self._set_span("min-pause", min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        return int(self._configuration.get_integer(_PREFIX + "max-concurrent-checkpoints"))

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        return self._set_number("max-concurrent-checkpoints", max_concurrent_checkpoints, 1)

    # ---- failures ----

    def is_fail_on_checkpointing_errors(self) -> bool:
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Sets whether a failed checkpoint fails the job; with False, any number may fail."""
        number = 0 if fail_on_checkpointing_errors else _UNLIMITED
        return self.set_tolerable_checkpoint_failure_number(number)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return int(self._configuration.get_integer(_PREFIX + "tolerable-failed-checkpoints"))

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Sets how many checkpoints in a row may fail before the job does."""
        return self._set_number(
            "tolerable-failed-checkpoints", tolerable_checkpoint_failure_number, 0
        )

    # ---- where, and what is kept ----

    @earlier_keywords(cleanup_mode="retention_mode")
    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets whether checkpoints are retained when the job is cancelled or fails."""
        mode = checked_enum(
            retention_mode, ExternalizedCheckpointRetention, "the checkpoint retention"
        )
        return self._set("externalized-checkpoint-retention", mode.name)

    # The names that Flink 1 had for it.
    enable_externalized_checkpoints = set_externalized_checkpoint_retention
    set_externalized_checkpoint_cleanup = set_externalized_checkpoint_retention

    def is_externalized_checkpoints_enabled(self) -> bool:
        kept = self.get_externalized_checkpoint_retention()
        return kept is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        key = _PREFIX + "externalized-checkpoint-retention"
        return ExternalizedCheckpointRetention[str(self._configuration.get_enum(key))]

    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """Returns True: a job continues from its latest checkpoint, not from a savepoint."""
        return True

    def set_prefer_checkpoint_for_recovery(
        self, prefer_checkpoint_for_recovery: bool
    ) -> CheckpointConfig:
        """Accepts True, which is the only behaviour; False is refused."""
        if not prefer_checkpoint_for_recovery:
            raise UnsupportedError(
                "set_prefer_checkpoint_for_recovery(False) is not supported: a job goes on from "
                "its latest checkpoint. To start from a savepoint, run it with --fromSavepoint."
            )
        return self

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Sets where checkpoints are kept."""
        if not isinstance(storage, CheckpointStorage):
            raise ProgramError(
                f"set_checkpoint_storage() takes a CheckpointStorage, not {storage!r}; for a "
                "directory use set_checkpoint_storage_dir()."
            )
        storage.put_into(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keeps checkpoints in a directory, which must be durable."""
        if checkpoint_path is None or not str(checkpoint_path).strip():
            raise ProgramError(
                f"set_checkpoint_storage_dir({checkpoint_path!r}) names no directory; give a path "
                "or URL, or leave the call out."
            )
        return self._set("dir", str(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Returns where checkpoints are kept; None when the program has not said."""
        return storage_of(self._configuration)

    # ---- accepted, reported, and without effect: an epoch's end is an aligned barrier ----

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return bool(self._configuration.get_boolean(_PREFIX + "unaligned.enabled"))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        return self._set("unaligned.enabled", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(enabled=False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Any) -> CheckpointConfig:
        return self._set_span("aligned-checkpoint-timeout", alignment_timeout, 0)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        key = _PREFIX + "aligned-checkpoint-timeout"
        return Duration.of_millis(self._configuration.get_duration_ms(key))

    # The names that Flink 1 had for it.
    set_alignment_timeout = set_aligned_checkpoint_timeout
    get_alignment_timeout = get_aligned_checkpoint_timeout

    def set_force_unaligned_checkpoints(
        self, force_unaligned_checkpoints: bool = True
    ) -> CheckpointConfig:
        return self._set("unaligned.forced", force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        return bool(self._configuration.get_boolean(_PREFIX + "unaligned.forced"))

    def __repr__(self) -> str:
        interval = self.get_checkpoint_interval()
        return f"CheckpointConfig({f'every {interval} ms' if interval > 0 else 'off'})"


def checked_enum(value: Any, kind: type[E_], what: str) -> E_:
    """Returns a member of an enum, or says which there are."""
    if isinstance(value, kind):
        return value
    names = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
    raise ProgramError(f"{what} was set to {value!r}; it must be one of {names}.")
