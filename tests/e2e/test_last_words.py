"""A program that ends without having run all of it says so, in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

BEGIN = """
import threading
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
configuration = Configuration().set_string("penstock.spark.master", "in-process")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
"""
FAILS = "env.from_collection([0]).map(lambda x: 1 // x).print()\n"
WAITS = "env.from_collection([0]).map(lambda x: threading.Event().wait()).print()\n"

# From the end of the main thread on, executors of the standard library take no more work.
LINGERS = """
import time
from penstock.datastream.connectors import PythonSource

class Ticks(PythonSource):
    def splits(self):
        return ["a"]

    def read(self, split, start, end):
        return [start]

def linger():
    threading.main_thread().join()
    last = client.last_epoch
    while client.last_epoch < last + 20 and client.exception() is None:
        time.sleep(0.01)

env.enable_checkpointing(10)
env.add_source(Ticks()).filter(lambda x: time.sleep(0.01)).print()
client = env.execute_async()
threading.Thread(target=linger).start()
"""


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (FAILS, 0, ["never ran: the program ended without env.execute()"]),
        ("env.from_collection([0])\n", 0, ["'Collection Source' never ran"]),
        (FAILS + "raise SystemError('mine')\n", 1, ["SystemError: mine"]),
        (
            FAILS + "client = env.execute_async()\nclient._wait_quietly()\n",
            0,
            ["failed: ZeroDivisionError: integer division or modulo by zero, in operator 'Map'"],
        ),
        (WAITS + "env.execute_async()\n", 0, ["The program ended before job"]),
        (LINGERS, 0, ["checkpoints are kept in this process", "The program ended before job"]),
        ("env.from_collection([0]).print()\nenv.execute()\n", 0, []),
    ],
)
def test_last_words(tmp_path: Path, program: str, code: int, said: list[str]) -> None:
    (tmp_path / "program.py").write_text(BEGIN + program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith((" ", "Trace"))]
    assert len(lines) == len(said), done.stderr
    assert all(part in line for part, line in zip(said, lines, strict=True)), done.stderr


def test_a_run_without_a_job_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(BEGIN + FAILS)
    penstock = str(Path(sys.executable).with_name("penstock"))
    done = subprocess.run(
        [penstock, "run", "-t", "local", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 1
    assert done.stderr == "error: the program ended without a job; it must call env.execute().\n"
