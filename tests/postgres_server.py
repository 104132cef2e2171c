"""A real PostgreSQL server in processes of its own: loopback, a private directory, no password.

    with Server() as server:
        server.execute("CREATE TABLE words (word text, count int)")

PostgreSQL refuses to run as root; then it runs as the user `postgres` that Debian's package makes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from zookeeper_quorum import free_ports

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 120
_SETTINGS = {
    "fsync": "off",  # It is the processes that die here, not the machine.
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "unix_socket_directories": "",
}


def binaries() -> Path | None:
    """Returns where PostgreSQL's programs are: Debian keeps them out of PATH."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists()), None)


def missing() -> str:
    """Returns why there can be no server here, or "" if it is installed now."""
    if binaries() is None:
        subprocess.run([ROOT / "tools" / "install_postgresql.sh"], check=False)
    if binaries() is None:
        return "no PostgreSQL; install it (Debian, Ubuntu: apt-get install postgresql)"
    try:
        _account()
    except KeyError:
        return "PostgreSQL refuses to run as root, and there is no user 'postgres'"
    return ""


def _account() -> dict[str, Any]:
    """Returns as whom the server runs."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class Server:
    """One server; it can be killed and started again with its data."""

    def __init__(self) -> None:
        programs = binaries()
        assert programs is not None
        self._programs = programs
        (self.port,) = free_ports(1)
        self.url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"
        # Not below pytest's directories, into which another user cannot look.
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-", dir="/tmp"))
        self._account = _account()
        if self._account:
            os.chown(self.directory, self._account["user"], self._account["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        self._run("initdb", "-A", "trust", "-U", "penstock", "-E", "UTF8", "--no-sync").wait()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, "-D", self.directory / "data", *arguments],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._account,
            )

    def start(self) -> None:
        """Starts the processes, and waits until they serve."""
        assert self._process is None
        settings = [f"-c{key}={value}" for key, value in _SETTINGS.items()]
        self._process = self._run("postgres", "-p", str(self.port), *settings)
        deadline = time.monotonic() + START_SECONDS
        while True:
            log = (self.directory / "server.log").read_text(errors="replace")[-3000:]
            assert self._process.poll() is None, log
            try:
                self.execute("SELECT 1")
            except Exception:
                assert time.monotonic() < deadline, log
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Ends all connections and processes at once, without a checkpoint of the server's."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            # SIGQUIT: the children go with their parent, which SIGKILL would leave behind.
            self._process.send_signal(3)
            self._process.wait()
            self._process = None

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs a statement of psycopg's, and returns its rows."""
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                host="127.0.0.1", port=self.port, user="penstock", dbname="postgres",
                autocommit=True,
            )  # fmt: skip
        cursor = self._connection.execute(sql, parameters or None)
        return [] if cursor.description is None else cursor.fetchall()
