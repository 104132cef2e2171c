"""A real YARN in processes of its own: a ResourceManager and a NodeManager, loopback.

with YarnCluster(directory) as yarn:
    subprocess.Popen(command, env={**os.environ, **yarn.environment})

Their jars are fetched by `tools/install_jars.sh yarn`; Spark's client for YARN is part of PySpark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_broker import dies_with_its_parent
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from typing import Self

ROOT: Final = Path(__file__).resolve().parents[2]
JARS: Final = ROOT / ".bench" / "yarn"
START_SECONDS: Final = 300
_SERVER: Final = "org.apache.hadoop.yarn.server"
_MANAGERS: Final = ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
_PORTS: Final = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "resourcemanager.webapp.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.webapp.address",
)


def missing() -> str:
    """Returns why there can be no YARN here, or "" if its jars are there now."""
    done = subprocess.run(
        [ROOT / "tools" / "install_jars.sh", "yarn"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr.strip()


class YarnCluster:
    """One ResourceManager with one NodeManager, for six small containers.

    Args:
        directory: For settings, logs, and what containers have on disk.

    Attributes:
        environment: What a client of it needs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "HADOOP_CONF_DIR": str(directory),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SCALA_VERSION": "2.13",
        }

    def __enter__(self) -> Self:
        ports = free_ports(len(_PORTS))
        settings = {
            **{name: f"127.0.0.1:{port}" for name, port in zip(_PORTS, ports, strict=True)},
            "resourcemanager.hostname": "127.0.0.1",
            "nodemanager.hostname": "127.0.0.1",
            "nodemanager.local-dirs": f"{self._directory}/local",
            "nodemanager.log-dirs": f"{self._directory}/logs",
            "nodemanager.resource.memory-mb": "6144",
            "nodemanager.resource.cpu-vcores": "6",
            "nodemanager.vmem-check-enabled": "false",
            "nodemanager.disk-health-checker.enable": "false",
            "scheduler.minimum-allocation-mb": "128",
            "resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
            "resourcemanager.scheduler.class": (
                f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
        }
        properties = "".join(
            f"<property><name>yarn.{name}</name><value>{value}</value></property>\n"
            for name, value in settings.items()
        )
        for name, text in (("yarn-site.xml", properties), ("core-site.xml", "")):
            (self._directory / name).write_text(f"<configuration>\n{text}</configuration>\n")
        try:
            for manager in _MANAGERS:
                self._start(manager)
            self._wait("Registered with ResourceManager")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, manager: str) -> None:
        light = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
        with self._log(manager).open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [
                        *("java", *light, "--add-opens=java.base/java.lang=ALL-UNNAMED"),
                        *("-cp", f"{self._directory}:{JARS}/*", f"{_SERVER}.{manager}"),
                    ],
                    stdout=log,
                    stderr=log,
                    cwd=self._directory,
                    preexec_fn=dies_with_its_parent,
                )
            )

    def _log(self, manager: str) -> Path:
        return self._directory / f"{manager}.log"

    def _wait(self, words: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while words not in self._log(_MANAGERS[1]).read_text(errors="replace"):
            said = "\n".join(
                self._log(each).read_text(errors="replace")[-3000:] for each in _MANAGERS
            )
            assert all(each.poll() is None for each in self._processes), said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)

    def containers(self, words: str) -> list[int]:
        """Returns the JVMs of containers whose command line contains some words."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            is_jvm = line.split(" ", 1)[0].endswith("/java")
            if is_jvm and words in line and str(self._directory) in line:
                found.append(int(path.parent.name))
        return found

    def logs(self) -> str:
        """Returns the end of each container's log, for the text of a failure."""
        paths = sorted(self._directory.glob("logs/*/*/std*"))
        return "\n".join(
            f"--- {each}\n{each.read_text(errors='replace')[-4000:]}" for each in paths
        )

    def __exit__(self, *exception: object) -> None:
        for pid in self.containers(""):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._processes:
            process.kill()
            process.wait()
