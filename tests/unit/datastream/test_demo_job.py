"""The demo's job counts its events as a loop over the same lines does."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.common import Configuration
from penstock.connectors.demo_events import DemoEvents
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.job import build

COUNT = 20_000


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_counts(parallelism: int) -> None:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", "5000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    found = list(build(env, COUNT, seed=7).execute_and_collect())

    expected: Counter[str] = Counter()
    for block in DemoEvents(seed=7).blocks(COUNT):
        for line in block:
            ts, channel, _, behavior = line.split("\t")
            start = int(ts) // 60_000 * 60_000
            expected[f"{start}\t{start + 60_000}\t{channel}\t{behavior}"] += 1
    assert sorted(found) == sorted(f"{head}\t{count}" for head, count in expected.items())
