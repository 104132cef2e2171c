"""A real ZooKeeper of three servers, or of one, from the jars that come with PySpark.

Servers are processes of their own on loopback ports; each can be killed, stopped, continued and
started again with its data.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    import signal

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = Path(pyspark.__file__).parent / "jars"
PATTERNS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
)
START_SECONDS = 200


def classpath() -> str:
    found = [str(jar) for pattern in PATTERNS for jar in sorted(JARS.glob(pattern))]
    assert any("zookeeper-jute" in jar for jar in found), (
        f"PySpark's jars have no ZooKeeper: {JARS}"
    )
    return os.pathsep.join(found)


def free_ports(number: int) -> list[int]:
    """Finds ports below those that outgoing connections are given: nobody takes one by chance."""
    found: list[int] = []
    for port in range(10_000 + os.getpid() * 64 % 20_000, 32_768):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == number:
            break
    return found


class Quorum:
    """Servers of one ensemble.

    Args:
        directory: For their data and logs.
        servers: How many.
    """

    def __init__(self, directory: Path, servers: int = 3) -> None:
        self.directory = directory
        ports = free_ports(3 * servers)
        self.clients, peers = ports[:servers], ports[servers:]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(servers):
            home = directory / str(number)
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{number + 1}\n")
            lines = [
                "tickTime=200",
                "initLimit=300",
                "syncLimit=100",
                "minSessionTimeout=400",
                "maxSessionTimeout=60000",
                f"dataDir={home}/data",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr",
                "clientPortAddress=127.0.0.1",
                f"clientPort={self.clients[number]}",
            ]
            if servers > 1:
                lines += [
                    f"server.{other + 1}=127.0.0.1:{peers[2 * other]}:{peers[2 * other + 1]}"
                    for other in range(servers)
                ]
            (home / "zoo.cfg").write_text("\n".join(lines) + "\n")

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.clients)

    def start(self, *numbers: int) -> None:
        """Starts all servers, or these, and waits until each of them serves."""
        chosen = numbers or tuple(range(len(self.clients)))
        for number in chosen:
            home = self.directory / str(number)
            with (home / "log.txt").open("ab") as log:
                self.processes[number] = subprocess.Popen(
                    [
                        "java",
                        "-Xmx96m",
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Dzookeeper.jmx.log4j.disable=true",
                        "-cp",
                        classpath(),
                        MAIN,
                        str(home / "zoo.cfg"),
                    ],
                    stdout=log,
                    stderr=log,
                    cwd=home,
                )
        deadline = time.monotonic() + START_SECONDS
        for number in chosen:
            while self.mode(number) is None:
                log = (self.directory / str(number) / "log.txt").read_text()[-3000:]
                assert self.processes[number].poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.05)

    def mode(self, number: int) -> str | None:
        """Returns `leader`, `follower` or `standalone`; None while the server serves nobody."""
        try:
            with socket.create_connection(("127.0.0.1", self.clients[number]), 10) as opened:
                opened.sendall(b"srvr")
                answer = b""
                while piece := opened.recv(4096):
                    answer += piece
        except OSError:
            return None
        modes = [line for line in answer.decode().splitlines() if line.startswith("Mode: ")]
        return modes[0].removeprefix("Mode: ") if modes else None

    def follower(self) -> int:
        """Waits for a follower; while servers elect their leader there is none."""
        return self._first("follower")

    def leader(self) -> int:
        """Waits for a leader."""
        return self._first("leader")

    def _first(self, mode: str) -> int:
        deadline = time.monotonic() + START_SECONDS
        while True:
            modes = {number: self.mode(number) for number in self.processes}
            if found := [number for number in modes if modes[number] == mode]:
                return found[0]
            assert time.monotonic() < deadline, f"no {mode}: {modes}"
            time.sleep(0.05)

    def kill(self, number: int) -> None:
        """Kills a server as a power cut would."""
        process = self.processes.pop(number)
        process.kill()
        process.wait()

    def signal(self, number: int, what: signal.Signals) -> None:
        self.processes[number].send_signal(what)

    def wipe(self) -> None:
        """Removes all data of all servers, which must have been killed."""
        assert not self.processes
        for number in range(len(self.clients)):
            shutil.rmtree(self.directory / str(number) / "data" / "version-2")

    def close(self) -> None:
        for number in list(self.processes):
            self.kill(number)
