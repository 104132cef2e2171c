"""A split without records does not hold the others back, also not after a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from recovery_kit import environment
from restore_kit import Visible, wait_for

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream.connectors import PythonSource
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.common.job_client import JobClient


class Clocks(PythonSource):
    """Two splits of event times, each as long as the test has made it by now."""

    times: ClassVar[dict[str, list[int]]] = {}

    def splits(self) -> list[str]:
        return ["quiet", "busy"]

    def latest_offset(self, split: str) -> int:
        return len(self.times[split])

    def read(self, split: str, start: int, end: int) -> list[Any]:
        return self.times[split][start:end]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Visible.rows.clear()
    Clocks.times = {"quiet": [5], "busy": list(range(100))}


def start(
    folder: Path,
    window_parallelism: int,
    *,
    idle_after_ms: int | None = 30,
    path: str = "",
    change: Callable[[Any], Any] = lambda stream: stream,
) -> JobClient:
    env = environment(
        folder,
        2,
        {"execution.checkpointing.interval": "", "execution.state-recovery.path": path},
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda t: t)
    if idle_after_ms is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle_after_ms))
    clocks = env.from_source(Clocks(), strategy, "clocks").uid("clocks")
    (
        change(clocks)
        .key_by(lambda time: time % 2)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
        .process(lambda key, context, times: [(context.window().start, key, len(list(times)))])
        .set_parallelism(window_parallelism)
        .uid("windows")
        .add_sink(Visible("out"))
        .uid("sink")
    )
    return env.execute_async()


def shown() -> list[Any]:
    return sorted(Visible.all())


def test_without_idleness_the_quiet_split_holds_everything_back(tmp_path: Path) -> None:
    client = start(tmp_path, 2, idle_after_ms=None)
    wait_for(lambda: client.last_epoch >= 3 and client._job.records_read == 101, "some epochs")
    assert shown() == []
    Clocks.times["quiet"].append(60)
    wait_for(lambda: len(shown()) == 2, "the first window")
    client.cancel()
    client._wait_quietly()
    # 0 to 49 of one split and 5 of the other.
    assert shown() == [(0, 0, 25), (0, 1, 26)]


@pytest.mark.parametrize("behind", [False, True], ids=["in-the-source", "behind-it"])
@pytest.mark.parametrize(("parallelism", "idle_after_ms"), [(3, None), (2, None), (3, 30)])
def test_more_subtasks_than_splits_are_warned_of(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    behind: bool,
    parallelism: int,
    idle_after_ms: int | None,
) -> None:
    """A subtask without a split holds event time back, and shows nothing that says so."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda t: t)
    if idle_after_ms is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle_after_ms))
    env = environment(tmp_path, parallelism, {"execution.checkpointing.interval": ""})
    if behind:
        none = WatermarkStrategy.no_watermarks()
        clocks = env.from_source(Clocks(), none, "clocks").assign_timestamps_and_watermarks(
            strategy
        )
    else:
        clocks = env.from_source(Clocks(), strategy, "clocks")
    clocks.map(lambda time: [time]).add_sink(Visible("out"))
    client = env.execute_async()
    wait_for(lambda: client.last_epoch >= 3, "some epochs")
    client.cancel()
    client._wait_quietly()
    said = [each for each in caplog.messages if "have no split" in each]
    assert len(said) == (1 if parallelism > 2 and idle_after_ms is None else 0)
    assert all("1 of 3 subtasks of 'Source: clocks' have" in each for each in said)
    assert all("parallelism to 2, or" in each for each in said)


@pytest.mark.parametrize(
    ("after", "change"),
    [
        pytest.param(1, lambda stream: stream, id="fewer"),
        pytest.param(2, lambda stream: stream, id="as-many"),
        pytest.param(3, lambda stream: stream, id="more"),
        # Its channels are new, and nothing turns idle while they watch.
        pytest.param(2, lambda s: s.rebalance().map(lambda t: t).uid("new"), id="new-operator"),
    ],
)
def test_an_idle_split_holds_nothing_back(tmp_path: Path, after: int, change: Any) -> None:
    client = start(tmp_path, 2)
    wait_for(lambda: len(shown()) == 2, "the first window")
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoint")).result(200)
    client.get_job_execution_result().result(200)
    assert shown() == [(0, 0, 25), (0, 1, 26)]

    Clocks.times["busy"] += range(100, 200)
    # So long that the split cannot turn idle once more: it still is.
    client = start(tmp_path, after, idle_after_ms=600_000, path=savepoint, change=change)
    wait_for(lambda: len(shown()) == 6, "the windows that end by 150")
    wait_for(lambda: client._job.records_read == 100, "the records up to 199")
    # Active again: 80 is late, 199 is not, and the window waits for both splits now.
    Clocks.times["quiet"] += [80, 199, 200]
    wait_for(lambda: client._job.records_read == 103, "the quiet split")
    Clocks.times["busy"] += [200]
    wait_for(lambda: len(shown()) == 8, "the last full window")
    client.cancel()
    client._wait_quietly()
    full = [(begin, key, 25) for begin in (50, 100, 150) for key in (0, 1)]
    full[-1] = (150, 1, 26)
    assert shown() == [(0, 0, 25), (0, 1, 26), *full]
