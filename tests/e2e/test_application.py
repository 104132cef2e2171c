"""`penstock run-application`: a job, its job manager and its page in one process.

What the job wrote is read by plain code, and compared with a calculation by hand.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ha_kit import LEASE, Member, results
from service_kit import PROGRAM, Job, expected, lines, open_gate, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., "Application"]

pytestmark = pytest.mark.e2e

JOB_ID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
END = 6_000
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SUSPENDED = 143
OVERRULED = 75


class Application(Member):
    """`penstock run-application` on a free port."""

    def __init__(
        self, directory: Path, program: Path | str, *arguments: Any, **settings: str
    ) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home),
            "PENSTOCK_CONF_DIR": str(self.home),
        }
        script = program
        if isinstance(program, str):
            script = directory / f"program-{time.monotonic_ns()}.py"
            script.write_text(program)
        options = {
            "penstock.spark.master": "in-process",
            "penstock.epoch.max-records": "500",
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "restart-strategy.type": "none",
            "io.tmp.dirs": str(directory / "tmp"),
            **settings,
        }
        self.command = [PENSTOCK, "run-application", "--port", "0"]
        for key, value in options.items():
            self.command += ["-D", f"{key}={value}"]
        self.command += [str(script), *map(str, arguments)]
        number = len(list(directory.glob("said-*")))
        self.log = directory / f"said-{number}.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    @property
    def url(self) -> str:
        return str(wait_for(self._found_address, self.said))

    def _found_address(self) -> str | None:
        said = self.said()
        assert self.process.poll() is None, said
        return said.partition(" at http")[2] and "http" + said.partition(" at http")[2].split()[0]

    def job(self, job_id: str = JOB_ID) -> Job:
        return Job(self, job_id)

    def code(self) -> int:
        """Waits for the end of the process."""
        return self.process.wait(240)

    def terminate(self) -> int:
        self.process.terminate()
        return self.code()

    def verb(self, *arguments: str) -> str:
        """Runs a verb of the command line against it."""
        done = subprocess.run(
            [PENSTOCK, *arguments, "-m", self.url.removeprefix("http://")],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr, self.said())
        return done.stdout


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Application] = []

    def one(program: Path | str = PROGRAM, *arguments: Any, **settings: str) -> Application:
        if program is PROGRAM and not arguments:
            arguments = (tmp_path, END)
        application = Application(tmp_path, program, *arguments, **settings)
        started.append(application)
        return application

    yield one
    for application in started:
        if application.process.poll() is None:
            application.process.send_signal(signal.SIGCONT)
            application.kill()


def fixed(**settings: str) -> dict[str, str]:
    return {"$internal.pipeline.job-id": JOB_ID, **settings}


def test_a_job_continues_in_the_next_process_until_it_ends(start: Start, tmp_path: Path) -> None:
    open_gate(tmp_path, END // 6)
    first = start(**fixed())
    first.job().wait_for_state("RUNNING")
    first.job().wait_for_checkpoint()
    assert "numbers (RUNNING)" in first.verb("list")
    assert "Savepoint completed" in first.verb("savepoint", JOB_ID, str(tmp_path / "savepoints"))
    assert "to parallelism 2" in first.verb("rescale", "-p", "2", JOB_ID)
    with urllib.request.urlopen(f"{first.url}/health/ready", timeout=30) as reply:
        assert b"leader" in reply.read()
    assert first.terminate() == SUSPENDED
    assert "is suspended" in first.said()

    open_gate(tmp_path, END // 3)
    second = start(**fixed())
    second.job().wait_for_state("RUNNING")
    second.job().wait_for_checkpoint()
    restored = second.job().document("/checkpoints")["latest"]["restored"]
    assert restored is not None
    # The shape that was asked for lasts.
    assert max(each["parallelism"] for each in second.job().document()["vertices"]) == 2
    second.kill()

    open_gate(tmp_path, END)
    third = start(**fixed())
    assert third.code() == 0, third.said()
    assert f"Job with JobID {JOB_ID} has finished." in third.said()
    assert lines(tmp_path) == expected(END)

    # Started once more, as a pod may be: the job has ended, and nothing is run.
    again = start(**fixed())
    assert again.code() == 0
    assert lines(tmp_path) == expected(END)


def test_a_process_that_starts_later_fences_the_earlier_one(start: Start, tmp_path: Path) -> None:
    open_gate(tmp_path, END // 6)
    first = start(**fixed())
    first.job().wait_for_state("RUNNING")
    first.job().wait_for_checkpoint()
    second = start(**fixed())
    second.job().wait_for_state("RUNNING")
    assert first.code() == OVERRULED
    open_gate(tmp_path, END)
    assert second.code() == 0, second.said()
    assert lines(tmp_path) == expected(END)


def test_exit_codes(start: Start, tmp_path: Path) -> None:
    no_job = start("print('nothing to do')")
    fails = start(
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(lambda value: value / 0).print()\n"
        "env.execute('fails')\n"
    )
    assert no_job.code() == 1
    assert "must call env.execute()" in no_job.said()
    assert fails.code() == 1
    assert "ZeroDivisionError" in fails.said()

    open_gate(tmp_path, END // 6)
    cancelled = start(**fixed())
    cancelled.job().wait_for_state("RUNNING")
    cancelled.verb("cancel", JOB_ID)
    assert cancelled.code() == 0
    assert f"Job {JOB_ID} was cancelled." in cancelled.said()

    stopped = start(**fixed(**{"$internal.pipeline.job-id": 32 * "b"}))
    stopped.job(32 * "b").wait_for_checkpoint()
    said = stopped.verb("stop", "-p", str(tmp_path / "savepoints"), 32 * "b")
    assert stopped.code() == 0
    assert "has finished" in stopped.said()
    savepoint = said.partition("Path: ")[2].split()[0]
    open_gate(tmp_path, END)
    again = start(
        **fixed(
            **{"$internal.pipeline.job-id": 32 * "c", "execution.state-recovery.path": savepoint}
        )
    )
    assert again.code() == 0, again.said()
    assert lines(tmp_path) == expected(END)


def test_the_page_stays_if_configured(start: Start, tmp_path: Path) -> None:
    open_gate(tmp_path, END)
    setting = {"execution.shutdown-on-application-finish": "false"}
    application = start(**fixed(**setting))
    application.job().wait_for_state("FINISHED")
    wait_for(lambda: "stays until SIGTERM" in application.said(), application.said)
    assert application.terminate() == 0


def test_commands_that_make_no_sense(start: Start) -> None:
    without_cluster = start(**{"high-availability.type": "filesystem"})
    assert without_cluster.code() == 1
    assert "high-availability.cluster-id is not set" in without_cluster.said()
    wrong_id = start(**{"$internal.pipeline.job-id": "orders"})
    assert wrong_id.code() == 1
    assert "32 hex digits" in wrong_id.said()


# -- high availability ----------------------------------------------------------------------------


def shared(directory: Path, storage: str, **settings: str) -> dict[str, str]:
    token = directory / "token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text("one-for-all-members")
    return {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": f"{storage}/ha",
        "high-availability.cluster-id": "orders",
        "penstock.high-availability.lease-timeout": LEASE,
        "penstock.rest.token-file": str(token),
        "execution.checkpointing.dir": f"{storage}/checkpoints",
        **settings,
    }


@pytest.fixture(params=["directory", "s3"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings that processes of one application share."""
    if request.param == "directory":
        yield shared(tmp_path, str(tmp_path))
        return
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        bucket = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
        urllib.request.urlopen(bucket, timeout=30).close()
        yield shared(
            tmp_path,
            "s3://bucket",
            **{
                "s3.endpoint": endpoint,
                "s3.access-key": "key",
                "s3.secret-key": "secret",
                "s3.region": "us-east-1",
                "s3.path.style.access": "true",
            },
        )
    finally:
        server.stop()


def job_of(application: Application) -> Job:
    """The one job, whose id follows from the cluster id."""

    def found() -> str:
        status, answer = application.ask("/jobs")
        return str(answer["jobs"][0]["id"]) if status == 200 and answer["jobs"] else ""

    return application.job(wait_for(found, application.said))


class Known:
    """Gives an application the token that all share."""

    def __get__(self, application: Application, _kind: Any) -> str:
        return (application.directory / "token").read_text()


def test_another_process_takes_over(
    start: Start, cluster: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story, because processes take seconds to start."""
    monkeypatch.setattr(Application, "token", Known())
    open_gate(tmp_path, END // 6)
    first = start(**cluster)
    wait_for(first.leads, first.said)
    second = start(**cluster)
    wait_for(second.is_standby, second.said)
    job = job_of(first)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    # The standby passes questions on.
    assert job_of(second).job_id == job.job_id
    first.kill()

    wait_for(second.leads, second.said)
    open_gate(tmp_path, END // 3)
    job = job.on(second)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    third = start(**cluster)
    wait_for(third.is_standby, third.said)
    # Asleep for longer than its lease; what it does after that counts nothing.
    second.process.send_signal(signal.SIGSTOP)
    wait_for(third.leads, third.said)
    open_gate(tmp_path, END // 2)
    job = job.on(third)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    second.process.send_signal(signal.SIGCONT)
    assert second.code() == OVERRULED, second.said()

    fourth = start(**cluster)
    wait_for(fourth.is_standby, fourth.said)
    open_gate(tmp_path, END)
    assert third.code() == 0, third.said()
    # The standby leads then, finds the job ended, and runs nothing.
    assert fourth.code() == 0, fourth.said()
    assert "ended before: FINISHED" in fourth.said()
    assert lines(tmp_path) == expected(END)


def test_what_is_recorded_of_ends(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Application, "token", Known())
    settings = shared(tmp_path, str(tmp_path))
    open_gate(tmp_path, END // 6)
    cancelled = start(**settings)
    job = job_of(cancelled)
    job.wait_for_state("RUNNING")
    job.cancel()
    assert cancelled.code() == 0, cancelled.said()
    assert results(tmp_path) == {job.job_id: "CANCELED"}
    again = start(**settings)
    assert again.code() == 0
    assert "ended before: CANCELED" in again.said()

    # Another job under this cluster id is refused while the first one has not ended.
    other = shared(tmp_path, str(tmp_path), **{"high-availability.cluster-id": "others"})
    running = start(**other)
    job_of(running).wait_for_state("RUNNING")
    assert running.terminate() == SUSPENDED
    refused = start(**other, **fixed())
    assert refused.code() == 1
    assert "a cluster id of its own" in refused.said()
