"""Methods of streams append nodes; what is wrong is said at the line that is wrong."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.partitioning import (
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.graph.nodes import Chaining, Input, Node, NodeKind
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.process import KeyedProcessSpec, ProcessSpec
from penstock.operators.reduce import AggregationSpec, ReduceSpec
from penstock.operators.simple import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.watermarks import TimestampsAndWatermarksSpec


def node_of(stream: Any) -> Node:
    """The node behind a stream or sink."""
    node_id = stream._own_node_id()
    return stream._environment._program.nodes[node_id]


def nodes_of(env: StreamExecutionEnvironment) -> list[Node]:
    return list(env._program.nodes.values())


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3])


def test_a_program_is_its_nodes(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).filter(bool).flat_map(list).print("x")
    source, mapped, filtered, flat, sink = nodes_of(env)
    assert [node.kind for node in nodes_of(env)] == [
        NodeKind.SOURCE,
        NodeKind.OPERATOR,
        NodeKind.OPERATOR,
        NodeKind.OPERATOR,
        NodeKind.SINK,
    ]
    assert source.inputs == ()
    assert mapped.inputs == (Input(source.node_id),)
    assert filtered.inputs == (Input(mapped.node_id),)
    assert flat.inputs == (Input(filtered.node_id),)
    assert sink.inputs == (Input(flat.node_id),)
    assert (mapped.spec, filtered.spec, flat.spec) == (
        MapSpec(str),
        FilterSpec(bool),
        FlatMapSpec(list),
    )


def test_streams_do_not_change_each_other(numbers: DataStream) -> None:
    first, second = numbers.map(str), numbers.map(float)
    assert node_of(first).inputs == node_of(second).inputs
    assert node_of(first).node_id != node_of(second).node_id


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
    ("verb", "partitioning"),
    [
        ("rebalance", Rebalance()),
        ("rescale", Rescale()),
        ("shuffle", Shuffle()),
        ("forward", Forward(explicit=True)),
        ("broadcast", Broadcast()),
        ("global_", Global()),
    ],
)
def test_partitioning_is_on_the_edge(numbers: DataStream, verb: str, partitioning: Any) -> None:
    exchanged = getattr(numbers, verb)()
    assert node_of(exchanged.map(str)).inputs[0].partitioning == partitioning
    with pytest.raises(ProgramError, match="is an exchange and no operator"):
        exchanged.name("x")
    # The last one counts.
    assert node_of(exchanged.rebalance().map(str)).inputs[0].partitioning == Rebalance()


def test_partition_custom(numbers: DataStream) -> None:
    stream = numbers.partition_custom(lambda key, n: key % n, lambda value: value).map(str)
    partitioning = node_of(stream).inputs[0].partitioning
    assert isinstance(partitioning, Custom)
    assert partitioning.partitioner(7, 4) == 3
    assert partitioning.selector(5) == 5


class LastDigit(KeySelector):
    def get_key(self, value: int) -> int:
        return value % 10


@pytest.mark.parametrize(
    ("selector", "record", "key", "columns"),
    [
        (lambda value: value + 1, 1, 2, None),
        (LastDigit(), 23, 3, None),
        ("user", {"user": "a"}, "a", ("user",)),
        (1, ("a", "b"), "b", (1,)),
        (operator.itemgetter("user"), {"user": "a"}, "a", ("user",)),
        (operator.itemgetter(0, 1), (1, 2, 3), (1, 2), (0, 1)),
    ],
)
def test_key_selectors(
    numbers: DataStream, selector: Any, record: Any, key: Any, columns: Any
) -> None:
    stream = numbers.key_by(selector).map(str)
    partitioning = node_of(stream).inputs[0].partitioning
    assert isinstance(partitioning, KeyGroups)
    assert partitioning.selector(record) == key
    assert partitioning.columns == columns


def test_key_type_converts_keys(numbers: DataStream) -> None:
    key_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    partitioning = (
        node_of(numbers.key_by(lambda v: (v, v), key_type).map(str)).inputs[0].partitioning
    )
    assert isinstance(partitioning, KeyGroups)
    assert partitioning.selector(3) == Row(a=3, b=3)


@pytest.mark.parametrize("selector", [None, object(), LastDigit, True])
def test_what_is_no_key_selector(numbers: DataStream, selector: Any) -> None:
    with pytest.raises(ProgramError, match=r"key_by\(\)|KeySelector"):
        numbers.key_by(selector)


def test_keyed_operators(numbers: DataStream) -> None:
    keyed = numbers.key_by(lambda value: value % 2)
    stream = keyed.map(str)
    assert node_of(stream).spec == MapSpec(str, True)
    assert type(stream) is DataStream
    add = operator.add
    assert node_of(keyed.reduce(add)).spec == ReduceSpec(add)
    for verb in ("sum", "min", "max", "min_by", "max_by"):
        assert node_of(getattr(keyed, verb)()).spec == AggregationSpec(verb, 0)
    assert node_of(keyed.sum("amount")).spec == AggregationSpec("sum", "amount")
    for each in (stream, keyed.reduce(add), keyed.sum(), keyed.process(lambda v, ctx: None)):
        assert isinstance(node_of(each).inputs[0].partitioning, KeyGroups)


def test_key_by_replaces_a_key(numbers: DataStream) -> None:
    twice = numbers.key_by(lambda value: 1).key_by(lambda value: 2)
    (given,) = twice._inputs
    assert isinstance(given.partitioning, KeyGroups)
    assert given.partitioning.selector(0) == 2


def test_keyed_streams_may_end_and_be_put_together(numbers: DataStream) -> None:
    keyed = numbers.key_by(lambda value: value)
    assert isinstance(node_of(keyed.print()).inputs[0].partitioning, KeyGroups)
    union = keyed.union(numbers)
    assert type(union) is DataStream
    assert [type(each.partitioning) for each in union._inputs] == [KeyGroups, Forward]


@pytest.mark.parametrize(
    "verb", ["shuffle", "rebalance", "rescale", "forward", "global_", "broadcast"]
)
def test_keyed_streams_keep_their_partitioning(numbers: DataStream, verb: str) -> None:
    keyed = numbers.key_by(lambda value: value)
    with pytest.raises(ProgramError, match=rf"{verb}\(\) cannot be called on a KeyedStream"):
        getattr(keyed, verb)()


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


def test_process_functions(numbers: DataStream) -> None:
    class Plain(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    class Keyed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    keyed = numbers.key_by(lambda value: value)
    plain, with_key = Plain(), Keyed()
    assert node_of(numbers.process(plain)).spec == ProcessSpec(plain)
    assert node_of(keyed.process(with_key)).spec == KeyedProcessSpec(with_key)
    with pytest.raises(
        ProgramError, match="Keyed is a KeyedProcessFunction, but the stream has no"
    ):
        numbers.process(with_key)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="Plain is a ProcessFunction, but the stream has a key"):
        keyed.process(plain)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"Plain was given .*Are the brackets missing\?"):
        numbers.process(Plain)


def test_functions_for_process(numbers: DataStream) -> None:
    def double(value: int, ctx: Any) -> list[int]:
        return [value, value]

    spec = node_of(numbers.process(double)).spec
    assert isinstance(spec, ProcessSpec)
    # No wrapper is left between the operator and the function.
    assert spec.function.process_element is double


@pytest.mark.parametrize("function", [5, None, MapFunction])
def test_what_is_no_map_function(numbers: DataStream, function: Any) -> None:
    with pytest.raises(ProgramError, match="MapFunction or a callable"):
        numbers.map(function)


def test_output_types(numbers: DataStream) -> None:
    text = numbers.map(str, Types.STRING())
    assert text.get_type() == Types.STRING()
    assert node_of(text).spec == ConvertOutputSpec(MapSpec(str), Types.STRING())
    assert numbers.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert node_of(numbers.map(str, Types.PICKLED_BYTE_ARRAY())).spec == MapSpec(str)
    row = numbers.map(str, [Types.INT()])  # type: ignore[arg-type]
    assert row.get_type() == Types.ROW([Types.INT()])
    with pytest.raises(ProgramError, match=r"output_type takes a TypeInformation.*Types.INT\(\)"):
        numbers.map(str, Types.INT)  # type: ignore[arg-type]


def test_types_go_on_where_records_do(numbers: DataStream) -> None:
    text = numbers.map(str, Types.STRING())
    strategy = WatermarkStrategy.no_watermarks()
    for stream in (
        text.filter(bool),
        text.rebalance(),
        text.union(text),
        text.key_by(len),
        text.assign_timestamps_and_watermarks(strategy),
        text.key_by(len).reduce(lambda a, b: a),
        text.key_by(len).max_by(0),
    ):
        assert stream.get_type() == Types.STRING()


def test_project(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection(
        [(1, "a", 2.5)], Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()])
    )
    projected = pairs.project(2, 0)
    assert projected.get_type() == Types.TUPLE([Types.DOUBLE(), Types.INT()])
    spec = node_of(projected).spec
    assert spec.inner.function((1, "a", 2.5)) == (2.5, 1)
    assert node_of(pairs.project(1)).spec.inner.function((1, "a", 2.5)) == ("a",)
    with pytest.raises(ProgramError, match=r"positions \[3\].* fields 0 to 2"):
        pairs.project(3)
    with pytest.raises(ProgramError, match="is for streams of tuples"):
        env.from_collection(["a"], Types.STRING()).project(0)
    with pytest.raises(ProgramError, match="takes positions of fields"):
        pairs.project()


def test_watermarks(numbers: DataStream) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert node_of(numbers.assign_timestamps_and_watermarks(strategy)).spec == (
        TimestampsAndWatermarksSpec(strategy)
    )
    with pytest.raises(ProgramError, match="takes a WatermarkStrategy"):
        numbers.assign_timestamps_and_watermarks(lambda value: value)  # type: ignore[arg-type]


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


def test_streams_of_two_environments_do_not_meet(env: StreamExecutionEnvironment) -> None:
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    stream = env.from_collection([1])
    for verb in ("union", "connect", "join", "co_group"):
        with pytest.raises(ProgramError, match=rf"{verb}\(\) got a stream of another"):
            getattr(stream, verb)(other)
    with pytest.raises(ProgramError, match=r"union\(\) takes a DataStream, but got list"):
        stream.union([1])  # type: ignore[arg-type]


def test_what_is_accepted_without_effect_is_reported(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str).set_buffer_timeout(5)
    stream.slot_sharing_group(SlotSharingGroup.builder("g").set_cpu_cores(2.0).build())
    assert node_of(stream).slot_sharing_group == "g"
    first, second = env._program.remarks
    assert "set_buffer_timeout(5) of 'Map' has no effect" in first
    assert "resources of slot sharing group 'g' have no effect" in second


def test_cache_says_what_to_do(numbers: DataStream) -> None:
    for stream in (numbers, numbers.key_by(lambda value: value)):
        with pytest.raises(UnsupportedError, match="FileSink"):
            stream.cache()


def test_reprs(numbers: DataStream) -> None:
    keyed = numbers.map(str, Types.STRING()).name("text").key_by(len)
    assert repr(keyed) == "KeyedStream(text: STRING)"
    assert repr(numbers.union(numbers.map(str))) == (
        "DataStream(Collection Source + Map: PICKLED_BYTE_ARRAY)"
    )
