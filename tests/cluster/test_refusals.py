"""A job that cannot work on its hosts says so in one sentence, before its first record."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster_kit import Bucket, start
from hosts import wait_until

if TYPE_CHECKING:
    from hosts import Hosts, SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def failure(hosts: Hosts, spark: SparkCluster, **settings: str) -> str:
    """Returns what the job said when it failed."""
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(hosts, spark, 40_000, **settings)
    wait_until(lambda: job.poll() is not None, hosts)
    assert job.returncode == 1, hosts.logs()
    assert not bucket.names("out/")
    text = hosts.log("driver-0").read_text()
    assert "restarts in" not in text
    hosts.log("driver-0").unlink()
    return text


def test_what_executors_lack_is_said_before_the_first_record(
    cluster: tuple[Hosts, SparkCluster],
) -> None:
    hosts, spark = cluster
    said = failure(hosts, spark, execution__checkpointing__dir="/tmp/checkpoints")
    assert "does not see /tmp/checkpoints of the driver" in said
    assert "execution.checkpointing.dir names" in said
    said = failure(hosts, spark, penstock__state__local__shared="true")
    assert "io.tmp.dirs names. Set it to a directory that all hosts share" in said
    # The interpreter without the environment that the driver runs in; the user's choice counts.
    bare = str(Path(sys.base_prefix, "bin", "python3"))
    said = failure(hosts, spark, penstock__spark__conf__spark__pyspark__python=bare)
    assert f"cannot run Penstock: its interpreter ({bare}) finds no module" in said
