"""A reactive job on a standalone cluster follows its executors: a worker comes, and goes again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from service_kit import PROGRAM, expected, lines, open_gate, wait_for
from test_application import Application, fixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service_kit import Job

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

HOME = Path(pyspark.__path__[0])
DEPLOY = "org.apache.spark.deploy"
END = 6_000


class Standalone:
    """Spark's master and workers of one core, each a process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._run("master", f"{DEPLOY}.master.Master", "--port", "0", "--webui-port", "0")
        found = wait_for(self._address, lambda: self._said("master"))
        self.address = str(found)

    def _run(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_HOST": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._directory / name),
        }
        with (self._directory / f"{name}.txt").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *command],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _said(self, name: str) -> str:
        return (self._directory / f"{name}.txt").read_text(errors="replace")

    def _address(self) -> str | None:
        found = re.search(r"Starting Spark master at (spark://\S+)", self._said("master"))
        return found[1] if found else None

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        options = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        process = self._run(name, f"{DEPLOY}.worker.Worker", *options, self.address)
        wait_for(
            lambda: "Successfully registered with master" in self._said(name),
            lambda: self._said(name),
        )
        return process

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path)
    yield cluster
    cluster.close()


def parallelism(job: Job) -> int:
    return max(int(each["parallelism"]) for each in job.document()["vertices"])


def shared(job: Job) -> list[dict[str, Any]]:
    """The executors, once two have subtasks of the job."""
    table = job.document()["engine"]["table"]
    return table if len(table) == 2 and all(each["subtasks"] for each in table) else []


def test_workers_come_and_go(standalone: Standalone, tmp_path: Path) -> None:
    standalone.worker("one")
    open_gate(tmp_path, END // 6)
    executing = "jobmanager.adaptive-scheduler.executing"
    settings = {
        "penstock.spark.master": standalone.address,
        "penstock.spark.conf.spark.executor.memory": "512m",
        "penstock.scheduler": "reactive",
        f"{executing}.resource-stabilization-timeout": "1 s",
        f"{executing}.cooldown-after-rescaling": "1 s",
        "execution.checkpointing.interval": "500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "200 ms",
    }
    application = Application(tmp_path, PROGRAM, tmp_path, END, **fixed(**settings))
    try:
        job = application.job()
        job.wait_for_state("RUNNING")
        job.wait_for_checkpoint()
        assert parallelism(job) == 1

        second = standalone.worker("two")
        wait_for(lambda: parallelism(job) == 2, job.trouble)
        # Each has its share of the subtasks, and what they hold.
        table = wait_for(lambda: shared(job), job.trouble)
        assert [each["slots"] for each in table] == [1, 1]
        assert len(application.call("/taskmanagers")["taskmanagers"]) == 2
        open_gate(tmp_path, END // 3)
        job.wait_for_checkpoint()

        # With its executor, and the state that is there.
        os.killpg(second.pid, signal.SIGKILL)
        wait_for(lambda: parallelism(job) == 1, job.trouble)
        open_gate(tmp_path, END)
        assert application.code() == 0, application.said()
    finally:
        if application.process.poll() is None:
            application.kill()
    assert lines(tmp_path) == expected(END)
