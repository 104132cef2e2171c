"""Processes of Spark's that die are named, and a job survives that of the JVM.

Each program has a process of its own.

Large records and functions that emit much do not make them die, with little memory.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

START = """
import os, signal, sys
from pathlib import Path
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment

settings = {"penstock.spark.master": "local[2]"}
settings.update(each.split("=", 1) for each in sys.argv[2:])
configuration = Configuration()
for key, value in settings.items():
    configuration.set_string(key, value)
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(2)
marker = Path(sys.argv[1], "died")
"""

DYING = """
def kill_once(number):
    if number == 700 and not marker.exists():
        marker.touch()
        daemon = Path(f"/proc/{os.getppid()}/status").read_text()
        [jvm] = [line.split()[1] for line in daemon.splitlines() if line.startswith("PPid")]
        os.kill(int(jvm), signal.SIGKILL)
    return number

numbers = env.from_sequence(1, 3000).map(kill_once)
print(sum(numbers.execute_and_collect()))
"""

DYING_WORKER = """
numbers = env.from_sequence(1, 10).map(lambda number: os.kill(os.getpid(), signal.SIGKILL))
numbers.print()
env.execute()
"""

FROZEN_EXECUTOR = """
def freeze_once(number):
    if number == 700 and not marker.exists():
        daemon = Path(f"/proc/{os.getppid()}/status").read_text()
        [jvm] = [line.split()[1] for line in daemon.splitlines() if line.startswith("PPid")]
        marker.touch()
        os.kill(int(jvm), signal.SIGSTOP)
    return number

numbers = env.from_sequence(1, 3000).map(freeze_once).rebalance().map(lambda number: number)
print(sum(numbers.execute_and_collect()))
"""

LARGE = """
MEGABYTE = 1 << 20
sizes = (
    env.from_sequence(1, 400)
    .map(lambda number: (number % 7, os.urandom(MEGABYTE)))
    .key_by(lambda pair: pair[0])
    .map(lambda pair: len(pair[1]))
)
print(sum(sizes.execute_and_collect()) // MEGABYTE)
"""

MANY = """
counts = (
    env.from_collection([1, 2])
    .flat_map(lambda number: ((at % 10, "x" * 200) for at in range(300_000)))
    .key_by(lambda pair: pair[0])
    .map(lambda pair: 1)
    .key_by(lambda one: 0)
    .reduce(lambda left, right: left + right)
    .filter(lambda total: total == 600_000)
)
print(*counts.execute_and_collect())
"""


def run(program: str, directory: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    given = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
    script = directory / "program.py"
    script.write_text(START + program)
    return subprocess.run(
        [sys.executable, str(script), str(directory), *given],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_a_job_goes_on_in_a_new_jvm(tmp_path: Path) -> None:
    done = run(
        DYING,
        tmp_path,
        execution__checkpointing__interval="50 ms",
        execution__checkpointing__dir=f"{tmp_path}/checkpoints",
        **{"restart-strategy__type": "fixed-delay", "restart-strategy__fixed-delay__delay": "0 s"},
    )
    assert done.stdout.split() == [str(3000 * 3001 // 2)], done.stderr
    assert "Spark's JVM died in epoch" in done.stderr
    assert "move at most 64 MB" in done.stderr


def test_a_lost_jvm_is_named(tmp_path: Path) -> None:
    done = run(DYING, tmp_path, **{"restart-strategy__type": "none"})
    assert done.returncode == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("penstock.core")]
    assert "Spark's JVM died in epoch" in said
    assert "something killed it" in said
    assert "It has 1g of heap" in said
    assert "penstock.spark.conf.spark.driver.memory" in said
    assert "penstock.epoch.max-bytes" in said


def test_a_lost_worker_is_named(tmp_path: Path) -> None:
    done = run(DYING_WORKER, tmp_path, **{"restart-strategy__type": "none"})
    assert done.returncode == 1
    assert "a Python worker died in epoch 1, each time that its task was tried" in done.stderr


def test_an_epoch_without_state_is_run_again_if_an_executor_is_lost(tmp_path: Path) -> None:
    """Spark itself would wait for what the executor had to send, until its host ends it."""
    spark = "penstock__spark__conf__spark__"
    done = run(
        FROZEN_EXECUTOR,
        tmp_path,
        penstock__spark__master="local-cluster[2,1,1024]",
        **{
            f"{spark}executor__memory": "512m",
            f"{spark}executor__heartbeatInterval": "1s",
            f"{spark}network__timeout": "4s",
            f"{spark}network__timeoutInterval": "1s",
            f"{spark}shuffle__io__connectionTimeout": "1h",
            "restart-strategy__type": "none",
        },
    )
    assert done.stdout.split() == [str(3000 * 3001 // 2)], done.stderr
    assert "no state that only they had, so it is run again" in done.stderr


@pytest.mark.parametrize(("program", "expected"), [(LARGE, "400"), (MANY, "600000")])
def test_a_small_jvm_carries_much(program: str, expected: str, tmp_path: Path) -> None:
    done = run(
        program,
        tmp_path,
        penstock__spark__conf__spark__driver__memory="512m",
        **{"restart-strategy__type": "none"},
    )
    assert done.stdout.split() == [expected], done.stderr
