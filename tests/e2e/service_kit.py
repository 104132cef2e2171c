"""A real job manager in a process of its own, and a client that knows nothing but HTTP."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).with_name("service_job.py")
KEYS = 7


def wait_for(found: Callable[[], Any], what: Callable[[], str], seconds: float = 400) -> Any:
    """Polls until `found` returns something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(what())


class Manager:
    """`penstock jobmanager` on a free port."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.home = directory.parent / "home"
        self.home.mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home),
            "PENSTOCK_CONF_DIR": str(self.home),
        }
        self.log = directory.parent / f"manager-{time.monotonic_ns()}.txt"
        options = {
            "penstock.jobmanager.directory": str(directory),
            "penstock.spark.master": "in-process",
            "penstock.epoch.max-records": "500",
            "execution.checkpointing.interval": "50 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "50 ms",
            "io.tmp.dirs": str(directory.parent / "tmp"),
            **settings,
        }
        self.command = [
            str(Path(sys.executable).with_name("penstock")),
            "jobmanager",
            "--port",
            "0",
        ]
        for key, value in options.items():
            self.command += ["-D", f"{key}={value}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        self.url = wait_for(self._address, self.said)

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.said()
        match = re.search(r"job manager at (http://\S+),", self.said())
        return match[1] if match else None

    @property
    def token(self) -> str:
        port = self.url.rpartition(":")[2]
        return (self.home / "penstock" / f"rest-{port}.token").read_text().strip()

    def said(self) -> str:
        # It may be in the middle of a character.
        return self.log.read_text(errors="replace")

    def stop(self) -> str:
        """Ends it kindly; returns what it has said."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(240) == 0, self.said()
        return self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def kill_all(self) -> None:
        """Leaves nothing behind: drivers outlive their job manager."""
        if self.process.poll() is None:
            self.kill()
        # Also one that has just been started, and has not written its number yet.
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if is_driver(pid, self.directory):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        status, answer = self.ask(path, body, method)
        assert status < 300, (path, status, answer)
        return answer

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.url}/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def dispose(self, path: str) -> str:
        """Disposes of a savepoint; returns what went wrong."""
        asked = self.call("/savepoint-disposal", {"savepoint-path": path})["request-id"]

        def done() -> tuple[str] | None:
            status, answer = self.ask(f"/savepoint-disposal/{asked}")
            if status >= 400:
                return (answer["errors"][0],)
            if answer["status"]["id"] != "COMPLETED":
                return None
            return (json.dumps(answer["operation"].get("failure-cause", "")),)

        return str(wait_for(done, self.said)[0])

    # -- jobs -----------------------------------------------------------------------------------

    def submit(self, program: Path | str, *arguments: Any, **settings: str) -> Job:
        """Submits a program, given as a file or as its text."""
        packed = io.BytesIO()
        name = program.name if isinstance(program, Path) else "program.py"
        text = program.read_text() if isinstance(program, Path) else program
        with zipfile.ZipFile(packed, "w") as package:
            package.writestr(name, text)
        answer = self.call(
            "/jobs",
            {
                "program": name,
                "arguments": [str(each) for each in arguments],
                "configuration": settings,
                "package": base64.b64encode(packed.getvalue()).decode(),
            },
        )
        return Job(self, answer["jobid"])


class Job:
    """A job of a manager, as its files and the REST interface show it."""

    def __init__(self, manager: Manager, job_id: str) -> None:
        self.manager = manager
        self.job_id = job_id
        self.directory = manager.directory / "jobs" / job_id

    def on(self, manager: Manager) -> Job:
        """The same job at another job manager."""
        return Job(manager, self.job_id)

    def document(self, name: str = "") -> Any:
        return self.manager.call(f"/jobs/{self.job_id}{name}")

    @property
    def state(self) -> str:
        return str(self.document()["state"])

    def pid(self) -> int:
        """Process of the present attempt."""

        def known() -> int:
            path = self.directory / "process.json"
            return int(json.loads(path.read_text()).get("pid", 0)) if path.exists() else 0

        return int(wait_for(known, self.trouble))

    def trouble(self) -> str:
        log = self.directory / "log.txt"
        said = log.read_text(errors="replace")[-4000:] if log.exists() else ""
        return f"{self.manager.said()[-3000:]}\n{said}"

    def wait_for_state(self, state: str) -> None:
        ends = {"FINISHED", "FAILED", "CANCELED"}

        def reached() -> bool:
            status, answer = self.manager.ask(f"/jobs/{self.job_id}")
            # Of several job managers none may lead for a moment.
            assert status in (200, 503), (status, answer)
            now = answer.get("state")
            assert now == state or now not in ends, f"{now}\n{self.trouble()}"
            return bool(now == state)

        wait_for(reached, self.trouble)

    def checkpoints(self) -> int:
        """Number of the latest completed checkpoint; 0 before the first one."""

        def told() -> tuple[int] | None:
            status, found = self.manager.ask(f"/jobs/{self.job_id}/checkpoints")
            if status == 503:
                return None
            latest = found["latest"]["completed"] if status == 200 else None
            return (0 if latest is None else int(latest["id"]),)

        return int(wait_for(told, self.trouble)[0])

    def wait_for_checkpoint(self) -> None:
        """Waits for a new one."""
        before = self.checkpoints()
        wait_for(lambda: self.checkpoints() > before, self.trouble)

    def operation(self, path: str, body: Any) -> Any:
        """Triggers something and waits for its end."""
        asked = self.manager.call(f"/jobs/{self.job_id}/{path}", body)["request-id"]
        poll = "savepoints" if path == "stop" else path

        def done() -> Any:
            answer = self.manager.call(f"/jobs/{self.job_id}/{poll}/{asked}")
            return answer if answer["status"]["id"] == "COMPLETED" else None

        return wait_for(done, self.trouble)["operation"]

    def cancel(self) -> None:
        self.manager.call(f"/jobs/{self.job_id}?mode=cancel", {}, "PATCH")


def is_driver(pid: int, directory: Path) -> bool:
    """Whether a process is a driver of the job manager of this directory."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "penstock.job.driver_process" in command and any(
        argument.startswith(f"{directory}/jobs/") for argument in command
    )


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def open_gate(directory: Path, number: int) -> None:
    """Lets the source read so far."""
    draft = directory / "gate.new"
    draft.write_text(str(number))
    draft.rename(directory / "gate")


def lines(directory: Path) -> Counter[str]:
    """All records that a reader sees: hidden files are no output."""
    files = [path for path in (directory / "out").rglob("*") if path.is_file()]
    seen = [path for path in files if not path.name.startswith((".", "_"))]
    return Counter(line for path in seen for line in path.read_text().splitlines())


def expected(end: int) -> Counter[str]:
    """What the job writes for 0 … end-1, by hand."""
    return Counter(f"{value % KEYS},{value // KEYS + 1},{value}" for value in range(end))
