"""A job with state on three hosts that share an object store and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster_kit import Bucket, finish, start, wait_for_checkpoints

if TYPE_CHECKING:
    from hosts import Hosts, SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
RECORDS = 40_000


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_with_state_needs_only_the_checkpoint_storage(
    cluster: tuple[Hosts, SparkCluster], backend: str
) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    job = start(hosts, spark, RECORDS, state__backend__type=backend)
    wait_for_checkpoints(bucket, hosts, job, 3)
    assert [each for each in bucket.names("checkpoints/") if "/shared/" in each]
    # Executors have written them: the driver has no file of state.
    driver = hosts.hosts[0].root / "tmp"
    assert not [path for path in driver.glob("penstock-*/*/state/*") if path.is_file()]
    finish(bucket, hosts, job, RECORDS)
