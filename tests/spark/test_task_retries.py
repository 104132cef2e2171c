"""A worker that dies costs a retry of its task, which the job's figures tell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.start import start_job

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def test_tasks_that_were_tried_again_are_counted(tmp_path: Path) -> None:
    died = tmp_path / "died"

    def die_once(value: int) -> int:
        if value == 50 and not died.exists():
            died.touch()
            os._exit(7)
        return value

    configuration = Configuration()
    # A local master is given four tries for each task; here the second one succeeds.
    configuration.set_string("penstock.spark.master", "local[2]")
    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(100))).map(die_once)
    numbers.filter(lambda value: value < 0).print()
    job = start_job(env._stream_graph("dies once"), env.get_configuration())
    job.result.result(timeout=280)
    assert died.exists()
    assert job.metrics.totals.task_retries == 1
    assert job.restarts == 0
    assert job.metrics.totals.subtasks[0, 0].records_in == 100
