"""Kafka -> count by key -> Kafka, for the tests that kill it; run as a program, or in a copy.

    kafka_kill_job.py <directory> <parallelism> <master> <backend> own:<n> <settings as JSON>

It is the n-th process of one job, and finds its own latest checkpoint as under a job manager.
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

from penstock.common import Configuration, SimpleStringSchema, WatermarkStrategy
from penstock.connectors.kafka.publishing import Marker
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.job.start import set_launcher, start_job

JOB_ID = "cafe" + 28 * "0"
KEYS = 20


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: str, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield context.get_current_key(), count


class Counts(KafkaRecordSerializationSchema):
    """Key and count; longer where output has to be in files."""

    def __init__(self, topic: str, padding: int) -> None:
        self.topic = topic
        self.padding = " " * padding

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        key, count = element
        return KafkaProducerRecord(
            self.topic, f"{key},{count}{self.padding}".encode(), key.encode()
        )


def build(
    configuration: Configuration,
    brokers: str,
    parallelism: int,
    *,
    padding: int = 0,
    is_changed: bool = False,
) -> StreamExecutionEnvironment:
    """Returns an environment with the job: topic `in` -> count by key -> topic `out`.

    Args:
        configuration: Its settings.
        brokers: Where the topics are.
        parallelism: Of all operators.
        padding: How many blanks make a record longer.
        is_changed: Has other names and another shape, but the same uids.
    """
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers)
        .set_topics("in")
        .set_group_id("counting")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(Counts("out", padding))
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .build()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    if is_changed:
        numbers = numbers.filter(lambda text: bool(text)).name("new").uid("new").rebalance()
    counts = numbers.key_by(lambda text: str(int(text) % KEYS)).process(Numbered()).uid("count")
    counts.name("renamed" if is_changed else "count").sink_to(sink).uid("out")
    return env


def ignore_markers() -> None:
    """A deliberately broken build, which the tests have to notice."""
    Marker.covers = lambda *_: False  # type: ignore[method-assign]


def main(
    directory: Path, parallelism: int, master: str, backend: str, start: str, more: str
) -> None:
    faulthandler.register(signal.SIGUSR1)  # A job that stands still says where.
    number = int(start.removeprefix("own:"))
    set_launcher(functools.partial(start_job, job_id=JOB_ID, leader_epoch=number))
    configuration = Configuration()
    options = json.loads(more)
    brokers, padding = options.pop("brokers"), int(options.pop("padding"))
    for key, value in {
        "penstock.spark.master": master,
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.tolerable-failed-checkpoints": "100",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "20 ms",
        "state.backend.type": backend,
        "io.tmp.dirs": str(directory / f"tmp-{number}"),  # Each process has a disk of its own.
        **options,
    }.items():
        configuration.set_string(key, value)
    build(configuration, brokers, parallelism, padding=padding).execute("kill me")


if __name__ == "__main__":
    if os.environ.get("KAFKA_KILL_BREAK"):
        ignore_markers()
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:7])
