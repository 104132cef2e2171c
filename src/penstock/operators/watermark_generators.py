"""Event time of records, and watermarks made from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.core.times import MIN_WATERMARK


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
        """Nobody shall wait for this input."""

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
