"""What keeps Spark from starting is said in a sentence."""

from __future__ import annotations

import subprocess
import sys

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
