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
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[0] == "[2, 4, 4]"


SCRIPT = """
from dataclasses import dataclass

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor


@dataclass(frozen=True)
class Place:
    x: int


class Total:
    def __init__(self, sum):
        self.sum = sum


class Sums(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        held = self.total.value() or Total(0)
        self.total.update(Total(held.sum + value.x))
        yield self.total.value()


def main():
    class Local:
        def __init__(self, x):
            self.x = x

    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "local[2]")
    configuration.set_string("penstock.epoch.max-records", "2")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    stream = (
        env.from_collection([Place(1), Place(2), Place(2), Place(2)])
        .rebalance()
        .map(lambda place: Place(place.x * 10))
        .key_by(lambda place: place)
        .process(Sums())
        .rebalance()
        .map(lambda total: Local(total.sum))
        .key_by(lambda local: local.x > 10)
        .reduce(lambda one, two: Local(one.x + two.x))
    )
    found = list(stream.execute_and_collect())
    print(type(found[0]) is Local, max(local.x for local in found))


main()
"""


def test_classes_of_the_script_itself(tmp_path: Path) -> None:
    """As records, keys and state; also classes of a function's body. 20 + 40 + 60 = 120."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[0] == "True 120"
