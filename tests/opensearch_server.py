"""A real OpenSearch in a process of its own: one node, loopback, a private directory, no security.

    with Server(directory) as server:
        server.ask("GET", "/users/_doc/1")

Maven has the jars of the server, but not the layout of its distribution, which is made here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import httpx

from kafka_broker import ROOT, START_SECONDS, dies_with_its_parent
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from pathlib import Path

JARS = ROOT / ".bench" / "opensearch"
_JAVA = (
    *("java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Djava.security.manager=allow",
    "-Dopensearch.distribution.type=tar",
    "-Djna.nounpack=true",  # With native calls it refuses to run as root.
    "-Dlog4j2.disable.jmx=true",
)
_MAIN = "org.opensearch.bootstrap.OpenSearch"
_OF_MODULE = ("netty-", "transport-netty4-")


def missing() -> str:
    """Returns why there can be no server here, or "" if its jars are there now."""
    done = subprocess.run(
        [ROOT / "tools" / "install_jars.sh", "opensearch"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr.strip()


class Server:
    """One server; it can be killed and started again with its data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        port, transport = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        module = directory / "modules" / "transport-netty4"
        for folder in ("config", "plugins", "logs", "lib", module):
            (directory / folder).mkdir(parents=True)
        for jar in JARS.glob("*.jar"):
            target = module if jar.name.startswith(_OF_MODULE) else directory / "lib"
            (target / jar.name).symlink_to(jar)
        (server,) = JARS.glob("opensearch-[0-9]*.jar")
        version = server.stem.rpartition("-")[2]
        # Modules must lie in their directory.
        for link in module.iterdir():
            shutil.copy(link.resolve(), directory / link.name)
            (directory / link.name).replace(link)
        (module / "plugin-descriptor.properties").write_text(
            f"description=transport\nname=transport-netty4\nversion={version}\n"
            f"opensearch.version={version}\njava.version=11\nextended.plugins=\n"
            "classname=org.opensearch.transport.Netty4Plugin\nhas.native.controller=false\n"
        )
        (module / "plugin-security.policy").write_text(
            'grant { permission java.lang.RuntimePermission "*";'
            ' permission java.lang.reflect.ReflectPermission "*";'
            ' permission java.net.SocketPermission "*", "accept,connect,listen,resolve";'
            ' permission java.util.PropertyPermission "*", "read,write"; };'
        )
        (directory / "config" / "opensearch.yml").write_text(
            f"discovery.type: single-node\nnetwork.host: 127.0.0.1\nhttp.port: {port}\n"
            f"transport.port: {transport}\nnode.name: test\n"
            "cluster.routing.allocation.disk.threshold_enabled: false\n"
        )
        (directory / "config" / "log4j2.properties").write_text(
            "rootLogger.level = warn\nappender.out.type = Console\nappender.out.name = out\n"
            "appender.out.layout.type = PatternLayout\nrootLogger.appenderRef.out.ref = out\n"
        )

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts the process, and waits until it serves."""
        assert self._process is None
        home = f"-Dopensearch.path.home={self.directory}"
        settings = (home, f"-Dopensearch.path.conf={self.directory}/config")
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *_JAVA,
                    *settings,
                    "-Dopensearch.distribution.type=tar",
                    "-cp",
                    f"{self.directory}/lib/*",
                    "org.opensearch.bootstrap.OpenSearch",
                ],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                preexec_fn=dies_with_its_parent,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            log_text = (self.directory / "server.log").read_text(errors="replace")[-3000:]
            assert self._process.poll() is None, log_text
            try:
                self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=30s")
            except httpx.HTTPError:
                assert time.monotonic() < deadline, log_text
                time.sleep(0.1)
            else:
                return

    def kill(self) -> None:
        """Kills the process as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """Sends a request, and returns the document that answers it."""
        answer = httpx.request(
            method,
            f"http://{self.address}{path}",
            content=None if document is None else json.dumps(document),
            headers={"Content-Type": "application/json"},
            timeout=60,
        )
        answer.raise_for_status()
        return answer.json()

    def documents(self, index: str) -> dict[str, Any]:
        """Returns all documents of an index by their ids."""
        self.ask("POST", f"/{index}/_refresh")
        found = self.ask("GET", f"/{index}/_search?size=10000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in found}
