"""Nothing of a failed epoch is seen, whatever the sink; all of the epochs before it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from programs.ways import WAYS, Way

from penstock.common import Encoder
from penstock.core.errors import UserFunctionError
from penstock.datastream.connectors import FileSink, PythonSink
from penstock.datastream.connectors.file_system import BucketAssigner

if TYPE_CHECKING:
    from pathlib import Path

SMALL = [way for way in WAYS if way.epoch_records == 3]


def fails_at_eight(value: int) -> int:
    if value == 8:
        raise ValueError("eight")
    return value


def failing(way: Way) -> Any:
    """Epochs of 1 to 3, 4 to 6 and 7 to 9, of which the third fails behind its first record."""
    env = way.environment()
    return env.from_collection(list(range(1, 12))).map(fails_at_eight).set_parallelism(1)


@pytest.mark.parametrize("way", SMALL, ids=str)
def test_collected_records(way: Way) -> None:
    found = []
    with pytest.raises(UserFunctionError, match="eight"):
        found.extend(iterate_into(found, failing(way)))
    assert found == [1, 2, 3, 4, 5, 6]


def iterate_into(found: list[int], stream: Any) -> list[int]:
    with stream.execute_and_collect() as results:
        for value in results:
            found.append(value)
    return []


@pytest.mark.parametrize("way", SMALL, ids=str)
def test_printed_lines(way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    stream = failing(way)
    stream.print().set_parallelism(1)
    with pytest.raises(UserFunctionError, match="eight"):
        stream.get_execution_environment().execute()
    assert capsys.readouterr().out == "".join(f"{n}\n" for n in range(1, 7))


@pytest.mark.parametrize("way", SMALL, ids=str)
def test_files(way: Way, tmp_path: Path) -> None:
    stream = failing(way)
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    stream.sink_to(sink)
    with pytest.raises(UserFunctionError, match="eight"):
        stream.get_execution_environment().execute()
    visible = [path for path in (tmp_path / "out").rglob("*") if not path.name.startswith(".")]
    lines = [int(line) for path in visible if path.is_file() for line in path.read_text().split()]
    assert set(lines) <= {1, 2, 3, 4, 5, 6}


class Ledger(PythonSink):
    """Two phases: what is prepared is seen when it is committed, and never when it is aborted."""

    committed: list[int] = []
    aborted: list[int] = []

    def open(self, context: Any) -> None:
        self.values: list[int] = []

    def write(self, value: int, context: Any) -> None:
        self.values.append(value)

    def prepare_commit(self) -> list[Any]:
        return [self.values]

    def commit(self, committables: list[Any], context: Any) -> None:
        for values in committables:
            self.committed.extend(values)

    def abort(self, committables: list[Any], context: Any) -> None:
        for values in committables:
            self.aborted.extend(values)


@pytest.mark.parametrize("way", SMALL, ids=str)
def test_a_sink_of_the_user(way: Way) -> None:
    """Three sinks' subtasks have prepared the third epoch when one operator fails in it."""
    Ledger.committed.clear()
    Ledger.aborted.clear()
    env = way.environment()
    numbers = env.from_collection(list(range(1, 12)))
    numbers.sink_to(Ledger())
    numbers.map(fails_at_eight).print()
    with pytest.raises(UserFunctionError, match="eight"):
        env.execute()
    assert sorted(Ledger.committed) == [1, 2, 3, 4, 5, 6]
    assert set(Ledger.aborted) <= {7, 8, 9}
