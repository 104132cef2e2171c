"""What the tests on hosts share: the job, the object store, and an oracle without Penstock."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from hosts import wait_until

if TYPE_CHECKING:
    import subprocess

    from hosts import Hosts, SparkCluster

KEYS = 2_000
PROGRAM = Path(__file__).with_name("cluster_job.py")


def start(
    hosts: Hosts, spark: SparkCluster, records: int, on: int = 0, **settings: str
) -> subprocess.Popen[bytes]:
    """Starts the job's driver on a host; two underscores of a setting stand for a dot."""
    host = hosts.hosts[on]
    settings = {"process": "1", **settings}
    more = json.dumps({key.replace("__", "."): value for key, value in settings.items()})
    command = [sys.executable, str(PROGRAM), str(records), spark.master, host.address]
    return host.start([*command, hosts.endpoint, more], hosts.log(f"driver-{on}"))


class Bucket:
    """What is in the object store, seen by a client that is not Penstock's."""

    def __init__(self, hosts: Hosts) -> None:
        self._client = boto3.client(
            "s3",
            endpoint_url=hosts.endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )

    def names(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket="bucket", Prefix=prefix
        )
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def lines(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name in self.names("out/"):
            body = self._client.get_object(Bucket="bucket", Key=name)["Body"].read().decode()
            found.update(body.splitlines())
        return found

    def put(self, name: str) -> None:
        self._client.put_object(Bucket="bucket", Key=name, Body=b"")

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket="bucket", Key=name)

    def clear(self) -> None:
        """Removes all objects."""
        for name in self.names(""):
            self.delete(name)

    def newest_checkpoint(self) -> int:
        names = [each for each in self.names("checkpoints/") if each.endswith("/_metadata")]
        return max((int(each.split("/chk-")[1].split("/")[0]) for each in names), default=0)


def wanted(records: int) -> Counter[str]:
    """What a plain loop gives."""
    counts: Counter[int] = Counter()
    found: Counter[str] = Counter()
    for value in range(records):
        counts[value % KEYS] += 1
        found[f"{value % KEYS},{counts[value % KEYS]},{value}"] += 1
    return found


def wait_for_checkpoints(
    bucket: Bucket, hosts: Hosts, job: subprocess.Popen[bytes], number: int
) -> None:
    """Waits for some more checkpoints; the job must not end before."""
    known = bucket.newest_checkpoint()

    def are_there() -> bool:
        assert job.poll() is None, hosts.logs()
        return bucket.newest_checkpoint() >= known + number

    wait_until(are_there, hosts)


def finish(bucket: Bucket, hosts: Hosts, job: subprocess.Popen[bytes], records: int) -> None:
    """Lets the job read to its end; nothing may be lost or doubled."""
    bucket.delete("paced")
    wait_until(lambda: job.poll() is not None, hosts)
    assert job.returncode == 0, hosts.logs()
    compare(bucket, records)


def compare(bucket: Bucket, records: int) -> None:
    """The output holds each record once."""
    found, right = bucket.lines(), wanted(records)
    lost, doubled = right - found, found - right
    assert not lost, f"{lost.total()} lost"
    assert not doubled, f"{doubled.total()} doubled"
