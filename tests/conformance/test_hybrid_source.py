"""One source after the other: when the next begins, and what failures and rescales change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from recovery_kit import Faults, environment

from penstock.common import WatermarkStrategy
from penstock.connectors.generator import CollectionSource, NumberSequenceSource
from penstock.core.errors import ProgramError
from penstock.datastream.connectors import PythonSink, PythonSource
from penstock.datastream.connectors.hybrid_source import HybridSource

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.connectors.source import Source


class Seen:
    """What readers of the output see, and what functions were called with."""

    rows: ClassVar[list[int]] = []
    called: ClassVar[list[int]] = []
    changed: ClassVar[threading.Condition] = threading.Condition()

    @classmethod
    def wait(cls, count: int) -> None:
        with cls.changed:
            assert cls.changed.wait_for(lambda: len(cls.rows) >= count, 200), len(cls.rows)


class Show(PythonSink):
    """Shows rows once they are committed; remembers which."""

    shown: ClassVar[set[str]] = set()

    def open(self, context: Any) -> None:
        self.name, self.values = f"{context.attempt_id}-{context.subtask}", []

    def write(self, value: Any, context: Any) -> None:
        self.values.append(value)

    def prepare_commit(self) -> list[Any]:
        return [[self.name, self.values]]

    def commit(self, committables: list[Any], context: Any) -> None:
        with Seen.changed:
            for name, values in committables:
                if name not in self.shown:
                    self.shown.add(name)
                    Seen.rows.extend(values)
            Seen.changed.notify_all()


class Tap(PythonSource):
    """Numbers from 1000 up, in two splits, as many as are let through."""

    limit: ClassVar[int] = 0
    searched: ClassVar[int] = 0

    def splits(self) -> list[str]:
        Tap.searched += 1
        return ["0", "1"]

    def latest_offset(self, split: str) -> int:
        return Tap.limit // 2

    def read(self, split: str, start: int, end: int) -> list[int]:
        return [1000 + 2 * offset + int(split) for offset in range(start, end)]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Seen.rows.clear()
    Seen.called.clear()
    Show.shown.clear()
    Tap.limit = Tap.searched = 0


def called(value: int) -> int:
    if value == 150:
        Faults.once("before the switch")
    if value == 1111:
        Faults.once("after the switch")
    Seen.called.append(value)
    return value


def job(directory: Path, source: Source, parallelism: int = 2) -> Any:
    env = environment(directory, parallelism)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.map(called).uid("map").sink_to(Show()).uid("show")
    return env.execute_async()


def hybrid() -> HybridSource:
    return HybridSource.builder(NumberSequenceSource(0, 299)).add_source(Tap()).build()


def test_the_next_source_waits_for_the_end_of_the_first(tmp_path: Path) -> None:
    Faults.hit.update(("before the switch", "after the switch"))
    Tap.limit = 200
    client = job(tmp_path, hybrid(), 3)
    Seen.wait(500)
    client.cancel().result(200)
    assert sorted(Seen.called[:300]) == list(range(300))
    assert sorted(Seen.called[300:]) == list(range(1000, 1200))


def test_three_bounded_sources_end(tmp_path: Path) -> None:
    builder = HybridSource.builder(NumberSequenceSource(0, 9))
    # The one in the middle is empty.
    builder.add_source(CollectionSource(())).add_source(NumberSequenceSource(10, 14))
    job(tmp_path, builder.build()).get_job_execution_result().result(200)
    assert sorted(Seen.rows) == list(range(15))
    assert sorted(Seen.called[10:]) == list(range(10, 15))


def test_killed_before_and_after_the_switch(tmp_path: Path) -> None:
    client = job(tmp_path, hybrid())
    Seen.wait(300)
    for limit in (50, 150, 200):
        Tap.limit = limit
        Seen.wait(300 + limit)
    client.cancel().result(200)
    assert Faults.hit == {"before the switch", "after the switch"}
    assert sorted(Seen.rows) == [*range(300), *range(1000, 1200)]


def test_rescaled_before_and_after_the_switch(tmp_path: Path) -> None:
    Faults.hit.update(("before the switch", "after the switch"))
    client = job(tmp_path, hybrid(), 2)
    Seen.wait(50)
    client.rescale(3).result(200)
    Tap.limit = 100
    Seen.wait(400)
    client.rescale(1).result(200)
    Tap.limit = 200
    Seen.wait(500)
    client.cancel().result(200)
    assert sorted(Seen.rows) == [*range(300), *range(1000, 1200)]


def test_what_a_hybrid_source_is_made_of() -> None:
    with pytest.raises(ProgramError, match="'Tap' never ends, so 'Sequence Source' behind it"):
        HybridSource.builder(Tap()).add_source(NumberSequenceSource(1, 2))
    with pytest.raises(ProgramError, match="is made of sources, not 5"):
        HybridSource.builder(5)  # type: ignore[arg-type]

    class Marked(Tap):
        emits_own_watermarks = True

    with pytest.raises(ProgramError, match="'Sequence Source' and 'Marked' differ"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(Marked())
