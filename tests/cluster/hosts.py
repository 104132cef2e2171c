"""Hosts on one machine: network namespaces behind a bridge, each with its own `/tmp` and home.

Every host has one address. Its processes see nothing of another host but what comes over the
network, and the object store is the only thing they share. `Hosts` removes what it made: it ends
processes by their ids, and namespaces by their names. The bridge is in a namespace of its own, too,
in which the test runs meanwhile: several networks do not meet, and a browser on this machine does
not see it get another interface, for which it would break off what it loads.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PATIENCE_S: Final = 240
ROOT: Final = Path(__file__).parents[2]
_LIGHT: Final = "-Xmx{heap} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_HIDDEN: Final = ("/root", "/home", "/tmp")
"""`/tmp` last: what the others are made of may lie there."""
_GATEWAY: Final = "10.213.0.1"
_CLONE_NEWNET: Final = 0x40000000


def missing() -> str:
    """Says why this machine can have no hosts; empty if it can."""
    if os.geteuid() != 0:
        return "hosts are network namespaces, which only root may make"
    if any(shutil.which(each) is None for each in ("ip", "unshare", "mount", "java")):
        return "hosts need the programs ip, unshare, mount and java"
    name = f"pk{secrets.token_hex(3)}"
    made = subprocess.run(
        f"ip link add {name} type bridge && ip link del {name} && ip netns add {name} && "
        f"ip netns exec {name} unshare -m mount -t tmpfs none /mnt; ip netns del {name}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"this machine has no network namespaces: {made.stderr.strip()}" if made.stderr else ""


@dataclass
class Host:
    """One host."""

    name: str  # Of its namespace.
    address: str
    root: Path  # Holds its `/tmp` and its home.
    link: str  # Its end of the cable, at the bridge.
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, command: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a process on the host; its output goes to a file."""
        visible = {str(ROOT), sys.prefix, sys.base_prefix}
        lines = ["set -e"]
        for hidden in _HIDDEN:
            own = self.root / hidden.strip("/")
            own.mkdir(mode=0o1777, parents=True, exist_ok=True)
            for path in sorted(visible):
                if path.startswith(f"{hidden}/"):
                    # Programs are the same on all hosts, wherever they lie here.
                    inside = own / path.removeprefix(f"{hidden}/")
                    lines.append(shlex.join(["mkdir", "-p", str(inside)]))
                    lines.append(shlex.join(["mount", "--rbind", path, str(inside)]))
            lines.append(shlex.join(["mount", "--rbind", str(own), hidden]))
        lines.append('exec "$@"')
        with log.open("ab") as output:
            process = subprocess.Popen(
                [
                    "ip",
                    "netns",
                    "exec",
                    self.name,
                    "unshare",
                    "-m",
                    "--propagation",
                    "private",
                    "sh",
                    "-c",
                    "\n".join(lines),
                    "sh",
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "TMPDIR": "/tmp", "HOME": "/root", **(environment or {})},
            )
        self.processes.append(process)
        return process

    def pids(self, text: str = "") -> list[int]:
        """Returns the processes of the host whose command line contains a text."""
        asked = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False
        )
        found = []
        for pid in map(int, asked.stdout.split()):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if text in line:
                    found.append(pid)
        return found

    def kill(self, text: str = "") -> int:
        """Kills processes of the host without a warning; all of them by default."""
        found = self.pids(text)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def cut(self) -> None:
        """Takes the cable out."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Puts the cable in again."""
        _ip("link", "set", self.link, "up")


class Hosts:
    """A network of hosts and an object store.

    Args:
        directory: For logs, and what hosts have on their disks.
        count: How many hosts.
    """

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._tag = f"pk{secrets.token_hex(3)}"
        self._numbers = itertools.count(1)
        self.hosts: list[Host] = []
        self._outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _system("unshare", _CLONE_NEWNET)
        try:
            _ip("link", "set", "lo", "up")
            _ip("link", "add", self._tag, "type", "bridge")
            _ip("addr", "add", f"{_GATEWAY}/24", "dev", self._tag)
            _ip("link", "set", self._tag, "up")
            for number in range(count):
                self.hosts.append(self._host(number, f"10.213.0.{number + 10}"))
            self.endpoint, self._server = _object_store(_GATEWAY)
        except BaseException:
            self.close()
            raise

    def _host(self, number: int, address: str) -> Host:
        name, link = f"{self._tag}h{number}", f"{self._tag}v{number}"
        _ip("netns", "add", name)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", link, "master", self._tag, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "route", "add", "default", "via", _GATEWAY)
        return Host(name, address, self._directory / name, link)

    def log(self, name: str) -> Path:
        """Returns where a process writes what it prints."""
        return self._directory / f"{name}.log"

    def logs(self) -> str:
        """Returns the end of each log, for the text of a failure."""
        texts = []
        for path in sorted(self._directory.glob("*.log")):
            texts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-6000:]}")
        return "\n".join(texts)

    def close(self) -> None:
        """Ends all processes and removes the network."""
        try:
            for host in self.hosts:
                host.kill()
                for process in host.processes:
                    process.wait(PATIENCE_S)
                subprocess.run(["ip", "netns", "del", host.name], check=False)
                shutil.rmtree(host.root, ignore_errors=True)
            subprocess.run(["ip", "link", "del", self._tag], check=False)
            if hasattr(self, "_server"):
                self._server.stop()
        finally:
            _system("setns", self._outside, _CLONE_NEWNET)
            os.close(self._outside)


class SparkCluster:
    """A standalone Spark: the master on the first host, a worker on each of the others.

    Args:
        hosts: Where.
        cores: Of each worker.
        settings: Further settings of the workers' JVMs, such as time-outs.
        on: Some of the hosts, for one of several clusters.
    """

    def __init__(
        self, hosts: Hosts, cores: int = 1, settings: str = "", on: Sequence[Host] = ()
    ) -> None:
        self._hosts = hosts
        self._cores = cores
        self._settings = settings
        self._numbers = itertools.count(1)
        first, *others = on or hosts.hosts
        log = f"master-{first.name}"
        self.master = f"spark://{first.address}:7077"
        first.start(
            [
                *self._command("org.apache.spark.deploy.master.Master", first),
                "--port",
                "7077",
                "--webui-port",
                "0",
            ],
            hosts.log(log),
            _spark_environment(first),
        )
        wait_until(lambda: "I have been elected leader" in self._log(log), hosts)
        names = [self.start_worker(host) for host in others]
        for name in names:
            wait_until(lambda name=name: "registered with master" in self._log(name), hosts)

    def start_worker(self, host: Host) -> str:
        """Starts the worker of a host; returns the name of its log."""
        name = f"worker-{host.name}-{next(self._numbers)}"
        host.start(
            [
                *self._command("org.apache.spark.deploy.worker.Worker", host),
                "--cores",
                str(self._cores),
                "--memory",
                "2g",
                "--webui-port",
                "0",
                self.master,
            ],
            self._hosts.log(name),
            _spark_environment(host),
        )
        return name

    def _log(self, name: str) -> str:
        return self._hosts.log(name).read_text(errors="replace")

    def _command(self, main: str, host: Host) -> list[str]:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars" / "*"
        java = ["java", *_LIGHT.format(heap="192m").split(), *self._settings.split()]
        return [*java, "-cp", str(jars), main, "--host", host.address]


def _spark_environment(host: Host) -> dict[str, str]:
    import pyspark

    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": host.address,
        "SPARK_WORKER_DIR": "/tmp/work",
    }


def wait_until(condition: Callable[[], bool], hosts: Hosts, what: str = "") -> None:
    """Waits for something that has to happen; the logs tell why it did not."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}\n{hosts.logs()}"
        time.sleep(0.05)


@contextlib.contextmanager
def spark_on_hosts(
    directory: Path, workers: int, **options: Any
) -> Iterator[tuple[Hosts, SparkCluster]]:
    """A network of one host for the driver and some for executors, with Spark on it."""
    hosts = Hosts(directory, workers + 1)
    try:
        yield hosts, SparkCluster(hosts, **options)
    finally:
        hosts.close()


def _object_store(address: str) -> tuple[str, Any]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = f"http://{address}:{port}"
    # Servers of one process share their objects.
    reset = urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=30).close()
    make = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
    urllib.request.urlopen(make, timeout=30).close()
    return endpoint, server


def _system(call: str, *arguments: int) -> None:
    """Makes a system call that `os` of Python 3.11 does not have."""
    if getattr(ctypes.CDLL(None, use_errno=True), call)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), call)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
