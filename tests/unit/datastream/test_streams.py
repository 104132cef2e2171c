"""Methods of streams append nodes; what is wrong is said at the line that is wrong."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from program_nodes import node_of

from penstock.common import Row, Types, WatermarkStrategy
from penstock.core.errors import ProgramError
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.graph.nodes import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Input,
    KeyGroups,
    Node,
    NodeKind,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.process import KeyedProcessSpec, ProcessSpec
from penstock.operators.reduce import ReduceSpec, RollingAggregation
from penstock.operators.timestamps import TimestampsAndWatermarksSpec


def nodes_of(env: StreamExecutionEnvironment) -> list[Node]:
    return list(env._program.nodes.values())


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
    assert partitioning.key_type is key_type
    assert partitioning.key_type.convert_all([partitioning.selector(3)]) == [Row(a=3, b=3)]


def test_keys_of_several_fields(env: StreamExecutionEnvironment) -> None:
    records = [("a", 1, 2), ("b", 1, 5), ("a", 1, 3), ("a", 2, 7)]
    tuples = env.from_collection(records)
    with tuples.key_by(0, 1).sum(2).execute_and_collect() as results:
        assert list(results) == [("a", 1, 2), ("b", 1, 5), ("a", 1, 5), ("a", 2, 7)]
    dicts = env.from_collection([{"k": "a", "m": 1, "n": 2}, {"k": "a", "m": 1, "n": 3}])
    with dicts.key_by("k", "m").sum("n").execute_and_collect() as results:
        assert [result["n"] for result in results] == [2, 5]
    for wrong in ((0, True), ("k", "m", 1.5), (len, 1)):
        with pytest.raises(ProgramError, match="is neither a name nor a position"):
            tuples.key_by(*wrong)  # type: ignore[arg-type]


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
        assert node_of(getattr(keyed, verb)()).spec == ReduceSpec(RollingAggregation(verb, 0))
    assert node_of(keyed.sum("amount")).spec == ReduceSpec(RollingAggregation("sum", "amount"))
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


def test_streams_of_two_environments_do_not_meet(env: StreamExecutionEnvironment) -> None:
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    stream = env.from_collection([1])
    for verb in ("union", "connect", "join", "co_group"):
        with pytest.raises(ProgramError, match=rf"{verb}\(\) got a stream of another"):
            getattr(stream, verb)(other)
    with pytest.raises(ProgramError, match=r"union\(\) takes a DataStream, but got list"):
        stream.union([1])  # type: ignore[arg-type]


def test_reprs(numbers: DataStream) -> None:
    keyed = numbers.map(str, Types.STRING()).name("text").key_by(len)
    assert repr(keyed) == "KeyedStream(text: STRING)"
    assert repr(numbers.union(numbers.map(str))) == (
        "DataStream(Collection Source + Map: PICKLED_BYTE_ARRAY)"
    )
