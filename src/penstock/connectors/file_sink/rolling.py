"""When a part file is closed and the next one begins, and what part files are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.core.errors import ProgramError

DEFAULT_PART_BYTES: Final = 128 * 1024 * 1024
DEFAULT_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class PartInfo:
    """The open part file, when a policy is asked."""

    size_bytes: int  # Bytes so far.
    created_ms: int  # Processing time of its first record's epoch.
    updated_ms: int  # Processing time of its last record's epoch.


class RollingPolicy:
    """Base of policies; also the place where the two that exist are made."""

    part_size: int = DEFAULT_PART_BYTES
    """A writer begins a new file when one has this size, whatever else the policy says."""

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        """Says whether a part is closed; asked whenever output is committed."""
        raise NotImplementedError

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_BYTES,
        rollover_interval: int = DEFAULT_INTERVAL_MS,
        inactivity_interval: int = DEFAULT_INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Rolls by size, age and inactivity."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Rolls whenever output is committed."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Rolls a part that is large, old, or has not been written to for some time.

    Args:
        part_size: Bytes from which on a part is closed.
        rollover_interval: Milliseconds that a part stays open at most.
        inactivity_interval: Milliseconds without a record after which it is closed.
    """

    def __init__(
        self,
        part_size: int = DEFAULT_PART_BYTES,
        rollover_interval: int = DEFAULT_INTERVAL_MS,
        inactivity_interval: int = DEFAULT_INTERVAL_MS,
    ) -> None:
        if min(part_size, rollover_interval, inactivity_interval) < 1:
            raise ProgramError(
                f"part_size {part_size}, rollover_interval {rollover_interval} ms and "
                f"inactivity_interval {inactivity_interval} ms must all be above 0."
            )
        self.part_size = part_size
        self.rollover_interval = rollover_interval
        self.inactivity_interval = inactivity_interval

    @staticmethod
    def builder() -> PolicyBuilder:
        """Begins with the defaults; Flink 1's way to make the policy."""
        return PolicyBuilder()

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return (
            part.size_bytes >= self.part_size
            or now_ms - part.created_ms >= self.rollover_interval
            or now_ms - part.updated_ms >= self.inactivity_interval
        )


class PolicyBuilder:
    """Builds a `DefaultRollingPolicy`, as programs of Flink 1 do."""

    def __init__(self) -> None:
        self._part_size = DEFAULT_PART_BYTES
        self._rollover_interval = self._inactivity_interval = DEFAULT_INTERVAL_MS

    def with_max_part_size(self, size: int) -> PolicyBuilder:
        """Sets the bytes from which on a part is closed."""
        self._part_size = size
        return self

    def with_rollover_interval(self, interval: int) -> PolicyBuilder:
        """Sets the milliseconds that a part stays open at most."""
        self._rollover_interval = interval
        return self

    def with_inactivity_interval(self, interval: int) -> PolicyBuilder:
        """Sets the milliseconds without a record after which a part is closed."""
        self._inactivity_interval = interval
        return self

    def build(self) -> DefaultRollingPolicy:
        return DefaultRollingPolicy(
            self._part_size, self._rollover_interval, self._inactivity_interval
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at every checkpoint; without checkpointing, after every epoch."""

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """Names of part files: `<prefix>-<subtask>-<epoch>-<id><suffix>`.

    Attributes:
        part_prefix: What they begin with.
        part_suffix: What they end with, such as `.csv`.
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for name in (self.part_prefix, self.part_suffix):
            if "/" in name:
                raise ProgramError(f"{name!r} contains a slash; prefix and suffix are no paths.")
        if not self.part_prefix or self.part_prefix.startswith((".", "_")):
            raise ProgramError(
                f"the prefix {self.part_prefix!r} is empty or begins with '.' or '_'; readers "
                "would take finished files for hidden ones."
            )

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Begins with `part` and no suffix."""
        return OutputFileConfigBuilder()


class OutputFileConfigBuilder:
    """Builds an `OutputFileConfig`."""

    def __init__(self) -> None:
        self.part_prefix = "part"
        self.part_suffix = ""

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        self.part_prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        self.part_suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        return OutputFileConfig(self.part_prefix, self.part_suffix)
