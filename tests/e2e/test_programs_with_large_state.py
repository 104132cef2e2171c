"""State larger than the memory of its process: `rocksdb` goes on where `hashmap` cannot."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

# 240 MB of values and as much again while they change; the limit leaves 320 MB for all of it.
PROGRAM = """
import resource
import sys

from penstock.common import Configuration
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

backend, folder = sys.argv[1:]
KEYS, SIZE = 60_000, 4_000


class Count(KeyedProcessFunction):
    def open(self, context):
        self.state = context.get_state(ValueStateDescriptor("state"))

    def process_element(self, value, context):
        before = self.state.value()
        if before is None:
            self.state.update((1, str(value % 10) * SIZE))
        else:
            count, text = before
            assert text == str(value % 10) * SIZE
            yield count + 1


configuration = Configuration()
for key, value in {
    "penstock.spark.master": "in-process",
    "penstock.epoch.max-records": "2000",
    "state.backend.type": backend,
    "state.backend.rocksdb.memory.fixed-per-slot": "16 mb",
    "io.tmp.dirs": folder,
}.items():
    configuration.set_string(key, value)
env = StreamExecutionEnvironment.get_execution_environment(configuration)
numbers = env.from_sequence(0, 2 * KEYS - 1).map(lambda number: number % KEYS)
counts = numbers.key_by(lambda key: key).process(Count()).map(lambda count: (0, count))

import pyarrow  # Loaded before the limit: it is for the state.
import rocksdict

with open("/proc/self/status") as status:
    data = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (data + (320 << 20),) * 2)
print(sum(count for _, count in counts.execute_and_collect()))
"""


def run(backend: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, backend, str(folder)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_rocksdb_needs_little_memory(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    done = run("rocksdb", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["120000"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_the_limit_bites(tmp_path: Path) -> None:
    done = run("hashmap", tmp_path)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr
