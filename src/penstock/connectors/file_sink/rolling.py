"""How files of a sink are named and when they end: buckets, rolling policies, part names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.core.errors import JobExecutionError, ProgramError

if TYPE_CHECKING:
    from penstock.connectors.user_sink import SinkContext

DEFAULT_BUCKET_FORMAT: Final = "yyyy-MM-dd--HH"

_LETTERS: Final = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "uu": "%y",
    "MM": "%m",
    "MMM": "%b",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
}


class BucketAssigner(ABC):
    """Chooses the bucket; subclasses are pickled and sent to the workers."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: SinkContext) -> str:
        """Returns the directory of a record, relative to the base path; "" is the base path."""

    def bucket_of_epoch(self, now_ms: int) -> str | None:
        """Returns the bucket when it is the same for all records of an epoch, else None."""
        return None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Puts every record into the base path itself."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = DEFAULT_BUCKET_FORMAT, timezone_id: str | None = None
    ) -> BucketAssigner:
        """Names buckets after the processing time, in Java's notation; see the class."""
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """No buckets: all files are in the base path."""

    def get_bucket_id(self, element: Any, context: SinkContext) -> str:
        return ""

    def bucket_of_epoch(self, now_ms: int) -> str | None:
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Buckets by processing time.

    Args:
        format_str: Pattern of Java's `DateTimeFormatter`; the letters of dates and times are
            supported, and text in single quotes. A slash makes nested directories.
        timezone_id: `America/Los_Angeles`, `UTC`, `GMT-08:00`; None = the zone of the machine.
    """

    def __init__(
        self, format_str: str = DEFAULT_BUCKET_FORMAT, timezone_id: str | None = None
    ) -> None:
        self._format = _to_strftime(format_str)
        self._zone = None if timezone_id is None else _zone(timezone_id)

    def get_bucket_id(self, element: Any, context: SinkContext) -> str:
        return self.bucket_of_epoch(context.current_processing_time())

    def bucket_of_epoch(self, now_ms: int) -> str:
        return (
            datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self._zone).strftime(self._format)
        )


def checked_bucket(bucket: Any) -> str:
    """Returns a bucket id that stays below the base path and that readers do not skip."""
    parts = bucket.split("/") if isinstance(bucket, str) else [".."]
    if bucket != "" and any(part == "" or part.startswith((".", "_")) for part in parts):
        raise JobExecutionError(
            f"the bucket assigner returned {bucket!r}; a bucket is a relative path such as "
            "'2024/05', and no part of it may be empty or begin with '.' or '_'."
        )
    return str(bucket)


def _to_strftime(pattern: str) -> str:
    """Translates Java's date notation."""
    result: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise ProgramError(f"the date format {pattern!r} has a quote without an end.")
            result.append((pattern[at + 1 : end] or "'").replace("%", "%%"))
            at = end + 1
        elif letter.isascii() and letter.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            field = pattern[at:end]
            if field not in _LETTERS:
                raise ProgramError(
                    f"the date format {pattern!r} contains {field!r}, which is not supported; "
                    f"choose from {', '.join(_LETTERS)}, and put text into single quotes."
                )
            result.append(_LETTERS[field])
            at = end
        else:
            result.append(letter.replace("%", "%%"))
            at += 1
    return "".join(result)


def _zone(timezone_id: str) -> tzinfo:
    for prefix in ("GMT", "UTC"):
        offset = timezone_id.removeprefix(prefix)
        if offset != timezone_id and offset[:1] in ("+", "-"):
            hours, _, minutes = offset[1:].partition(":")
            if hours.isdigit() and (minutes or "0").isdigit():
                delta = timedelta(hours=int(hours), minutes=int(minutes or 0))
                return timezone(delta if offset[0] == "+" else -delta)
    try:
        return ZoneInfo(timezone_id)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ProgramError(
            f"the time zone {timezone_id!r} is unknown; write for example 'America/Los_Angeles', "
            "'UTC' or 'GMT-08:00'."
        ) from error


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
