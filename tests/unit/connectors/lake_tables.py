"""Tables of Iceberg and Delta on a disk, for tests: a catalog, a sink, a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as arrow
from pyiceberg.catalog import load_catalog

from penstock.common import Configuration
from penstock.connectors.sink import CommitContext, WriterContext
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA = arrow.schema([("word", arrow.string()), ("count", arrow.int64())])


def settings(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }


def table_of(folder: Path) -> Any:
    return load_catalog("penstock", **settings(folder)).load_table("shop.words")


def rows_of(folder: Path) -> list[Any]:
    found = table_of(folder).scan().to_arrow().to_pylist()
    return sorted((row["word"], row["count"]) for row in found)


class Lake:
    """A sink and its pending output."""

    def __init__(self, folder: Path, sink: Any = None) -> None:
        self.sink = sink or IcebergSink(settings(folder), "shop.words", SCHEMA)
        self.area = FileArea(folder / "area", 0)

    def pending(self, rows: list[Any], epoch: int, subtask: int = 0, process: int = 1) -> list[Any]:
        at = f"at-{process}-{epoch}"
        writer = self.sink.create_writer(
            WriterContext("a" * 32, "out", subtask, 2, epoch, at, 0, "", (process, 0), self.area)
        )
        writer.write(rows, None, 0)
        return list(writer.prepare_commit())

    def commit(self, committables: list[Any]) -> None:
        context = CommitContext("a" * 32, "out", 9, 9, False, 0, area=self.area)
        self.sink.create_committer().commit(committables, context)


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(50)
    return env
