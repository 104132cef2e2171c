"""Executors, workers, hosts and drivers are killed or cut off; nothing is lost or doubled."""

from __future__ import annotations

import time
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


def test_a_host_is_cut_off_and_comes_back_before_it_is_missed(
    cluster: tuple[Hosts, SparkCluster],
) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(hosts, spark, RECORDS)
    wait_for_checkpoints(bucket, hosts, job, 3)
    hosts.hosts[1].cut()
    time.sleep(25)
    hosts.hosts[1].mend()
    wait_for_checkpoints(bucket, hosts, job, 3)
    finish(bucket, hosts, job, RECORDS)


def test_a_host_is_cut_off_for_longer_than_time_outs(cluster: tuple[Hosts, SparkCluster]) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(
        hosts,
        spark,
        RECORDS,
        penstock__spark__conf__spark__network__timeout="20s",
        penstock__spark__conf__spark__network__timeoutInterval="5s",
        penstock__spark__conf__spark__executor__heartbeatInterval="3s",
    )
    wait_for_checkpoints(bucket, hosts, job, 3)
    hosts.hosts[1].cut()
    # The other host goes on alone.
    wait_for_checkpoints(bucket, hosts, job, 3)
    hosts.hosts[1].mend()
    wait_for_checkpoints(bucket, hosts, job, 3)
    finish(bucket, hosts, job, RECORDS)


def test_a_driver_is_killed_and_goes_on_on_another_host(
    cluster: tuple[Hosts, SparkCluster],
) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    # More than there are, which only the first driver waits for.
    cores = {"penstock__spark__conf__spark__cores__max": "8"}
    job = start(hosts, spark, RECORDS, **cores)
    wait_for_checkpoints(bucket, hosts, job, 3)
    for part in ("cluster_job.py", "SparkSubmit"):
        assert hosts.hosts[0].kill(part)
    job.wait()
    job = start(hosts, spark, RECORDS, on=1, process="2", **cores)
    wait_for_checkpoints(bucket, hosts, job, 3)
    finish(bucket, hosts, job, RECORDS)
    said = [hosts.log(f"driver-{number}").read_text() for number in range(2)]
    waited = ["the job runs on what is here" in text for text in said]
    assert waited == [True, False]
    assert "the job had no more when it ran last" in said[1]
