"""A job that reads, writes and takes checkpoints on S3 or HDFS is killed, and goes on rescaled.

What it wrote is read by clients of the storage that Penstock does not use for S3, and by plain
code: every line is there once, and every key was counted once for each of its lines.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hdfs_cluster import HdfsCluster

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).with_name("remote_job.py")
FILES, LINES, KEYS = 12, 400, 7
PATIENCE_S = 240


class Bucket:
    """What a test needs of a storage, on S3."""

    def __init__(self, endpoint: str) -> None:
        self.url = "s3://kills"
        self.settings = {
            "s3.endpoint": endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
        }
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        self._client.create_bucket(Bucket="kills")

    def put(self, name: str, data: bytes) -> None:
        self._client.put_object(Bucket="kills", Key=name, Body=data)

    def get(self, name: str) -> bytes:
        return self._client.get_object(Bucket="kills", Key=name)["Body"].read()

    def names(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket="kills")
        return [found["Key"] for page in pages for found in page.get("Contents", ())]


class Directory:
    """The same, on HDFS."""

    def __init__(self, url: str) -> None:
        import hdfs_native

        self.url = url
        self.settings = {"penstock.epoch.max-records": "200"}  # It syncs each of many files.
        self._client = hdfs_native.Client(url)

    def put(self, name: str, data: bytes) -> None:
        self._client.mkdirs(f"/{name}".rpartition("/")[0], create_parent=True)
        with self._client.create(f"/{name}") as file:
            file.write(data)

    def get(self, name: str) -> bytes:
        return self._client.read(f"/{name}").read()

    def names(self) -> list[str]:
        found = self._client.list_status("/", recursive=True)
        return [status.path[1:] for status in found if not status.isdir]


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield Bucket(f"http://{host}:{port}")
    server.stop()


@pytest.fixture
def directory(hdfs: HdfsCluster) -> Directory:
    return Directory(hdfs.url)


def checkpoints(place: Bucket | Directory) -> dict[str, int]:
    """Completed checkpoints of all jobs by their directory."""
    found = (re.fullmatch(r"(.*/chk-(\d+))/_metadata", name) for name in place.names())
    return {each[1]: int(each[2]) for each in found if each}


def start(
    place: Bucket | Directory, log: Path, parallelism: int, snapshot: str
) -> subprocess.Popen[bytes]:
    arguments = [place.url, str(parallelism), snapshot, json.dumps(place.settings)]
    environment = {name: value for name, value in os.environ.items() if name[:4] != "AWS_"}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )


def wait_for(happened: Callable[[], object], job: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert job.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.01)


def test_kills_on_s3(bucket: Bucket, tmp_path: Path) -> None:
    killed_and_rescaled(bucket, tmp_path / "log.txt")


def test_kills_on_hdfs(directory: Directory, tmp_path: Path) -> None:
    killed_and_rescaled(directory, tmp_path / "log.txt")


def killed_and_rescaled(place: Bucket | Directory, log: Path) -> None:
    for number in range(FILES):
        values = range(number * LINES, (number + 1) * LINES)
        place.put(f"in/{number:02}", "".join(f"{value}\n" for value in values).encode())
    snapshot = ""
    for parallelism, wanted in ((2, 1), (3, 2), (1, 1)):
        before = set(checkpoints(place))
        job = start(place, log, parallelism, snapshot)
        wait_for(lambda: len(set(checkpoints(place)) - before) >= wanted, job, log)  # noqa: B023
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        # Numbers go on from job to job.
        found = checkpoints(place)
        snapshot = f"{place.url}/{max(found, key=lambda name: found[name])}"
    visible = output_of(place)
    assert sum(map(len, visible.values())) < FILES * LINES, "it was killed too late"
    job = start(place, log, 2, snapshot)
    assert job.wait(PATIENCE_S) == 0, log.read_text()[-3000:]
    assert_once(place)


def output_of(place: Bucket | Directory) -> dict[str, list[str]]:
    """Lines of visible files by name."""
    names = [name for name in place.names() if name.startswith("out/")]
    seen = [name for name in names if not re.search(r"/[._]", name)]
    return {name: place.get(name).decode().splitlines() for name in seen}


def assert_once(place: Bucket | Directory) -> None:
    lines = [line for lines in output_of(place).values() for line in lines]
    rows = [tuple(map(int, line.split(","))) for line in lines]
    values = Counter(value for _, _, value in rows)
    assert values == Counter(range(FILES * LINES))
    counts = defaultdict(list)
    for key, count, value in rows:
        assert value % KEYS == key
        counts[key].append(count)
    for key in range(KEYS):
        expected = len(range(key, FILES * LINES, KEYS))
        assert sorted(counts[key]) == list(range(1, expected + 1))
