"""A base is merged stretch by stretch, so that no checkpoint has to upload much of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.rocksdb.fold import MOST_LAYERS, stretch_cuts, stretches_to_compact
from penstock.state.rocksdb.rows import TIMER_PREFIX, group_start

if TYPE_CHECKING:
    from penstock.state.keyed import KeyedState

pytest.importorskip("rocksdict")

UPPER, LOWER = True, False


def test_ranges_of_key_groups_are_cut_evenly() -> None:
    assert stretch_cuts(64, 127, 4) == [*map(group_start, (80, 96, 112)), TIMER_PREFIX]
    assert stretch_cuts(5, 6, 16) == [group_start(6), TIMER_PREFIX]
    assert stretch_cuts(5, 5, 16) == [TIMER_PREFIX]


def test_one_stretch_is_merged_once_much_lies_above() -> None:
    below = [(number, LOWER, 100) for number in range(4)]
    assert stretches_to_compact(below) == []
    assert stretches_to_compact([*below, *((number, UPPER, 50) for number in range(4))]) == []
    above = [(0, UPPER, 50), (1, UPPER, 50), (1, UPPER, 20), (2, UPPER, 50), (3, UPPER, 50)]
    assert stretches_to_compact([*below, *above]) == [1]


def test_more_are_merged_where_more_lies_above_than_below() -> None:
    files = [(0, LOWER, 100), (0, UPPER, 60), (1, UPPER, 80), (2, UPPER, 30), (2, UPPER, 60)]
    # 230 above 100; the two largest leave 60.
    assert stretches_to_compact(files) == [2, 1]


def test_layers_are_few_however_small() -> None:
    large = [(number, LOWER, 1_000_000) for number in range(3)]
    deep = [(2, UPPER, 1)] * (MOST_LAYERS + 1)
    assert stretches_to_compact([*large, (0, UPPER, 1000), *deep]) == [2]
    assert stretches_to_compact([*large, (0, UPPER, 1000), *deep[1:]]) == []


def make(area: FileArea) -> KeyedState:
    backend = create_backend("rocksdb", replay_bytes=100_000, fold_slice_ms=60_000)
    return backend.create_state(0, 127, 128, area, EpochClock(), "op")


def wait_for_compaction() -> None:
    for thread in threading.enumerate():
        if thread.name == "penstock-compaction":
            thread.join()


def test_a_fold_brings_few_new_bytes(tmp_path: Path) -> None:
    """What a checkpoint uploads follows the changes, also where RocksDB merges its files.

    Each fold takes the changes of two commits, a sixteenth of the state. They are written, and one
    stretch of sixteen is merged: what it has below, and as much again above. That makes three.
    """
    area = FileArea(tmp_path, 0)
    state = make(area)
    chance = random.Random(1)
    keys = 8_000
    changed = range(keys)
    known: set[str] = set()
    new_bytes: list[int] = []
    for number in range(140):
        for key in changed:
            state.value_table("v").put(key, None, chance.randbytes(1000))
        changed = chance.sample(range(keys), keys // 32)
        version = state.commit(f"v{number}")
        files = {file.sha256: file.size_bytes for file in version.base}
        if files.keys() - known:
            new_bytes.append(sum(files[each] for each in files.keys() - known))
        known = set(files)
        wait_for_compaction()
    total = sum(file.size_bytes for file in version.files)
    assert len(new_bytes) == 70
    assert 1_000 * keys < total < 2_000 * keys
    assert max(new_bytes[1:]) < 1_000 * keys * 4 / 16
    fresh = make(area)
    fresh.restore((version,))
    assert len(list(fresh.entries())) == keys
    for key in changed[:100]:
        assert fresh.value_table("v").get(key) == state.value_table("v").get(key)
    fresh.close()
    state.close()


def test_an_error_of_a_compaction_is_heard_by_the_next_fold(tmp_path: Path) -> None:
    state = make(FileArea(tmp_path, 0))
    folds, chance = 0, random.Random(1)
    with pytest.raises(Exception, match="Corruption"):
        for number in range(9):
            for key in range(2000):
                state.value_table("v").put(key, None, chance.randbytes(1000))
            folds += not state.commit(f"v{number}").deltas
            wait_for_compaction()
            if folds == 1:
                for path in tmp_path.glob("*.sst"):
                    with path.open("r+b") as file:
                        file.seek(path.stat().st_size // 2)
                        file.write(b"damage")
    assert folds == 2, "the second one's files lie above the first one's"
    state.close()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_state_closes_while_it_is_compacted(tmp_path: Path) -> None:
    for number in range(4):
        state = make(FileArea(tmp_path / str(number), 0))
        for commit in range(4):
            for key in range(2000):
                state.value_table("v").put(key, None, random.Random(key).randbytes(1000))
            version = state.commit(f"v{commit}")
        state.close()
        assert {path.name for path in (tmp_path / str(number)).iterdir()} >= {
            file.name for file in version.files if file.inline is None
        }
        assert all(path.is_file() for path in (tmp_path / str(number)).iterdir())


NO_DIRECTORY = """
import shutil, sys
from pathlib import Path
from test_stretches import EpochClock, FileArea, create_backend, wait_for_compaction
from tiny_limits import TINY_LIMITS
backend = create_backend("rocksdb", **TINY_LIMITS["rocksdb"])
state = backend.create_state(0, 127, 128, FileArea(Path(sys.argv[1]), 0), EpochClock(), "op")
try:
    for number in range(90):
        for key in range(50):
            state.value_table("v").put((number, key), None, b"x" * 100)
        state.commit(f"v{number}")
        wait_for_compaction()
        if number == 60:
            [log] = Path(sys.argv[1]).glob("*/LOG")
            assert log.stat().st_blocks * 512 < 50_000
            shutil.rmtree(sys.argv[1])
except Exception as error:
    print(repr(error))
state.close()
"""


def test_files_that_are_gone_are_an_error_and_crash_no_process(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", NO_DIRECTORY, str(tmp_path / "area")],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "No such file or directory" in run.stdout


MANY_FILES = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from test_stretches import FileArea, make, random
state = make(FileArea(Path(sys.argv[1]), 0))
for number in range(20):
    for key in range(4000 if number == 0 else 1000):
        state.value_table("v").put(key, None, random.randbytes(1000))
    version = state.commit(f"v{number}")
assert len(version.base) > 64, version.base
state.close()
"""


def test_files_of_a_state_may_be_more_than_a_process_opens_by_default(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", MANY_FILES, str(tmp_path)], cwd=Path(__file__).parent, check=True
    )
