"""Buckets: the directory below the base path that a record is written to."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
