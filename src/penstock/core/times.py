"""Event time, clocks, and spans of time and sizes in every spelling.

Event time is in int64 milliseconds, saturating at both ends. Python integers do not overflow, so
sums of times are clamped here and nowhere else.
"""

from __future__ import annotations

import datetime
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import total_ordering
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.core.errors import ProgramError

if TYPE_CHECKING:
    import logging

MIN_TIMESTAMP: Final = -(2**63)
MAX_TIMESTAMP: Final = 2**63 - 1

NO_TIMESTAMP: Final = MIN_TIMESTAMP
"""What a record without a timestamp carries; event-time windows refuse it."""

MIN_WATERMARK: Final = MIN_TIMESTAMP
MAX_WATERMARK: Final = MAX_TIMESTAMP


def saturating_add(time_ms: int, delta_ms: int) -> int:
    """Returns `time_ms + delta_ms`, clamped to the int64 range."""
    total = time_ms + delta_ms
    if total > MAX_TIMESTAMP:
        return MAX_TIMESTAMP
    if total < MIN_TIMESTAMP:
        return MIN_TIMESTAMP
    return total


class Clock(Protocol):
    """Wall time for users' processing time, monotonic time for leases and timeouts."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back."""


class SystemClock:
    """The machine's clocks; everything else gets its time from an argument."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


def jittered(pause: float) -> float:
    """Returns half of a pause before a retry up to all of it.

    What failed together would otherwise try again together, and fail again.
    """
    return pause * (0.5 + random.random() / 2)


@dataclass(frozen=True, slots=True)
class BackOff:
    """How often something is tried again, and how long before each try."""

    retries: int = 6
    delay_ms: int = 100
    grows: bool = True
    longest_s: float = 60.0

    def delays(self) -> Iterator[float]:
        """Yields the seconds before each further try."""
        for number in range(self.retries):
            factor = 2**number if self.grows else 1
            yield min(self.delay_ms * factor / 1000, self.longest_s)


class Tries:
    """Waits between the tries of one thing, or gives it up."""

    def __init__(self, backoff: BackOff, log: logging.Logger | None = None) -> None:
        self._delays = backoff.delays()
        self._log = log

    def failed(self, error: Exception, warning: str = "", at_least_s: float = 0.0) -> None:
        """Waits for the next try; raises the error if there is none. Warns the first time."""
        wait_s = next(self._delays, None)
        if wait_s is None:
            raise error
        if warning and self._log is not None:
            self._log.warning("%s", warning)
            self._log = None
        time.sleep(max(wait_s, at_least_s))


class EpochClock:
    """Where a subtask is in time: one number for the whole epoch, stamped by the driver.

    Attributes:
        now_ms: Processing time.
        mid_read: More batches of the same source read follow in this subtask; periodic watermarks
            wait for the last one, so that the size of batches has no say in what is late.
        mid_batch: The input is inside a micro-batch, whose records are in no order of time; only
            the last watermark rises before its end.
    """

    __slots__ = ("mid_batch", "mid_read", "now_ms")

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.mid_read = False
        self.mid_batch = False


# Spans of time and sizes in bytes, in every spelling that a program or a file may use.
#
# `to_millis` is the one way from such a value to a number; code that takes a span calls it with the
# name of the setting, so that an error says which one was wrong.


_NANOS_PER_UNIT: Final = {
    name: factor
    for names, factor in (
        (("d", "day"), 86_400_000_000_000),
        (("h", "hour"), 3_600_000_000_000),
        (("min", "m", "minute"), 60_000_000_000),
        (("s", "sec", "second"), 1_000_000_000),
        (("ms", "milli", "millisecond"), 1_000_000),
        (("us", "µs", "micro", "microsecond"), 1_000),
        (("ns", "nano", "nanosecond"), 1),
    )
    for name in names
}
_BYTES_PER_UNIT: Final = {
    name: factor
    for names, factor in (
        (("", "b", "bytes"), 1),
        (("k", "kb", "kib", "kibibytes"), 1 << 10),
        (("m", "mb", "mib", "mebibytes"), 1 << 20),
        (("g", "gb", "gib", "gibibytes"), 1 << 30),
        (("t", "tb", "tib", "tebibytes"), 1 << 40),
    )
    for name in names
}
_AMOUNT: Final = re.compile(r"\s*([0-9]+)\s*([^\W\d_]*)\s*")


@total_ordering
class Time:
    """A span in milliseconds; windows and TTL take it."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = int(milliseconds)

    def to_milliseconds(self) -> int:
        """Returns the span in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        return Time(days * 86_400_000)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other._milliseconds == self._milliseconds

    def __lt__(self, other: Time) -> bool:
        return self._milliseconds < other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({format_millis(self._milliseconds)})"


@total_ordering
class Duration:
    """A span in nanoseconds, like Java's; settings and watermark strategies take it."""

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int) -> None:
        self._nanos = int(nanos)

    def to_nanos(self) -> int:
        """Returns the span in nanoseconds."""
        return self._nanos

    def to_millis(self) -> int:
        """Returns the span in whole milliseconds, rounded down."""
        return self._nanos // 1_000_000

    to_milliseconds = to_millis

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration(seconds * 1_000_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(nanos)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and other._nanos == self._nanos

    def __lt__(self, other: Duration) -> bool:
        return self._nanos < other._nanos

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __repr__(self) -> str:
        if self._nanos % 1_000_000:
            return f"Duration({self._nanos} ns)"
        return f"Duration({format_millis(self.to_millis())})"


@total_ordering
class Instant:
    """A point in time: seconds since 1970 and nanoseconds within the second."""

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Returns milliseconds since 1970."""
        return self.seconds * 1_000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * 1_000_000)

    def __key_parts__(self) -> tuple[int, int]:
        return self.seconds, self.nanos

    def __reduce__(self) -> tuple[Any, ...]:
        return Instant, (self.seconds, self.nanos)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.__key_parts__() == other.__key_parts__()

    def __lt__(self, other: Instant) -> bool:
        return self.__key_parts__() < other.__key_parts__()

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def to_millis(value: Any, what: str = "a duration") -> int:
    """Returns a span in milliseconds.

    Args:
        value: Time, Duration, timedelta, a number of milliseconds, or text such as '10 s'.
        what: Name of the setting or argument, for the error.

    Raises:
        ProgramError: The value is none of these.
    """
    if isinstance(value, Time | Duration):
        return value.to_milliseconds()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, str):
        return parse_millis(value, what)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ProgramError(
        f"{what} is {value!r} of type {type(value).__name__}; give a Time, a Duration, a "
        "datetime.timedelta, a number of milliseconds, or text such as '10 s'."
    )


def parse_millis(text: str, what: str = "a duration") -> int:
    """Returns the milliseconds of text such as '500 ms', '10 s', '3 min' or '250'.

    Raises:
        ProgramError: The text is no span.
    """
    match = _AMOUNT.fullmatch(text)
    unit = match[2].lower() if match else None
    if match and unit is not None:
        # Flink takes every unit longer than two letters in the plural as well.
        singular = unit.removesuffix("s") if len(unit) > 2 else unit
        nanos = _NANOS_PER_UNIT.get(singular if unit else "ms")
        if nanos is not None:
            return int(match[1]) * nanos // 1_000_000
    raise ProgramError(
        f"{what} is '{text}', which is no span of time; write a whole number and a unit of "
        "d, h, min, s or ms, such as '10 s'. A plain number counts milliseconds."
    )


def parse_bytes(text: str, what: str = "a size") -> int:
    """Returns the bytes of text such as '20kb', '32 MB' or '4096'.

    Raises:
        ProgramError: The text is no size.
    """
    match = _AMOUNT.fullmatch(text)
    factor = _BYTES_PER_UNIT.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ProgramError(
            f"{what} is '{text}', which is no size; write a whole number and a unit of "
            "b, kb, mb, gb or tb, such as '20 kb'. A plain number counts bytes."
        )
    return int(match[1]) * factor


_SPANS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def format_millis(millis: int) -> str:
    """Returns the shortest exact text of a span, such as '10 s'."""
    for unit, factor in _SPANS:
        if millis and millis % factor == 0:
            return f"{millis // factor} {unit}"
    return f"{millis} ms"


def span_text(millis: float) -> str:
    """Returns a span for people: `450 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    rest = int(millis)
    for (unit, factor), (smaller, part) in pairwise(_SPANS):
        if rest >= factor:
            return f"{rest // factor:,} {unit} {rest % factor // part} {smaller}"
    return f"{rest // 1_000} s" if rest >= 1_000 else f"{rest} ms"


def size_text(size_bytes: int | None) -> str:
    """Returns a number of bytes for people: `20 kB`, `1.5 MB`."""
    if size_bytes is None:
        return "-"
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
