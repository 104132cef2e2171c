"""What keeps Spark from starting is said in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

configuration = Configuration().set_string("penstock.spark.master", "locall[2]")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_collection([1]).print()
env.execute()
"""


def test_a_master_that_is_none() -> None:
    """In a process of its own, since this one may have a session already."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=280, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "Spark did not start with penstock.spark.master: locall[2]: Could not parse" in last
    assert "in-process runs a job without Spark" in last


QUICK = """
import sys
from pyspark import SparkContext
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

configuration = Configuration().set_string("penstock.spark.master", "local[1]")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_collection([1, 2]).key_by(lambda x: x).map(lambda x: x + 1).print()
env.execute()
assert "pandas" not in sys.modules
with open(f"/proc/{SparkContext._gateway.proc.pid}/maps") as maps:
    print("archive", ".jsa" in maps.read().replace("classes.jsa", "").replace("nocoops", ""))
"""


def started(cache: Path) -> tuple[list[str], str]:
    """Runs a program whose archives are in a directory; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", QUICK],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )
    return done.stdout.splitlines(), done.stderr


def test_a_java_starts_from_an_archive_of_classes(tmp_path: Path) -> None:
    """The first has it made, the next uses it, and one that is damaged does no harm."""
    archives = tmp_path / "penstock"
    assert started(tmp_path) == (["2", "3", "archive False"], "")
    while not list(archives.glob("*.jsa")):
        assert list(archives.glob("*.making")), "the process that makes it has failed"
        time.sleep(0.1)
    assert started(tmp_path) == (["2", "3", "archive True"], "")
    (archive,) = archives.glob("*.jsa")
    archive.unlink()
    archive.write_bytes(b"no archive")
    assert started(tmp_path) == (["2", "3", "archive False"], "")
