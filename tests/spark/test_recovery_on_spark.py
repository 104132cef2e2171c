"""Recovery with Spark's workers: the same promises as in one process, on a few jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark
RECORDS = 20_000


class Count(KeyedProcessFunction):
    """Fails once for each of some values; a file remembers it, since workers are processes."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if value in (2_000, 9_000, 19_999):
            mark = Path(self.directory, f"failed-{value}")
            if not mark.exists():
                mark.touch()
                raise RuntimeError(f"fault {value}")
        yield f"{context.get_current_key()},{count},{value}"


def environment(directory: Path, **more: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    values = {
        "penstock.spark.master": "local[2]",
        "penstock.epoch.max-records": "2000",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.incremental": "true",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "io.tmp.dirs": str(directory / "tmp"),
        **more,
    }
    for key, value in values.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def lines(directory: Path) -> list[str]:
    return [
        line
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize(("backend", "threshold"), [("hashmap", "20 kb"), ("rocksdb", "0")])
def test_files_are_written_once(tmp_path: Path, backend: str, threshold: str) -> None:
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.data-inline-threshold": threshold,
    }
    env = environment(tmp_path, **options)
    counted = (
        env.from_sequence(0, RECORDS - 1)
        .key_by(lambda value: value % 7)
        .process(Count(str(tmp_path)))
        .uid("count")
    )
    encoder = Encoder.simple_string_encoder()
    counted.sink_to(FileSink.for_row_format(str(tmp_path / "out"), encoder).build()).uid("out")
    env.execute("recovery on Spark")
    assert len([*tmp_path.glob("failed-*")]) == 3
    rows = [tuple(map(int, line.split(","))) for line in lines(tmp_path / "out")]
    assert sorted(value for _, _, value in rows) == list(range(RECORDS))
    for key in range(7):
        counts = sorted(count for of, count, _ in rows if of == key)
        assert counts == list(range(1, len(range(key, RECORDS, 7)) + 1))
    assert not [*tmp_path.glob("tmp/*")]
