"""On one machine workers import what the program imports: the modules beside its script."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

HELPERS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Place:
    x: int

def twice(place):
    return Place(2 * place.x)
"""

MAIN = """
from helpers import Place, twice
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

configuration = Configuration().set_string("penstock.spark.master", "local[1]")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
places = env.from_collection([Place(1), Place(2), Place(2)])
stream = places.map(twice).key_by(lambda place: place).map(lambda place: place.x)
print(sorted(stream.execute_and_collect()))
"""


def test_a_script_with_a_module_beside_it(tmp_path: Path) -> None:
    """Records, keys and functions of the module; started from another directory."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "helpers.py").write_text(HELPERS)
    (tmp_path / "app" / "main.py").write_text(MAIN)
    done = subprocess.run(
        [sys.executable, "app/main.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[0] == "[2, 4, 4]"
