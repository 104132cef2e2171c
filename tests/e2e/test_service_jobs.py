"""Jobs at a real job manager: submitted, savepointed, stopped, cancelled, failing, killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from service_kit import (
    PROGRAM,
    Job,
    Manager,
    expected,
    is_alive,
    lines,
    open_gate,
    wait_for,
)

from penstock.checkpoint.codec import decode_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e
END = 6_000


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    running = Manager(tmp_path_factory.mktemp("service") / "state")
    yield running
    running.kill_all()


def start(manager: Manager, directory: Path, gate: int, **settings: str) -> Job:
    """Starts the job and waits until it has read as far as the gate, and a checkpoint says so."""
    open_gate(directory, gate)
    job = manager.submit(PROGRAM, directory, END, **settings)
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    return job


def test_a_job_is_savepointed_stopped_and_goes_on_from_there(
    manager: Manager, tmp_path: Path
) -> None:
    job = start(manager, tmp_path, 2_000)
    target = str(tmp_path / "savepoints")
    first = job.operation("savepoints", {"target-directory": target})["location"]
    assert (Path(first) / "_metadata").exists()
    assert job.state == "RUNNING"
    # A savepoint is the user's to delete; a checkpoint of a job that runs is not.
    manager.dispose(first)
    assert not Path(first).exists()
    wait_for(
        lambda: any(
            "has not ended and may need it" in manager.dispose(str(path))
            for path in manager.directory.glob(f"checkpoints/{job.job_id}/chk-*")
        ),
        job.trouble,
    )
    last = job.operation("stop", {"targetDirectory": target, "drain": False})["location"]
    assert last != first
    job.wait_for_state("FINISHED")
    wait_for(lambda: (job.directory / "end.json").exists(), job.trouble)
    # What was visible up to the stop is exactly what had been read.
    so_far = sum(lines(tmp_path).values())
    assert lines(tmp_path) == expected(so_far)

    open_gate(tmp_path, END)
    settings = {"execution.state-recovery.path": last}
    after = manager.submit(PROGRAM, tmp_path, END, **settings)
    after.wait_for_state("FINISHED")
    assert after.job_id != job.job_id
    assert lines(tmp_path) == expected(END)


def test_a_killed_process_is_started_again_from_its_latest_checkpoint(
    manager: Manager, tmp_path: Path
) -> None:
    job = start(manager, tmp_path, 1_500)
    number = job.checkpoints()
    first = job.pid()
    for gate in (3_000, 4_500):
        open_gate(tmp_path, gate)
        before = job.pid()
        os.kill(before, signal.SIGKILL)
        wait_for(lambda seen=before: job.pid() != seen, job.trouble)
        job.wait_for_state("RUNNING")
        job.wait_for_checkpoint()
    open_gate(tmp_path, END)
    job.wait_for_state("FINISHED")
    assert job.pid() != first
    # Nothing of the killed attempts is left: neither state nor the unpacked program.
    local = manager.directory.parent / "tmp"
    wait_for(
        lambda: not [*local.glob(f"{job.job_id}*/state"), *job.directory.glob("program-*")],
        job.trouble,
    )
    assert lines(tmp_path) == expected(END)
    document = job.document()
    assert document["restarts"] == 2
    assert document["timestamps"]["RESTARTING"] > 0
    entries = job.document("/exceptions")["exceptionHistory"]["entries"]
    assert "SIGKILL" in entries[0]["stacktrace"]
    # What the killed processes did and how they ended is still there.
    assert len([each for each in entries if "SIGKILL" in each["stacktrace"]]) == 2
    found = job.document("/checkpoints")
    assert found["counts"]["restored"] == 2
    assert {each["leader_epoch"] for each in found["history"]} <= {1, 2, 3}
    assert found["summary"]["end_to_end_duration"]["max"] > 0
    restored = found["latest"]["restored"]
    assert restored["id"] >= number, "ids go on over processes"
    assert restored["is_savepoint"] is False


def test_a_job_is_cancelled_and_its_process_ends(manager: Manager, tmp_path: Path) -> None:
    job = start(manager, tmp_path, 1_000)
    pid = job.pid()
    job.cancel()
    job.wait_for_state("CANCELED")
    wait_for(lambda: not is_alive(pid), job.trouble)
    status, answer = manager.ask(f"/jobs/{job.job_id}/savepoints", {"target-directory": "x"})
    assert status >= 400
    assert "CANCELED" in answer["errors"][0]
    assert job.document()["end-time"] > 0
    log = (job.directory / "log.txt").read_text()
    assert "The job has ended: CANCELED" in log
    assert "ERROR" not in log, "that somebody cancels it is no failure of the program"


ENDLESS = """
import sys, time
from pathlib import Path
from penstock.datastream import StreamExecutionEnvironment

def endless(value):
    Path(sys.argv[1], "reached").touch()
    time.sleep(3600)

def slow(value):
    time.sleep(0.01)
    with open(Path(sys.argv[1], "seen"), "a") as seen:
        print(value, file=seen)
    return value

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(100_000)))
numbers.map(endless if sys.argv[2] == "endless" else slow).print()
env.execute("endless")
"""


def test_a_job_whose_function_does_not_return_is_cancelled(
    manager: Manager, tmp_path: Path
) -> None:
    job = manager.submit(ENDLESS, tmp_path, "endless")
    wait_for((tmp_path / "reached").exists, job.trouble)
    pid = job.pid()
    job.cancel()
    job.wait_for_state("CANCELED")
    wait_for(lambda: not is_alive(pid), job.trouble)
    log = (job.directory / "log.txt").read_text()
    assert "The job has ended: CANCELED" in log, "it was not killed"
    assert "in endless" in log, "what is left behind is told"


def test_a_job_with_a_slow_function_is_stopped(manager: Manager, tmp_path: Path) -> None:
    """A thousand seconds of input: it stops in the middle."""
    job = manager.submit(ENDLESS, tmp_path, "slow")
    job.wait_for_state("RUNNING")
    wait_for((tmp_path / "seen").exists, job.trouble)
    target = str(tmp_path / "savepoints")
    path = job.operation("stop", {"targetDirectory": target, "drain": False})["location"]
    job.wait_for_state("FINISHED")
    assert Path(path, "_metadata").exists()
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert seen == list(range(len(seen)))
    assert len(seen) < 100_000


def test_a_process_that_does_not_obey_a_cancellation_is_killed(
    manager: Manager, tmp_path: Path
) -> None:
    job = start(manager, tmp_path, 1_000, **{"task.cancellation.timeout": "1 s"})
    wait_until_nothing_is_owed(job, 1_000)
    pid = job.pid()
    os.kill(pid, signal.SIGSTOP)
    job.cancel()
    job.wait_for_state("CANCELED")
    wait_for(lambda: not is_alive(pid), job.trouble)
    # It could not clean up, so the job manager has.
    wait_for(lambda: not left_of(job), lambda: f"{left_of(job)}\n{job.trouble()}")


def wait_until_nothing_is_owed(job: Job, gate: int) -> None:
    """A checkpoint whose output may not be visible yet would stay."""

    def latest() -> bool:
        for path in (job.manager.directory / "checkpoints" / job.job_id).glob("chk-*/_metadata"):
            with contextlib.suppress(FileNotFoundError):
                found = decode_manifest(path.read_bytes(), str(path))
                read = [position for _, position in found.sources["numbers"]["assigned"]]
                # One that is written may not be published yet.
                if read == [gate] and not found.owing:
                    return found.checkpoint_id <= job.checkpoints()
        return False

    wait_for(latest, job.trouble)


def left_of(job: Job) -> list[Path]:
    """What a job must not leave when it ends, its checkpoints included.

    A directory that was made just before the process died may be left: there is nothing in it.
    """
    base = job.manager.directory
    local, checkpoints = base.parent / "tmp", base / "checkpoints" / job.job_id
    found = [*local.glob(f"{job.job_id}*"), *job.directory.glob("program-*")]
    return [*found, *checkpoints.glob("chk-*/*"), *checkpoints.glob("shared/*")]


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "deleted"])
def test_checkpoints_of_a_job_whose_process_died_for_the_last_time(
    manager: Manager, tmp_path: Path, is_kept: bool
) -> None:
    policy = "DELETE_ON_CANCELLATION" if is_kept else "NO_EXTERNALIZED_CHECKPOINTS"
    settings = {
        "execution.checkpointing.externalized-checkpoint-retention": policy,
        "restart-strategy.type": "disable",
    }
    job = start(manager, tmp_path, 1_000, **settings)
    if not is_kept:
        wait_until_nothing_is_owed(job, 1_000)
    os.kill(job.pid(), signal.SIGKILL)
    job.wait_for_state("FAILED")
    local = manager.directory.parent / "tmp"
    wait_for(
        lambda: not [*local.glob(f"{job.job_id}*"), *job.directory.glob("program-*")], job.trouble
    )
    if not is_kept:
        wait_for(lambda: not left_of(job), lambda: f"{left_of(job)}\n{job.trouble()}")
        return
    open_gate(tmp_path, END)
    checkpoints = manager.directory / "checkpoints" / job.job_id
    wait_for(lambda: len([*checkpoints.glob("chk-*/*")]) == 1, job.trouble)
    [metadata] = checkpoints.glob("chk-*/_metadata")
    after = manager.submit(
        PROGRAM, tmp_path, END, **{"execution.state-recovery.path": str(metadata.parent)}
    )
    after.wait_for_state("FINISHED")
    assert lines(tmp_path) == expected(END)


def test_the_same_trigger_twice_is_one_operation(manager: Manager, tmp_path: Path) -> None:
    job = start(manager, tmp_path, 1_000)
    target = tmp_path / "savepoints"
    body = {"target-directory": str(target), "triggerId": "0123456789abcdef" * 2}
    places = {job.operation("savepoints", body)["location"] for _ in range(3)}
    assert [str(path) for path in target.iterdir()] == list(places)
    body = {"target-directory": str(target), "cancel-job": True}
    job.operation("savepoints", body)
    job.wait_for_state("CANCELED")


FAILING = {
    "raises": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "ends": ("print('no job here')\n", "without a call of execute()"),
    "exits": ("import sys\nsys.exit(3)\n", "sys.exit(3)"),
    "executes-twice": (
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "for name in ('first', 'second'):\n"
        "    env.from_collection([1]).map(lambda x: 1 // (x - 1)).print()\n"
        "    env.execute_async(name)\n",
        "ZeroDivisionError",
    ),
    "is-no-python": ("def\n", "SyntaxError"),
}


def test_programs_that_fail_say_why(manager: Manager) -> None:
    """All at once: each is a process of its own."""
    plain = {"restart-strategy.type": "disable"}
    jobs = {name: manager.submit(text, **plain) for name, (text, _) in FAILING.items()}
    for name, (_, said) in FAILING.items():
        jobs[name].wait_for_state("FAILED")
        cause = jobs[name].document("/exceptions")["root-exception"]
        assert said in cause, (name, cause)
        log = (jobs[name].directory / "log.txt").read_text()
        for text in (cause, log):
            assert "runpy" not in text, "who ran the program is not what is wrong with it"
            assert "driver_process.py" not in text
    second = (jobs["executes-twice"].directory / "log.txt").read_text()
    assert "a second job, 'second', after 'first'" in second
    assert "no job here" in (jobs["ends"].directory / "log.txt").read_text()


def test_a_program_that_fails_after_its_job_is_told_of(manager: Manager) -> None:
    text = FAILING["executes-twice"][0].replace("execute_async", "execute").replace("(x - 1)", "1")
    job = manager.submit(text)
    job.wait_for_state("FINISHED")
    failure = job.document("/execution-result")["job-execution-result"]["program-failure"]
    assert "a second job, 'second', after 'first'" in failure
    assert "env.execute(name)" in failure
    assert job.document("/exceptions")["root-exception"] == failure


def test_a_second_job_manager_on_the_directory_is_refused(manager: Manager) -> None:
    done = subprocess.run(
        manager.command,
        env=manager.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"another job manager (process {manager.process.pid})" in said
    assert "penstock.jobmanager.directory" in said
    assert "Traceback" not in said
