"""A job for the tests on hosts; run as a program, it knows nothing of the test.

    cluster_job.py <records> <master> <address of this host> <endpoint> <settings as JSON>

With the setting `process` it is started directly, as that process of one job; without, by a job
manager. With `upgraded` it is a later version of the program. The address may be `own`. It numbers
the records of each key, and its output is objects of the bucket. While there is an object `paced`,
it reads one epoch's worth for each checkpoint.
"""

from __future__ import annotations

import functools
import json
import logging
import socket
import sys
import urllib.parse
from typing import Any

import obstore
from obstore.store import S3Store

from penstock.common import Configuration
from penstock.connectors.sink import Committer, Sink, SinkWriter
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.job.start import set_launcher, start_job
from penstock.spark.session import LIGHT_JVM

JOB_ID = "c0ffee" + 26 * "0"
KEYS = 2_000
EPOCH = 1_000


def bucket(endpoint: str) -> S3Store:
    return S3Store(
        "bucket",
        endpoint=endpoint,
        access_key_id="key",
        secret_access_key="secret",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


class Numbers(PythonSource):
    """0, 1, 2 …, in two splits."""

    bounded = True

    def __init__(self, end: int, endpoint: str) -> None:
        self.end = end
        self.endpoint = endpoint

    def splits(self) -> list[str]:
        return ["0", "1"]

    def end_offset(self, split: str) -> int:
        return self.end // 2

    def latest_offset(self, split: str) -> int:
        store = bucket(self.endpoint)
        try:
            obstore.head(store, "paced")
        except FileNotFoundError:
            return self.end // 2
        # Not those of the output, which are many.
        names = [each["path"] for batch in obstore.list(store, "checkpoints") for each in batch]
        done = [int(each.split("/chk-")[1].split("/")[0]) for each in names if "/chk-" in each]
        return min((2 + max(done, default=0)) * EPOCH, self.end) // 2

    def read(self, split: str, start: int, end: int) -> list[int]:
        return [2 * offset + int(split) for offset in range(start, end)]


class Numbered(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()},{count},{value}"


class Passed(KeyedProcessFunction):
    """What a later version of the program has in addition, with state."""

    def open(self, context: Any) -> None:
        self.passed = context.get_state(ValueStateDescriptor("passed"))

    def process_element(self, value: str, context: Any) -> Any:
        self.passed.update((self.passed.value() or 0) + 1)
        yield value


class Objects(Sink):
    """Output waits in the checkpoint itself; its commit makes an object of it, at most one."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def create_writer(self, context: Any) -> Any:
        return _Lines(f"{context.epoch}-{context.subtask}-{context.attempt_id}")

    def create_committer(self) -> Any:
        return _Commit(self.endpoint)


class _Lines(SinkWriter):
    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []

    def write(self, values: list[Any], timestamps: Any, watermark: int) -> None:
        self.lines += values

    def prepare_commit(self) -> list[Any]:
        return [[self.name, self.lines]] if self.lines else []


class _Commit(Committer):
    def __init__(self, endpoint: str) -> None:
        self.store = bucket(endpoint)

    def commit(self, committables: list[Any], context: Any) -> None:
        for name, lines in committables:
            obstore.put(self.store, f"out/{name}", "\n".join(lines).encode())


def own_address(endpoint: str) -> str:
    """Returns the address of this host in the network of the object store."""
    place = urllib.parse.urlsplit(endpoint)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        return str(connection.getsockname()[0])


def main(end: int, master: str, address: str, endpoint: str, more: str) -> None:
    settings = json.loads(more)
    if "process" in settings:
        number = int(settings.pop("process"))
        set_launcher(functools.partial(start_job, job_id=JOB_ID, leader_epoch=number))
    is_upgraded = settings.pop("upgraded", "") == "yes"
    if address == "own":
        address = own_address(endpoint)
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": master,
        "penstock.spark.conf.spark.driver.host": address,
        "penstock.spark.conf.spark.driver.bindAddress": address,
        "penstock.spark.conf.spark.driver.memory": "512m",
        "penstock.spark.conf.spark.driver.extraJavaOptions": LIGHT_JVM,
        "penstock.spark.conf.spark.executor.memory": "512m",
        "penstock.spark.conf.spark.executor.cores": "1",
        # The tap paces epochs; what is left after the faults is read in a few.
        "penstock.epoch.max-records": str(20 * EPOCH),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.dir": "s3://bucket/checkpoints",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "exponential-delay",
        "s3.endpoint": endpoint,
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
        **settings,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(int(settings.get("parallelism.default", "4")))
    numbers = env.add_source(Numbers(end, endpoint)).uid("numbers")
    keyed = numbers.key_by(lambda value: value % KEYS)
    lines = keyed.process(Numbered()).uid("numbered")
    if is_upgraded:
        lines = lines.key_by(lambda line: len(line)).process(Passed()).uid("passed")
    lines.sink_to(Objects(endpoint)).uid("out")
    env.execute("on hosts")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    main(int(sys.argv[1]), *sys.argv[2:6])
