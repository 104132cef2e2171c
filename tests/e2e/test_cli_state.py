"""`state`, `verify` and `check-restore` on savepoints of a real job; the figures are a hand's.

The job adds up 0, 1, 2 … by customer: `ann` has the even numbers, `bob` the odd ones, and from 100
on `cyd` has all. The first savepoint comes after 0 … 99, the second one after 100 … 119.
"""

from __future__ import annotations

import csv
import io
import json
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.main import run
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


class Gate:
    """How far the source may read, and how far the job has got; of this process."""

    end = 100
    seen = 0
    has_seen = threading.Condition()

    @classmethod
    def wait_for(cls, number: int) -> None:
        with cls.has_seen:
            assert cls.has_seen.wait_for(lambda: cls.seen >= number, timeout=240)


class Numbers(PythonSource):
    bounded = False

    def splits(self) -> list[str]:
        return ["0"]

    def latest_offset(self, split: str) -> int:
        return Gate.end

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


class Sums(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.last = context.get_list_state(ListStateDescriptor("last", Types.STRING()))

    def process_element(self, value: int, context: Any) -> Any:
        self.total.update((self.total.value() or 0) + value)
        self.last.update([str(value)])
        with Gate.has_seen:
            Gate.seen = max(Gate.seen, value + 1)
            Gate.has_seen.notify_all()
        yield value


def customer(value: int) -> str:
    return "cyd" if value >= 100 else ("ann", "bob")[value % 2]


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("state")
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    configuration.set_string("io.tmp.dirs", str(directory / "tmp"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.add_source(Numbers()).uid("numbers").key_by(customer, Types.STRING())
    stream.process(Sums(), Types.INT()).uid("sums").filter(lambda _: False).uid("none").print()
    job = env.execute_async("sums by customer")
    Gate.wait_for(100)
    first = job.trigger_savepoint(str(directory / "first")).result()
    Gate.end = 120
    Gate.wait_for(120)
    second = job.stop_with_savepoint(False, str(directory / "second")).result()
    return [str(first), str(second)]


def penstock(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    said = capfd.readouterr()
    return code, said.out, said.err


def test_states_are_listed(savepoints: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = penstock(capfd, "state", "ls", savepoints[0])
    assert code == 0, err
    rows = [line.split()[:4] for line in out.splitlines()]
    assert ["sums", "total", "value", "LONG"] in rows
    assert ["sums", "last", "list", "LIST(STRING)"] in rows, out
    code, out, _ = penstock(capfd, "state", "ls", "--json", savepoints[0])
    operators = {operator["uid"]: operator for operator in json.loads(out)["operators"]}
    assert operators["numbers"]["has_source_position"]
    states = {state["name"]: state for state in operators["sums"]["states"]}
    assert states["total"]["entries"] == 2, "ann and bob"


def test_state_is_read(savepoints: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = penstock(
        capfd, "state", "get", savepoints[0], "sums", "total", "--format", "csv"
    )
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    # 0 + 2 + … + 98 and 1 + 3 + … + 99.
    assert {row["key"]: row["value"] for row in rows} == {"ann": "2450", "bob": "2500"}
    code, out, _ = penstock(
        capfd, "state", "get", savepoints[1], "sums", "last", "--key", "cyd", "--json"
    )
    [entry] = json.loads(out)["entries"]
    assert entry["value"] == ["119"]
    assert (entry["state"], entry["kind"], entry["key"]) == ("last", "list", "cyd")
    code, out, err = penstock(capfd, "state", "get", savepoints[0], "sums", "--limit", "1")
    assert len(out.splitlines()) == 2
    assert "--limit 0 shows all of them" in err
    code, _, err = penstock(capfd, "state", "get", savepoints[0], "sums", "--key", "dan")
    assert (code, err.splitlines()[-1].split(".")[0]) == (0, "No entries")
    code, _, err = penstock(capfd, "state", "get", savepoints[0], "sumz")
    assert code == 1
    assert "'numbers', 'sums'" in err


def test_differences(savepoints: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = penstock(capfd, "state", "diff", *savepoints, "--uid", "sums")
    assert code == 3
    assert '    + "cyd"' in out.splitlines()
    code, out, _ = penstock(capfd, "state", "diff", "--json", *savepoints, "--uid", "sums")
    assert code == 3
    [operator] = json.loads(out)["operators"]
    counts = {
        state["name"]: (state["added"], state["removed"], state["changed"], state["same"])
        for state in operator["states"]
    }
    assert counts["total"] == (1, 0, 0, 2)
    code, out, _ = penstock(capfd, "state", "diff", savepoints[0], savepoints[0])
    assert (code, out) == (0, "No differences.\n")


def test_damage_is_found(
    savepoints: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = penstock(capfd, "verify", savepoints[0])
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[-1] == "whole"
    damaged = tmp_path / "savepoint"
    damaged.mkdir()
    content = bytearray((tmp_path / savepoints[0] / "_metadata").read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / "_metadata").write_bytes(content)
    code, out, err = penstock(capfd, "verify", str(damaged))
    assert code == 3
    assert "1 problem" in out
    assert "Restore from a snapshot that is whole" in err


def test_a_restore_is_checked(
    savepoints: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "next.py"
    program.write_text(
        textwrap.dedent(
            """
            from penstock.common import Types
            from penstock.datastream import StreamExecutionEnvironment
            from penstock.datastream.functions import KeyedProcessFunction
            from penstock.datastream.state import ValueStateDescriptor

            class Sums(KeyedProcessFunction):
                def open(self, context):
                    self.total = context.get_state(ValueStateDescriptor("total", Types.STRING()))
                def process_element(self, value, context):
                    yield value

            env = StreamExecutionEnvironment.get_execution_environment()
            stream = env.from_collection([1]).key_by(str, Types.STRING())
            stream.process(Sums()).uid("sums").print()
            env.execute("next")
            """
        )
    )
    code = run(["check-restore", "-s", savepoints[0], str(program)])
    said = capfd.readouterr()
    assert code == 1
    assert "would not start from" in said.err
    assert "'numbers'" in said.err, "an operator that is gone"
    assert "LONG" in said.err, "and a type that was changed, at once"
    assert "STRING" in said.err
