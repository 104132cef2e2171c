"""Execution takes the program, runs it and gives results back."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from penstock.common import (
    JobStatus,
    RestartStrategies,
)
from penstock.core.errors import ProgramError, UserFunctionError
from penstock.datastream import MapFunction

if TYPE_CHECKING:
    from penstock.datastream import (
        StreamExecutionEnvironment,
    )


def test_stream_graph(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2).set_max_parallelism(32).disable_operator_chaining()
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).print()
    graph = env._stream_graph("words")
    assert (graph.job_name, graph.parallelism, graph.max_parallelism) == ("words", 2, 32)
    assert (graph.chaining_enabled, graph.auto_generate_uids) == (False, False)
    assert [node.name for node in graph.nodes.values()] == [
        "Source: Collection Source",
        "Sink: Print to Std. Out",
    ]


def test_job_name(env: StreamExecutionEnvironment) -> None:
    assert env._stream_graph().job_name == "Penstock Streaming Job"
    env.get_configuration().set_string("pipeline.name", "configured")
    assert env._stream_graph().job_name == "configured"
    assert env._stream_graph("given").job_name == "given"


def test_plan(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(3)
    env.from_collection(["a"]).key_by(len).map(str).uid("m").rebalance().print()
    source, mapped, sink = json.loads(env.get_execution_plan())["nodes"]
    assert source == {
        "id": 1,
        "type": "Source: Collection Source",
        "pact": "Data Source",
        "contents": "Source: Collection Source",
        "parallelism": 1,
    }
    assert (mapped["uid"], mapped["parallelism"], mapped["pact"]) == ("m", 3, "Operator")
    assert mapped["predecessors"] == [{"id": 1, "ship_strategy": "HASH", "side": "first"}]
    assert sink["predecessors"] == [{"id": 2, "ship_strategy": "REBALANCE", "side": "first"}]
    assert env._program.nodes


def test_execute_prints_and_forgets_the_program(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_collection([1, 2]).map(lambda value: value * 10).print("out")
    result = env.execute("job")
    assert capsys.readouterr().out == "out> 10\nout> 20\n"
    assert len(str(result.get_job_id())) == 32
    assert result.get_net_runtime() >= 0
    assert result.get_all_accumulator_results() == {}
    with pytest.raises(ProgramError, match="has no accumulator 'x'"):
        result.get_accumulator_result("x")
    with pytest.raises(ProgramError, match=r"what an earlier execute\(\) ran is not run again"):
        env.execute()


def test_streams_go_on_after_execute(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = env.from_collection([1, 2])
    stream.print("first")
    env.execute()
    stream.map(lambda value: -value).print("second")
    env.execute()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["first> 1", "first> 2", "second> -1", "second> -2"]


def test_program_that_does_not_compile_can_be_repaired(env: StreamExecutionEnvironment) -> None:
    source = env.from_sequence(1, 3).set_parallelism(2)
    stream = source.forward().map(str).set_parallelism(3)
    stream.print()
    with pytest.raises(ProgramError, match="forward"):
        env.execute()
    stream.set_parallelism(2)
    env.execute()


def test_execute_async(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).add_sink(lambda value: None)
    client = env.execute_async("job")
    assert client.await_termination(60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_job_execution_result().result().get_job_id() == client.get_job_id()
    assert client.exception() is None
    assert client.get_accumulators().result() == {}
    assert "FINISHED" in repr(client)


def test_collecting(env: StreamExecutionEnvironment) -> None:
    with env.from_collection([3, 1, 2]).execute_and_collect("job") as records:
        assert list(records) == [3, 1, 2]
    assert env.from_sequence(1, 10**9).execute_and_collect(limit=3) == [1, 2, 3]
    with pytest.raises(ProgramError, match="limit=0"):
        env.from_collection([1]).execute_and_collect(limit=0)


def test_collecting_what_fails(env: StreamExecutionEnvironment) -> None:
    with (
        pytest.raises(Exception, match="ZeroDivisionError"),
        env.from_collection([1, 0]).map(lambda v: 1 // v).execute_and_collect() as records,
    ):
        list(records)


def test_what_should_be_known_is_logged(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    env.get_configuration().set_string("paralelism.default", "3")
    stream = env.from_collection([1]).set_buffer_timeout(5).uid("mine").set_uid_hash("0f" * 16)
    stream.add_sink(lambda value: None)
    with caplog.at_level(logging.WARNING, "penstock.environment"):
        env.execute()
    messages = [record.getMessage() for record in caplog.records]
    assert any("Did you mean 'parallelism.default'?" in message for message in messages)
    assert any("set_buffer_timeout(5)" in message for message in messages)
    assert any("its state goes by its uid 'mine'" in message for message in messages)


class Opened(MapFunction):
    """Notes its life; `breaks` says in which method it raises."""

    life: ClassVar[list[str]] = []

    def __init__(self, name: str, breaks: str = "") -> None:
        self.name = name
        self.breaks = breaks

    def note(self, method: str) -> None:
        self.life.append(f"{method} {self.name}")
        if method in self.breaks:
            raise ValueError(f"{method} breaks")

    def open(self, runtime_context: Any) -> None:
        self.note("open")

    def map(self, value: int) -> int:
        self.note("map")
        return value

    def close(self) -> None:
        self.note("close")


@pytest.mark.parametrize(
    ("breaks", "middle"),
    [("map", ["map a", "map b"]), ("map close", ["map a", "map b"]), ("open", [])],
)
def test_functions_are_closed_after_a_failure(
    env: StreamExecutionEnvironment, breaks: str, middle: list[str]
) -> None:
    """As in Flink: all that were opened, before the next attempt opens its own."""
    Opened.life.clear()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    env.from_collection([1]).map(Opened("a")).map(Opened("b", breaks)).print()
    first = breaks.split(maxsplit=1)[0]
    with pytest.raises(UserFunctionError, match=f"ValueError: {first} breaks"):
        env.execute()
    assert Opened.life == ["open a", "open b", *middle, "close a", "close b"] * 2
