"""A real MariaDB server in a process of its own: loopback, a private directory, no password.

with Server() as server:
    server.execute("CREATE TABLE words (word text, count int)")
"""

from __future__ import annotations

import os
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
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "16M",
    "innodb-flush-log-at-trx-commit": "2",  # It is the process that dies here, not the machine.
    "innodb-log-file-size": "16M",
    "max-allowed-packet": "4M",
    "max-connections": "40",
}
_USERS = """\
CREATE DATABASE IF NOT EXISTS shop;
CREATE USER IF NOT EXISTS penstock@localhost;
GRANT ALL ON *.* TO penstock@localhost WITH GRANT OPTION;
"""


def program() -> str | None:
    """Returns the server: Debian keeps it out of PATH of users."""
    return shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")


def missing() -> str:
    """Returns why there can be no server here, or "" if it is installed now."""
    if program() is None:
        subprocess.run([ROOT / "tools" / "install_mariadb.sh"], check=False)
    if program() is None:
        return "no MariaDB; install it (Debian, Ubuntu: apt-get install mariadb-server)"
    return ""


class Server:
    """One server; it can be killed and started again with its data."""

    def __init__(self, **settings: str) -> None:
        self._settings = {**_SETTINGS, **settings}
        (self.port,) = free_ports(1)
        self.url = f"jdbc:mariadb://127.0.0.1:{self.port}/shop"
        # The path of a socket must be short.
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-mariadb-", dir="/tmp"))
        self._common = ["--no-defaults", f"--datadir={self.directory}/data"]
        if os.getuid() == 0:
            self._common.append("--user=root")
        (self.directory / "users.sql").write_text(_USERS)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        made = self._run(
            "mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db"
        )
        assert made.wait() == 0, self._log()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [name, *self._common, *arguments], stdout=log, stderr=log, cwd="/"
            )

    def _log(self) -> str:
        return (self.directory / "server.log").read_text(errors="replace")[-3000:]

    def start(self) -> None:
        """Starts the process, and waits until it serves."""
        assert self._process is None
        found = program()
        assert found is not None
        self._process = self._run(
            found,
            *(f"--{key}={value}" for key, value in self._settings.items()),
            f"--port={self.port}",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/pid",
            f"--init-file={self.directory}/users.sql",
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, self._log()
            try:
                self.execute("SELECT 1")
            except Exception:
                assert time.monotonic() < deadline, self._log()
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Ends all connections and the process at once."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def connect(self) -> Any:
        """Returns a connection of PyMySQL's."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="penstock", database="shop", autocommit=True
        )

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs a statement of PyMySQL's, and returns its rows."""
        if self._connection is None or not self._connection.open:
            self._connection = self.connect()
        cursor = self._connection.cursor()
        cursor.execute(sql, parameters or None)
        return list(cursor.fetchall())
