"""Numbers -> count by key -> a table, for the tests that kill it; run as a program.

    table_kill_job.py <directory> <url> <parallelism> <n> <settings as JSON>

It is the n-th process of one job, and finds its own latest checkpoint as under a job manager. The
length of the file `input` says how many numbers there are now.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow

from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.connectors.jdbc import writing
from penstock.connectors.lake import sinks
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
)
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink, JdbcSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.job.start import set_launcher, start_job

JOB_ID = "cafe" + 28 * "0"
KEYS = 20
SPLITS = 3


class Growing(PythonSource):
    """As many numbers as a file has bytes, in three splits."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def splits(self) -> list[str]:
        return [str(number) for number in range(SPLITS)]

    def latest_offset(self, split: str) -> int:
        return self.path.stat().st_size // SPLITS

    def read(self, split: str, start: int, end: int) -> list[int]:
        return [SPLITS * offset + int(split) for offset in range(start, end)]


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(key=context.get_current_key(), count=count, padding=PADDING)


PADDING = ""


SCHEMA = pyarrow.schema(
    [("key", pyarrow.int64()), ("count", pyarrow.int64()), ("padding", pyarrow.string())]
)


def options_of(url: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    return builder.with_user_name("penstock").build()


def number_of(row: dict[str, int]) -> int:
    return row["n"]


def followed(url: str) -> Any:
    """The table `numbers`, to which rows are added; some transactions take a while."""
    kind, _, place = url.partition(":")
    if kind == "from-delta":
        return DeltaSource(place, number_of, follow=20)
    if kind == "from-iceberg":
        return IcebergSource(json.loads(place), "shop.numbers", number_of, follow=20)
    builder = JdbcSource.builder().set_connection_options(options_of(url))
    builder.set_sql("SELECT n FROM numbers").set_split_column("n")
    builder.set_follow(settle_time=200, poll_interval=10)
    return builder.set_result_extractor(lambda row: row.n).build()


def sink_of(url: str) -> Any:
    kind, _, place = url.partition(":")
    if kind == "elasticsearch":
        emitter = ElasticsearchEmitter.static_index("counts", "id")
        return Elasticsearch7SinkBuilder().set_hosts(place).set_emitter(emitter).build()
    if kind == "delta":
        return DeltaSink(place, SCHEMA)
    if kind == "merge":
        return DeltaSink(place, SCHEMA, merge_by=["key"])
    if kind == "iceberg":
        return IcebergSink(json.loads(place), "shop.counts", SCHEMA)
    return JdbcSink.exactly_once_sink(
        "INSERT INTO counts (k, count, padding) VALUES (?, ?, ?)",
        Types.ROW([Types.INT(), Types.LONG(), Types.STRING()]),
        options_of(url),
    )


def main(directory: Path, url: str, parallelism: int, number: int, more: str) -> None:
    global PADDING
    faulthandler.register(signal.SIGUSR1)  # A job that stands still says where.
    set_launcher(functools.partial(start_job, job_id=JOB_ID, leader_epoch=number))
    settings = json.loads(more)
    PADDING = " " * int(settings.pop("padding"))
    follows = settings.pop("follows", "")
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.tolerable-failed-checkpoints": "100",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "20 ms",
        "io.tmp.dirs": str(directory / f"tmp-{number}"),  # Each process has a disk of its own.
        **settings,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    source = followed(follows) if follows else Growing(directory / "input")
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    counts = stream.key_by(lambda each: each % KEYS).process(Numbered()).uid("count")
    if url.startswith("elasticsearch:"):
        counts = counts.map(lambda row: {"id": f"{row.key}-{row.count}", **row.as_dict()})
    counts.sink_to(sink_of(url)).uid("out")
    env.execute("kill me")


if __name__ == "__main__":
    if os.environ.get("TABLE_KILL_BREAK"):  # A broken build, which the tests have to notice.
        writing.covers = sinks.covers = lambda *_: False
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
