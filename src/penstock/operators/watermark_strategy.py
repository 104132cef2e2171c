"""What a program says about event time: a value, from which each split gets its own tracker."""

from __future__ import annotations

import functools
import inspect
import logging
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.core.errors import ProgramError
from penstock.core.times import MIN_WATERMARK, to_millis


class TimestampAssigner(ABC):
    """Gives a record its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Returns milliseconds since 1970.

        Args:
            value: The record.
            record_timestamp: The one that it has so far, `-2**63` if none.
        """


class WatermarkOutput(ABC):
    """Where a generator sends watermarks."""

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """No record with a timestamp up to this will follow; smaller than the last is ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Marks this input idle."""

    @abstractmethod
    def mark_active(self) -> None:
        """This input counts again; every record does that too."""


class WatermarkGenerator(ABC):
    """Makes watermarks of records; its attributes are its state and must be picklable."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for each record; a watermark emitted here stands right behind it."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called behind each batch that was read, and at the end of each epoch."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """The generator of `for_bounded_out_of_orderness`, to build others upon.

    Penstock itself computes these watermarks from whole batches.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound_ms = max_out_of_orderness_ms
        # One more than the smallest, so that the first watermark is not below it.
        self._max_timestamp = MIN_WATERMARK + max_out_of_orderness_ms + 1

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self._max_timestamp = max(self._max_timestamp, event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._max_timestamp - self._bound_ms - 1)


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """The generator of `for_monotonous_timestamps`."""

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarksGenerator(WatermarkGenerator):
    """The generator of `no_watermarks`."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


DEFAULT_ALIGNMENT_INTERVAL_MS: Final = 1000
_FEW_MILLIS: Final = 1_000
_log = logging.getLogger("penstock.timestamps")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimestampColumn(TimestampAssigner):
    """Timestamps are a field of the records."""

    column: str | int  # Its name or position.

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return to_timestamp(value[self.column])  # type: ignore[no-any-return]


def to_timestamp(stamp: Any) -> Any:
    """Returns a datetime as milliseconds since 1970, rounded down; anything else as it is."""
    if not isinstance(stamp, datetime):
        return stamp
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return (stamp - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class WatermarkAlignment:
    """Splits of one group wait for each other."""

    group: str
    max_drift_ms: int  # A split further ahead of the group's minimum pauses.
    update_interval_ms: int = DEFAULT_ALIGNMENT_INTERVAL_MS  # How often the minimum is looked at.


@dataclass(frozen=True)
class WatermarkStrategy:
    """Timestamps and watermarks of a stream. Each `with_` returns a new strategy.

    Attributes:
        bound_ms: Bound of the built-in generator, or None without it.
        generator_factory: Makes the user's generator, or None.
        timestamp_assigner: The user's assigner or function, or None: records keep their timestamp.
        idle_timeout_ms: After that long without records the stream is idle, or None: never.
        alignment: Group that this stream is aligned with, or None.
    """

    bound_ms: int | None = None
    generator_factory: Callable[[], WatermarkGenerator] | None = None
    timestamp_assigner: Any = None
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps only rise, within each split."""
        return WatermarkStrategy(bound_ms=0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Any) -> WatermarkStrategy:
        """No record is older than the newest so far by more than this.

        Args:
            max_out_of_orderness: A `Duration`, a `timedelta` or milliseconds.
        """
        bound_ms = to_millis(max_out_of_orderness, "max_out_of_orderness")
        _warn_of_few_millis(max_out_of_orderness, "for_bounded_out_of_orderness")
        if bound_ms < 0:
            raise ProgramError(
                f"max_out_of_orderness is {bound_ms} ms; it must not be negative. "
                "Use for_monotonous_timestamps() when timestamps only rise."
            )
        return WatermarkStrategy(bound_ms=bound_ms)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Event time never advances until bounded input ends."""
        return WatermarkStrategy()

    @staticmethod
    def for_generator(generator_factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks of a generator of your own.

        Args:
            generator_factory: A `WatermarkGenerator` class or a function that makes one; called
                once per split.
        """
        if isinstance(generator_factory, WatermarkGenerator) or not callable(generator_factory):
            raise ProgramError(
                f"for_generator() takes a WatermarkGenerator class or a function that makes a "
                f"generator, but got {type(generator_factory).__name__}. Each split needs its own: "
                "pass the class, or lambda: MyGenerator(...)."
            )
        return WatermarkStrategy(generator_factory=generator_factory)

    def with_timestamp_assigner(self, timestamp_assigner: Any) -> WatermarkStrategy:
        """Takes timestamps from records.

        Args:
            timestamp_assigner: A `TimestampAssigner`, or a function of the record, or of the
                record and its timestamp so far.
        """
        timestamp_function(timestamp_assigner)
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_timestamp_column(self, column: str | int) -> WatermarkStrategy:
        """Takes timestamps from a field of the records: ints in milliseconds, or datetimes.

        Does what `with_timestamp_assigner(lambda record: record[column])` does, but says which
        field it is, so that sources with columns need not make records of them.

        Args:
            column: Name or position of the field. A datetime without time zone counts as UTC.
        """
        if isinstance(column, bool) or not isinstance(column, str | int):
            raise ProgramError(
                f"with_timestamp_column() takes the name or the position of a field, not "
                f"{column!r}."
            )
        return replace(self, timestamp_assigner=TimestampColumn(column))

    def with_idleness(self, idle_timeout: Any) -> WatermarkStrategy:
        """Lets others not wait for a split that had no record for that long."""
        timeout_ms = to_millis(idle_timeout, "idle_timeout")
        _warn_of_few_millis(idle_timeout, "with_idleness")
        if timeout_ms <= 0:
            raise ProgramError(f"idle_timeout is {timeout_ms} ms; it must be positive.")
        return replace(self, idle_timeout_ms=timeout_ms)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Any,
        update_interval: Any = DEFAULT_ALIGNMENT_INTERVAL_MS,
    ) -> WatermarkStrategy:
        """Pauses splits of a source that are too far ahead of their group.

        Args:
            watermark_group: Name of the group; several sources of a program may share one.
            max_allowed_watermark_drift: How far a split may be ahead of the group's minimum.
            update_interval: How often the minimum is looked at, at least; it is looked at behind
                each epoch.
        """
        drift_ms = to_millis(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        if update_interval is None:
            update_interval = DEFAULT_ALIGNMENT_INTERVAL_MS
        interval_ms = to_millis(update_interval, "update_interval")
        if not watermark_group or drift_ms < 0 or interval_ms <= 0:
            raise ProgramError(
                f"watermark alignment with group {watermark_group!r}, drift {drift_ms} ms and "
                f"interval {interval_ms} ms: the group needs a name, the drift must not be "
                "negative and the interval must be positive."
            )
        alignment = WatermarkAlignment(watermark_group, drift_ms, interval_ms)
        return replace(self, alignment=alignment)

    @property
    def generates_watermarks(self) -> bool:
        """Whether there is a generator at all."""
        return self.bound_ms is not None or self.generator_factory is not None


@functools.cache  # Once for each call in a program.
def _warn_of_few_millis(span: Any, method: str) -> None:
    """A small number without a unit is more often meant as seconds."""
    if isinstance(span, int) and 0 < span < _FEW_MILLIS:
        _log.warning(
            "%s(%d) means %d milliseconds. For seconds write Duration.of_seconds(%d), and "
            "Duration.of_millis(%d) if it is meant.",
            *(method, span, span, span, span),
        )


def timestamp_function(assigner: Any) -> tuple[Callable[..., int], int]:
    """Returns the function of an assigner and whether it takes 1 or 2 values."""
    if type(assigner) is TimestampColumn:
        # Half the time of a method of ours per record; the tracker converts what is no int.
        return operator.itemgetter(assigner.column), 1
    if not isinstance(assigner, type) and hasattr(assigner, "extract_timestamp"):
        # As in PyFlink, it need not be a TimestampAssigner.
        return assigner.extract_timestamp, 2
    if isinstance(assigner, type) or not callable(assigner):
        raise ProgramError(
            f"with_timestamp_assigner() was given {type(assigner).__name__} {assigner!r:.80}; it "
            "takes a TimestampAssigner object or a function of (value, record_timestamp) or "
            "(value)."
        )
    if isinstance(assigner, operator.itemgetter | operator.attrgetter):
        return assigner, 1
    return assigner, _count_parameters(assigner)


def _count_parameters(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1  # a built-in without a signature is a function of one value
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = sum(parameter.default is parameter.empty for parameter in positional)
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    if required == 2 or (takes_any and required < 2):
        return 2
    if required == 1 or (required == 0 and positional):
        return 1
    raise ProgramError(
        f"the timestamp assigner {function!r:.80} takes {required} values; it must take "
        "(value, record_timestamp) or (value)."
    )


def name_of(assigner: Any) -> str:
    """Returns the name of an assigner, for errors."""
    if isinstance(assigner, TimestampColumn):
        return f"with_timestamp_column({assigner.column!r})"
    if isinstance(assigner, TimestampAssigner):
        return type(assigner).__qualname__
    return getattr(assigner, "__qualname__", None) or type(assigner).__qualname__
