"""Names, uids, parallelism, side outputs and sinks of streams."""

from __future__ import annotations

from typing import Any

import pytest
from program_nodes import node_of

from penstock.common import Types
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.datastream import (
    DataStream,
    OutputTag,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.graph.nodes import Chaining, Input, NodeKind
from penstock.operators.convert import ConvertOutputSpec


def test_settings_replace_the_node(numbers: DataStream) -> None:
    stream = numbers.map(str)
    same = (
        stream.name("text")
        .uid("text-1")
        .set_uid_hash("AB" * 16)
        .set_parallelism(3)
        .set_max_parallelism(64)
        .set_description("makes text")
        .slot_sharing_group("fast")
        .start_new_chain()
    )
    assert same is stream
    node = node_of(stream)
    assert (node.name, node.uid, node.uid_hash, node.parallelism, node.max_parallelism) == (
        "text",
        "text-1",
        "ab" * 16,
        3,
        64,
    )
    assert (node.description, node.slot_sharing_group, node.chaining) == (
        "makes text",
        "fast",
        Chaining.HEAD,
    )
    assert stream.get_name() == "text"
    assert node_of(stream.disable_chaining()).chaining is Chaining.NEVER
    assert node_of(stream.set_parallelism(-1)).parallelism is None


@pytest.mark.parametrize(
    ("verb", "argument"),
    [
        ("name", "x"),
        ("uid", "x"),
        ("set_uid_hash", "ab" * 16),
        ("set_parallelism", 2),
        ("set_max_parallelism", 2),
        ("set_description", "x"),
        ("slot_sharing_group", "x"),
        ("set_buffer_timeout", 5),
        ("get_side_output", OutputTag("x")),
    ],
)
def test_keyed_streams_are_no_operators(numbers: DataStream, verb: str, argument: Any) -> None:
    with pytest.raises(ProgramError, match=r"key_by\(\) is an exchange and no operator"):
        getattr(numbers.key_by(lambda value: value), verb)(argument)


def test_unions_are_no_operators(numbers: DataStream) -> None:
    union = numbers.union(numbers.map(str), numbers.map(float))
    assert len(union._inputs) == 3
    with pytest.raises(ProgramError, match="a union has no name"):
        union.name("x")
    assert len(node_of(union.map(str)).inputs) == 3


def test_side_outputs(numbers: DataStream) -> None:
    tag = OutputTag("late", Types.STRING())
    main = numbers.process(lambda value, ctx: None)
    side = main.get_side_output(tag)
    assert side.get_type() == Types.STRING()
    assert node_of(main).node_id == side._inputs[0].node_id
    assert side._inputs == (Input(node_of(main).node_id, side_tag="late"),)
    assert node_of(side.map(str)).inputs[0].side_tag == "late"
    with pytest.raises(ProgramError, match="is named by an OutputTag"):
        main.get_side_output("late")  # type: ignore[arg-type]


def test_side_output_can_be_named(numbers: DataStream) -> None:
    side = numbers.process(lambda value, ctx: None).get_side_output(OutputTag("late"))
    side.name("late records").uid("late")
    node = node_of(side)
    assert (node.name, node.uid) == ("late records", "late")
    assert node.inputs[0].side_tag == "late"
    assert node_of(side.map(str)).inputs == (Input(node.node_id),)


def test_side_output_of_a_side_output(numbers: DataStream) -> None:
    side = numbers.process(lambda value, ctx: None).get_side_output(OutputTag("late"))
    with pytest.raises(ProgramError, match="was called on a side output"):
        side.get_side_output(OutputTag("x"))


def test_side_output_of_rows_is_converted(numbers: DataStream) -> None:
    tag = OutputTag("people", Types.ROW_NAMED(["name"], [Types.STRING()]))
    side = numbers.process(lambda value, ctx: None).get_side_output(tag)
    assert isinstance(node_of(side).spec, ConvertOutputSpec)


def test_uids_are_unique(numbers: DataStream) -> None:
    numbers.map(str).name("first").uid("a")
    other = numbers.map(str).name("second")
    with pytest.raises(
        ProgramError, match=r"uid 'a' is already that of operator 'first'.*'second'"
    ):
        other.uid("a")
    other.uid("b").uid("b")


@pytest.mark.parametrize(
    ("verb", "value", "said"),
    [
        ("uid", "", "a uid is a text that is not empty"),
        ("uid", 5, "a uid is a text that is not empty"),
        ("name", " ", "a name is a text that is not empty"),
        ("set_uid_hash", "xyz", "32 hexadecimal digits"),
        ("set_parallelism", 0, "at least 1"),
        ("set_parallelism", -2, "at least 1"),
        ("set_parallelism", 1.5, "at least 1"),
        ("set_parallelism", True, "at least 1"),
        ("set_max_parallelism", 0, "from 1 to 32768"),
        ("set_max_parallelism", 32_769, "from 1 to 32768"),
        ("slot_sharing_group", 5, "a name or a SlotSharingGroup"),
        ("set_buffer_timeout", "soon", "no span of time"),
    ],
)
def test_wrong_settings(numbers: DataStream, verb: str, value: Any, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        getattr(numbers.map(str), verb)(value)


def test_what_cannot_run_in_parallel(env: StreamExecutionEnvironment) -> None:
    source = env.from_collection([1])
    with pytest.raises(ProgramError, match="cannot run in parallel; it must stay 1"):
        source.set_parallelism(2)
    assert node_of(source.set_parallelism(1)).parallelism == 1
    fixed = source.map(str).force_non_parallel()
    assert (node_of(fixed).parallelism, node_of(fixed).max_parallelism) == (1, 1)
    with pytest.raises(ProgramError, match="cannot run in parallel"):
        fixed.set_parallelism(2)


def test_sinks_have_settings(numbers: DataStream) -> None:
    sink = numbers.map(str).print().name("out").uid("out").set_parallelism(2).set_description("x")
    node = node_of(sink)
    assert (node.kind, node.name, node.uid, node.parallelism) == (NodeKind.SINK, "out", "out", 2)
    assert "out" in repr(sink)


def test_what_can_be_a_sink(numbers: DataStream) -> None:
    from penstock.connectors.user_sink import FunctionSink, SinkFunction

    class Mine(SinkFunction):
        def invoke(self, value: Any, context: Any) -> None: ...

    for given in (Mine(), lambda value: None, print):
        assert isinstance(node_of(numbers.add_sink(given)).spec.sink, FunctionSink)
    with pytest.raises(ProgramError, match=r"sink_to\(\) takes a sink, but got .*brackets missing"):
        numbers.sink_to(Mine)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="subclass PythonSink"):
        numbers.add_sink("somewhere")
    with pytest.raises(ProgramError, match="a text to put before lines"):
        numbers.print(5)  # type: ignore[arg-type]


def test_what_is_accepted_without_effect_is_reported(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str).set_buffer_timeout(5)
    group = SlotSharingGroup.builder("g").set_cpu_cores(2.0).set_task_heap_memory_mb(5).build()
    stream.slot_sharing_group(group)
    assert node_of(stream).slot_sharing_group == "g"
    for _ in range(2):
        stream.map(str).slot_sharing_group("h")
    first, second, third = env._program.remarks
    assert "set_buffer_timeout(5) of 'Map' has no effect" in first
    assert "resources of slot sharing group 'g' have no effect" in second
    assert "slot_sharing_group('h') is shown in the plan and has no other effect" in third


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda group: group.set_cpu_cores(0), "must be above 0"),
        (lambda group: group.set_task_heap_memory_mb(0), "must be above 0"),
        (lambda group: group.set_cpu_cores(1.0).build(), "but no task_heap_memory"),
        (lambda group: group.set_task_heap_memory_mb(1).build(), "but no cpu_cores"),
        (lambda group: group.set_managed_memory_mb(1).build(), "no cpu_cores and no task_heap"),
        (lambda group: group.set_external_resource("gpu", 1).build(), "no cpu_cores and no task"),
    ],
)
def test_resources_of_slot_sharing_groups_are_complete(make: Any, says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        make(SlotSharingGroup.builder("g"))
    assert SlotSharingGroup.builder("g").build().get_cpu_cores() is None


def test_cache_says_what_to_do(numbers: DataStream) -> None:
    for stream in (numbers, numbers.key_by(lambda value: value)):
        with pytest.raises(UnsupportedError, match="FileSink"):
            stream.cache()
