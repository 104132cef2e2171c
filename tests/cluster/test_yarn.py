"""A job with state on YARN, with checkpoints and output on HDFS; an executor is killed.

In client mode the driver runs here, in cluster mode in a container.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from yarn import YarnCluster, missing

from penstock.spark.session import LIGHT_JVM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hdfs_cluster import HdfsCluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]
RECORDS = 6_000
KEYS = 100
PROGRAM = Path(__file__).with_name("yarn_job.py")
SPARK_HOME = Path(pyspark.__file__).parent
SETTINGS = {
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.yarn.am.memory": "512m",
    "spark.driver.extraJavaOptions": LIGHT_JVM,
    "spark.executor.extraJavaOptions": LIGHT_JVM,
    "spark.yarn.am.extraJavaOptions": LIGHT_JVM,
    "spark.yarn.scheduler.heartbeat.interval-ms": "200",
    "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
    "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    if reason := missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with YarnCluster(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_executor_on_yarn_is_killed(
    yarn: YarnCluster, hdfs: HdfsCluster, tmp_path: Path, mode: str
) -> None:
    url, gate = f"{hdfs.url}/{mode}", tmp_path / "gate"
    # Spark takes no address with a blank in it.
    (tmp_path / "jars").symlink_to(SPARK_HOME / "jars")
    settings = {
        **SETTINGS,
        "spark.yarn.jars": f"local:{tmp_path}/jars/*",
        "spark.yarn.stagingDir": f"file://{tmp_path}/staging",
    }
    arguments = [str(PROGRAM), url, str(RECORDS), str(gate)]
    if mode == "client":
        command = [sys.executable, *arguments]
        command += [f"penstock.spark.conf.{key}={value}" for key, value in settings.items()]
    else:
        command = [f"{SPARK_HOME}/bin/spark-submit", "--master", "yarn", "--deploy-mode", mode]
        command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        command += arguments
    log = tmp_path / "job.log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **yarn.environment}
        )
    try:
        deadline = time.monotonic() + 900

        def go_on() -> None:
            assert job.poll() is None, log.read_text() + yarn.logs()
            assert time.monotonic() < deadline, log.read_text() + yarn.logs()
            time.sleep(0.1)

        while newest_checkpoint(hdfs, f"/{mode}/checkpoints") < 3:
            go_on()
        os.kill(yarn.containers("CoarseGrainedExecutorBackend")[0], signal.SIGKILL)
        known = newest_checkpoint(hdfs, f"/{mode}/checkpoints")
        while newest_checkpoint(hdfs, f"/{mode}/checkpoints") < known + 3:
            go_on()
        gate.touch()
        assert job.wait(deadline - time.monotonic()) == 0, log.read_text() + yarn.logs()
    finally:
        job.kill()
        job.wait()
    counts: Counter[int] = Counter()
    expected = []
    for value in range(RECORDS):
        counts[value % KEYS] += 1
        expected.append(f"{value % KEYS},{counts[value % KEYS]},{value}")
    assert sorted(lines(hdfs, f"/{mode}/out")) == sorted(expected)


def files(hdfs: HdfsCluster, directory: str) -> list[str]:
    import hdfs_native

    client = hdfs_native.Client(hdfs.url)
    try:
        return [each.path for each in client.list_status(directory, recursive=True)]
    except FileNotFoundError:
        return []


def newest_checkpoint(hdfs: HdfsCluster, directory: str) -> int:
    found = [each for each in files(hdfs, directory) if each.endswith("/_metadata")]
    return max((int(each.split("/chk-")[1].split("/")[0]) for each in found), default=0)


def lines(hdfs: HdfsCluster, directory: str) -> list[str]:
    import hdfs_native

    client = hdfs_native.Client(hdfs.url)
    found: list[str] = []
    for path in files(hdfs, directory):
        name = path.rpartition("/")[2]
        if name.startswith("part-"):
            with client.read(path) as file:
                found += file.read().decode().splitlines()
    return found
