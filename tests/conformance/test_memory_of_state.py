"""The rocksdb backend keeps its memory bounded, whatever the state."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("rocksdict")

PROGRAM = """
import sys

from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.descriptors import (
    ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor,
)


def peak():
    # VmHWM belongs to this program; ru_maxrss would start at the parent's.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def make():
    backend = create_backend("rocksdb", memory_bytes=8 << 20, block_cache_bytes=4 << 20)
    return backend.create_state(0, 127, 128, FileArea(sys.argv[1]), EpochClock(), "op")


KEYS, EPOCH, FILLER = 60_000, 2_000, 1_000
state = make()
value = state.get_state(ValueStateDescriptor("v"))
entries = state.get_state(MapStateDescriptor("m"))
elements = state.get_state(ListStateDescriptor("l"))
state.restore(())
start = peak()
for first in range(0, KEYS, EPOCH):
    keys = range(first, first + EPOCH)
    state.prefetch(keys)
    for key in keys:
        state.key = key
        value.update(str(key) * FILLER)
        state.key = "one key with a huge map"
        entries.put(key, str(key) * 100)
        state.key = "one key with a huge list"
        elements.add(key)
    version = state.commit(f"v{first}")
total = sum(handle.size_bytes for handle in version.files)
for first in range(0, KEYS, 500):
    keys = range(first, first + 500)
    state.prefetch(keys)
    for key in keys:
        state.key = key
        assert value.value() == str(key) * FILLER
state.key = "one key with a huge map"
assert sum(1 for _ in entries.items()) == KEYS
assert entries.get(777) == "777" * 100
state.commit("last")
print(peak() - start, total)
"""


def test_memory_does_not_grow_with_the_state(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    grown, _ = map(int, run.stdout.split())
    # 60,000 values of 1,000 to 5,000 bytes: 300 MB of objects behind a bound of 8 MB; what comes on
    # top is the epoch itself (10 MB), the fold's rows and RocksDB, together some 95 MB.
    assert grown < 160 << 20, f"{grown:,} bytes"
