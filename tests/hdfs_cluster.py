"""A real HDFS in a process of its own: a NameNode and a DataNode, loopback, a private directory.

with HdfsCluster(directory) as cluster:
    storage = Storages().at(f"{cluster.url}/checkpoints")
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import dies_with_its_parent
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from typing import Self

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".bench" / "hdfs"
START_SECONDS = 200
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"


def missing() -> str:
    """Returns why there can be no HDFS here, or "" if its jars are there now."""
    done = subprocess.run(
        [ROOT / "tools" / "install_jars.sh", "hdfs"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr.strip()


class HdfsCluster:
    """One NameNode with one DataNode.

    Args:
        directory: For its data and log.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (self._port,) = free_ports(1)
        self.url = f"hdfs://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        started = self._directory / "started.json"
        arguments = ["-format", "-nnport", str(self._port), "-datanodes", "1"]
        with (self._directory / "hdfs.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
                    *(f"-Dtest.build.data={self._directory}/data", "-cp", f"{JARS}/*", _MAIN),
                    *(*arguments, "-writeDetails", str(started)),
                ],
                stdout=log,
                stderr=log,
                cwd=self._directory,
                preexec_fn=dies_with_its_parent,
            )
        deadline = time.monotonic() + START_SECONDS
        while not started.is_file():
            log_text = (self._directory / "hdfs.log").read_text(errors="replace")[-3000:]
            assert self._process.poll() is None, log_text
            assert time.monotonic() < deadline, log_text
            time.sleep(0.1)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()
