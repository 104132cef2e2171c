"""What several programs use: watermarks behind every record, a clock that records set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common import WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream.connectors import PythonSource
from penstock.datastream.functions import ProcessFunction

if TYPE_CHECKING:
    from penstock.datastream import StreamExecutionEnvironment

MIN = -(2**63)
MAX = 2**63 - 1


class AtEachRecord(WatermarkGenerator):
    """Bounded disorder, told behind every record: what is late then depends on nothing else."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self.newest = MIN + bound_ms + 1

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        self.newest = max(self.newest, event_timestamp)
        output.emit_watermark(self.newest - self.bound_ms - 1)

    def on_periodic_emit(self, output: Any) -> None:
        pass


def at_each_record(bound_ms: int = 0, time: Any = None) -> WatermarkStrategy:
    """Event time is the last field of a record, unless `time` says otherwise."""
    return WatermarkStrategy.for_generator(lambda: AtEachRecord(bound_ms)).with_timestamp_assigner(
        time or (lambda record: record[-1])
    )


def timed(env: StreamExecutionEnvironment, records: list[Any], bound_ms: int = 0) -> Any:
    """A stream in one subtask whose event time is the last field, with exact watermarks."""
    return (
        env.from_collection(records)
        .assign_timestamps_and_watermarks(at_each_record(bound_ms))
        .set_parallelism(1)
    )


class ShowTime(ProcessFunction):
    """Puts the event time before each record."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.timestamp(), value


class TestClock:
    """The processing time of jobs in this process, while a program sets it."""

    now_ms: ClassVar[int | None] = None


class Scheduled(PythonSource):
    """Gives each record at its processing time, one time per epoch; ends behind the last one."""

    bounded = True

    def __init__(self, schedule: list[tuple[int, Any]]) -> None:
        self._times = [time for time, _ in schedule]
        self._values = [value for _, value in schedule]
        TestClock.now_ms = self._times[0]

    def splits(self) -> list[str]:
        return ["all"]

    def end_offset(self, split: str) -> int:
        return len(self._times)

    def latest_offset(self, split: str) -> int:
        assert TestClock.now_ms is not None
        return sum(time <= TestClock.now_ms for time in self._times)

    def read(self, split: str, start: int, end: int) -> list[Any]:
        # The epoch runs at its own time; the next one runs at the time of what comes next.
        if end < len(self._times):
            TestClock.now_ms = self._times[end]
        return self._values[start:end]


def scheduled(env: StreamExecutionEnvironment, schedule: list[tuple[int, Any]]) -> Any:
    """A stream of pairs (processing time, record); a record of None only lets time pass."""
    source = Scheduled(schedule)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "scheduled")
    return stream.set_parallelism(1).filter(lambda value: value is not None).set_parallelism(1)
