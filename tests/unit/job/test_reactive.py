"""When a job takes the parallelism of its executors; times and numbers are reckoned by hand."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigurationError, JobExecutionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.managed_job import begin
from penstock.job.rescaling import SlotFollower
from penstock.job.settings import ReactiveSettings
from penstock.jobmanager.job_records import Command, CommandKind


def follow(*seen: tuple[int, int], stabilization: int = 60, cooldown: int = 30) -> dict[int, int]:
    """Returns when a job of parallelism 2 was rescaled, and to what; `seen`: time and slots."""
    follower = SlotFollower(ReactiveSettings(stabilization, cooldown))
    parallelism, rescales = 2, {}
    changes = dict(seen)
    slots = parallelism
    for now in range(400):
        slots = changes.get(now, slots)
        wanted = follower.observe(slots, parallelism, now)
        if wanted is not None:
            rescales[now] = parallelism = wanted
    return rescales


def test_a_change_is_followed_when_it_is_stable() -> None:
    assert follow((10, 4)) == {70: 4}
    assert follow((10, 1)) == {70: 1}
    assert follow((10, 4), stabilization=0) == {10: 4}


def test_changes_in_a_row_cause_one_rescale() -> None:
    # The first one begins the time; what is there at its end counts.
    assert follow((10, 3), (40, 4), (69, 6)) == {70: 6}


def test_what_comes_and_goes_causes_none() -> None:
    assert follow((10, 4), (50, 2)) == {}
    # The time begins again.
    assert follow((10, 4), (50, 2), (60, 4)) == {120: 4}


def test_rescales_are_apart() -> None:
    assert follow((10, 4), (15, 6), stabilization=2, cooldown=30) == {12: 4, 42: 6}
    assert follow((10, 4), (15, 6), stabilization=2, cooldown=0) == {12: 4, 17: 6}


def test_without_executors_the_job_waits() -> None:
    assert follow((10, 0)) == {}
    assert follow((10, 4), (50, 0), (60, 4)) == {120: 4}


def environment(**settings: str) -> StreamExecutionEnvironment:
    everything = {"penstock.spark.master": "in-process", "scheduler-mode": "reactive", **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(everything))


def test_it_needs_checkpoints() -> None:
    env = environment()
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"reactive.*Set execution.checkpointing.interval"):
        env.execute()


def test_it_is_not_rescaled_by_hand() -> None:
    env = environment(**{"execution.checkpointing.interval": "1 s"})
    env.from_collection([1]).print()
    job = env.execute_async("followed")._job
    with pytest.raises(JobExecutionError, match="follows its executors"):
        begin(job, Command(CommandKind.RESCALE, parallelism=3))
    job.result.result(60)
