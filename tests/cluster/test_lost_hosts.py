"""Executors, workers, hosts and drivers are killed or cut off; nothing is lost or doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster_kit import Bucket, finish, start, wait_for_checkpoints
from hosts import wait_until

if TYPE_CHECKING:
    from hosts import Hosts, SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
RECORDS = 60_000
_EXECUTOR = "CoarseGrainedExecutorBackend"
_WORKER = "pyspark.daemon"


def test_an_executor_and_a_python_worker_are_killed(cluster: tuple[Hosts, SparkCluster]) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(hosts, spark, RECORDS)
    wait_for_checkpoints(bucket, hosts, job, 3)
    assert hosts.hosts[1].kill(_EXECUTOR)
    wait_for_checkpoints(bucket, hosts, job, 3)
    assert hosts.hosts[2].kill(_WORKER)
    wait_for_checkpoints(bucket, hosts, job, 3)
    finish(bucket, hosts, job, RECORDS)


def test_a_host_is_lost_and_comes_back(cluster: tuple[Hosts, SparkCluster]) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(hosts, spark, RECORDS)
    wait_for_checkpoints(bucket, hosts, job, 3)
    lost = hosts.hosts[1]
    assert lost.kill() >= 3
    wait_for_checkpoints(bucket, hosts, job, 3)
    spark.start_worker(lost)
    wait_until(lambda: bool(lost.pids(_EXECUTOR)), hosts)
    wait_for_checkpoints(bucket, hosts, job, 3)
    finish(bucket, hosts, job, RECORDS)
