"""Splits of a group wait for the slowest; idle ones hold nobody back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.runtime import source_logic
from penstock.runtime.job_state import SplitAlignment

if TYPE_CHECKING:
    import pytest

MIN = -(2**63)


def aligned(group: str, drift_ms: int) -> WatermarkStrategy:
    monotonous = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda t: t)
    return monotonous.with_watermark_alignment(group, Duration.of_millis(drift_ms))


def alignment(**groups: tuple[str, int] | None) -> SplitAlignment:
    """Of sources by uid: group and drift, or None without alignment."""
    stages = [
        SimpleNamespace(
            stage_id=number,
            is_source=True,
            operators=[
                SimpleNamespace(
                    uid=uid,
                    spec=SimpleNamespace(strategy=None if given is None else aligned(*given)),
                )
            ],
        )
        for number, (uid, given) in enumerate(groups.items())
    ]
    graph: Any = SimpleNamespace(stages=stages)
    return SplitAlignment(graph)


def report(stage_id: int, subtask: int = 0, **splits: int | None) -> Any:
    return SimpleNamespace(stage_id=stage_id, subtask=subtask, split_watermarks=splits)


def test_who_is_ahead_waits() -> None:
    found = alignment(a=("g", 10))
    assert found.paused("a") == frozenset(), "nothing is known yet"
    found.heard([report(0, 0, x=100, y=111), report(0, 1, z=110)])
    assert found.paused("a") == {"y"}
    found.heard([report(0, 0, x=101, y=111), report(0, 1, z=110)])
    assert found.paused("a") == frozenset()


def test_sources_of_one_group_wait_for_each_other() -> None:
    found = alignment(a=("g", 10), b=("g", 50), c=("other", 0), d=None)
    found.heard([report(0, x=0), report(1, x=60, y=40), report(2, x=1000), report(3, x=5000)])
    assert found.paused("a") == frozenset()
    assert found.paused("b") == {"x"}
    assert found.paused("c") == frozenset()
    assert found.paused("d") == frozenset()


def test_idle_splits_and_splits_without_a_watermark() -> None:
    found = alignment(a=("g", 10))
    found.heard([report(0, x=None, y=100, z=105)])
    assert found.paused("a") == frozenset(), "an idle one holds nobody back"
    found.heard([report(0, x=MIN, y=100, z=105)])
    assert found.paused("a") == {"y", "z"}
    found.heard([report(0)])
    assert found.paused("a") == frozenset(), "all have ended"


class TwoSpeeds(PythonSource):
    """`slow` has a record each millisecond, `fast` one each ten; noted as they are read."""

    bounded = True
    read_at: ClassVar[list[tuple[str, int]]] = []

    def splits(self) -> list[str]:
        return ["slow", "fast"]

    def end_offset(self, split: str) -> int:
        return 100 if split == "slow" else 40

    def discover(self, state: Any, now_ms: int) -> Any:
        """Side by side, as the partitions of a log."""
        from dataclasses import replace

        found = super().discover(state, now_ms)
        return replace(found, splits=tuple(replace(s, concurrent=True) for s in found.splits))

    def read(self, split: str, start: int, end: int) -> list[int]:
        step = 1 if split == "slow" else 10
        times = [offset * step for offset in range(start, end)]
        self.read_at.extend((split, time) for time in times)
        return times


def order_of_reads(
    strategy: WatermarkStrategy, parallelism: int, *, epoch: int = 8
) -> list[tuple[str, int]]:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", str(epoch))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    TwoSpeeds.read_at.clear()
    with env.from_source(TwoSpeeds(), strategy, "speeds").execute_and_collect() as results:
        assert sorted(results) == sorted([*range(100), *range(0, 400, 10)])
    return list(TwoSpeeds.read_at)


def furthest_ahead(reads: list[tuple[str, int]]) -> int:
    """How far `fast` has read beyond what `slow` had read, while `slow` had more to read."""
    slow, ahead = 0, 0
    for split, time in reads:
        if split == "slow":
            slow = time
        elif slow < 99:
            ahead = max(ahead, time - slow)
    return ahead


def test_limits_are_told() -> None:
    found = alignment(a=("g", 10), b=("g", 50), d=None)
    assert [found.limit(uid) for uid in "abd"] == [MIN, MIN, None], "each reads once"
    found.heard([report(0, x=100), report(1, y=7)])
    assert [found.limit(uid) for uid in "abd"] == [17, 57, None]


def test_an_epoch_does_not_read_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With reads of one record, `fast` goes one step of 10 beyond the drift of 10 in an epoch."""
    monkeypatch.setattr(source_logic, "READ_RECORDS", 1)
    for parallelism in (1, 2):
        reads = order_of_reads(aligned("g", 10), parallelism, epoch=80)
        assert furthest_ahead(reads) <= 10 + 10 + 10


def test_in_a_job() -> None:
    """An epoch reads four records of each split, so `fast` may overshoot by four steps."""
    for parallelism in (1, 2):
        assert furthest_ahead(order_of_reads(aligned("g", 10), parallelism)) <= 10 + 4 * 10 + 10
        plain = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda t: t)
        assert furthest_ahead(order_of_reads(plain, parallelism)) >= 300


def test_a_paused_split_is_not_idle() -> None:
    """It would let the watermark of its subtask pass, and forget how far ahead it is."""
    strategy = aligned("g", 10).with_idleness(Duration.of_millis(1))
    assert furthest_ahead(order_of_reads(strategy, 1)) <= 10 + 4 * 10 + 10
