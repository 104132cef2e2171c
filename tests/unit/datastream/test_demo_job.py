"""The demo's job counts its events as a loop over the same lines does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock.common import Configuration
from penstock.connectors.demo_events import DemoEvents
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.job import build

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20_000


def environment(parallelism: int) -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", "5000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def expected_lines() -> list[str]:
    expected: Counter[str] = Counter()
    for block in DemoEvents(seed=7).blocks(COUNT):
        for line in block:
            ts, channel, _, behavior = line.split("\t")
            start = int(ts) // 60_000 * 60_000
            expected[f"{start}\t{start + 60_000}\t{channel}\t{behavior}"] += 1
    return sorted(f"{head}\t{count}" for head, count in expected.items())


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_counts(parallelism: int) -> None:
    found = build(environment(parallelism), COUNT, seed=7).execute_and_collect()
    assert sorted(found) == expected_lines()


def test_counts_over_the_failure_that_the_demo_shows(tmp_path: Path) -> None:
    env = environment(2)
    settings = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    for key, value in settings.items():
        env.configure(Configuration().set_string(key, value))
    results = build(env, COUNT, seed=7, fail_after=COUNT // 4).execute_and_collect()
    job = results.get_job_client()._job
    assert sorted(results) == expected_lines()
    assert job.restarts == 1
