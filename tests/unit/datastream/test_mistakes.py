"""Common mistakes are met with one clear sentence, and those a call can see, when it is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.common import Encoder, WatermarkStrategy
from penstock.core.errors import (
    PenstockError,
    ProgramError,
    UnsupportedError,
    UserFunctionError,
)
from penstock.datastream.connectors import FileSink, PythonSink, PythonSource
from penstock.datastream.functions import MapFunction, ReduceFunction, SinkFunction

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream import StreamExecutionEnvironment

# Frames of the package; a clone's folder may have the same name.
OURS = f"{Path(penstock.__file__).parent}/"


def test_iterations(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(UnsupportedError, match="keyed state"):
        env.from_collection([1]).iterate(1000)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("window", "key_by(...).window(...), or window_all(...)"),
        ("sum", "key_by(...).sum(...)"),
        ("aggregate", "key_by(...).window(...).aggregate(...)"),
        ("keyBy", "it is key_by(...) here"),
        ("flatMap", "it is flat_map(...) here"),
        ("groupBy", "it is key_by(...) here"),
        ("writeStream", "to_spark(...)"),
        ("withColumn", "env.from_spark(...)"),
        ("limit", "take(n)"),
    ],
)
def test_methods_that_are_elsewhere(
    env: StreamExecutionEnvironment, name: str, advice: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(env.from_collection([1]), name)
    assert advice in str(caught.value)


def test_methods_of_keyed_streams_exist(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([1]).key_by(lambda value: value)
    assert all(hasattr(keyed, name) for name in ("window", "reduce", "sum", "count_window"))
    with pytest.raises(AttributeError, match=r"key_by\(...\).window\(...\).apply"):
        keyed.apply  # type: ignore[attr-defined]


def test_names_that_nothing_has(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])
    with pytest.raises(AttributeError, match=r"^'DataStream' object has no attribute 'mpa'$"):
        stream.mpa  # type: ignore[attr-defined]
    assert not hasattr(stream, "__array__")


class MapOfTwo(MapFunction):
    def map(self, value: Any, other: Any) -> Any:  # type: ignore[override]
        return value


class ReduceOfOne(ReduceFunction):
    def reduce(self, value: Any) -> Any:  # type: ignore[override]
        return value


WRONG_ARITY: list[tuple[str, Callable[[Any], Any]]] = [
    ("map(value): missing", lambda s: s.map(lambda a, b: a)),
    ("map(value): too many", lambda s: s.map(lambda: 1)),
    ("map(value)", lambda s: s.map(MapOfTwo())),
    ("flat_map(value)", lambda s: s.flat_map(lambda a, b: [a])),
    ("filter(value)", lambda s: s.filter(lambda a, b: True)),
    ("get_key(value)", lambda s: s.key_by(lambda a, b: a)),
    ("process_element(value, ctx)", lambda s: s.process(lambda value: [value])),
    ("reduce(value1, value2)", lambda s: s.key_by(lambda a: a).reduce(lambda a: a)),
    ("reduce(value1, value2)", lambda s: s.key_by(lambda a: a).reduce(ReduceOfOne())),
    ("process_element(value, ctx)", lambda s: s.key_by(lambda a: a).process(lambda v: [v])),
    (
        "process(key, context, elements)",
        lambda s: s.key_by(lambda a: a).count_window(2).process(lambda elements: elements),
    ),
    (
        "apply(key, window, inputs)",
        lambda s: s.key_by(lambda a: a).count_window(2).apply(lambda window, inputs: inputs),
    ),
]


@pytest.mark.parametrize(("called", "build"), WRONG_ARITY)
def test_functions_of_the_wrong_number_of_arguments(
    env: StreamExecutionEnvironment, called: str, build: Callable[[Any], Any]
) -> None:
    with pytest.raises(ProgramError) as caught:
        build(env.from_collection([1]))
    assert "cannot be called as " + called in str(caught.value)


def test_functions_that_take_it(env: StreamExecutionEnvironment) -> None:
    """Defaults, stars, built-ins, classes and callable objects are no mistake."""

    class Callable_:
        def __call__(self, value: Any) -> Any:
            return value

    stream = env.from_collection(["1"])
    kept = stream.map(lambda value, base=10: int(value, base)).map(lambda *values: values[0])
    kept = kept.map(str).map(int).map(Callable_()).map(abs)
    with kept.execute_and_collect() as results:
        assert list(results) == [1]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("read_json", "StreamFormat.json_line_format()"),
        ("readTextFile", "it is read_text_file(...) here"),
        ("fromElements", "from_collection([...])"),
        ("readStream", "env.from_spark(spark.read...)"),
        ("setParallelism", "it is set_parallelism(...) here"),
        ("sql", "spark.sql(...)"),
    ],
)
def test_what_people_look_for_on_an_environment(
    env: StreamExecutionEnvironment, name: str, advice: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(env, name)
    assert advice in str(caught.value)


def test_names_of_java_on_other_streams(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])
    windows = stream.key_by(lambda x: x).count_window(2)
    for thing, name in (
        (windows, "sideOutputLateData"),
        (stream.connect(stream), "flatMap"),
        (stream.key_by(lambda x: x), "minBy"),
    ):
        with pytest.raises(AttributeError, match=r"; it is [a-z_]+\(\.\.\.\) here\."):
            getattr(thing, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_thing'$"):
        _ = stream.no_such_thing


def fails(env: StreamExecutionEnvironment) -> str:
    with pytest.raises(PenstockError) as caught:
        env.execute()
    text = str(caught.value)
    assert "Traceback" not in text and OURS not in text
    return text


@pytest.mark.parametrize(
    ("verb", "words"), [("sum", "added"), ("min", "compared"), ("max_by", "compared")]
)
def test_aggregates_over_mixed_types(
    env: StreamExecutionEnvironment, verb: str, words: str
) -> None:
    keyed = env.from_collection([("a", 1), ("a", "x")]).key_by(lambda pair: pair[0])
    getattr(keyed, verb)(1).print()
    text = fails(env)
    assert f"{verb}(1) met values that cannot be {words}" in text
    assert "record: ('a', 'x')" in text


@pytest.mark.parametrize("verb", ["sum", "min", "min_by"])
def test_aggregates_of_windows_over_mixed_types(env: StreamExecutionEnvironment, verb: str) -> None:
    keyed = env.from_collection([("a", 1), ("a", None)]).key_by(lambda pair: pair[0])
    getattr(keyed.count_window(2), verb)(1).print()
    assert f"{verb}(1) met values" in fails(env)


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __add__(self, other: Any) -> Any:
        return Money(self.cents + other.euros)


def test_mistakes_in_the_users_own_operators_keep_their_frames(
    env: StreamExecutionEnvironment,
) -> None:
    env.from_collection([("a", Money(1)), ("a", Money(2))]).key_by(lambda p: p[0]).sum(1).print()
    with pytest.raises(PenstockError) as caught:
        env.execute()
    assert "in __add__" in str(caught.value)
    assert "no attribute 'euros'" in str(caught.value)


@pytest.mark.parametrize("field", ["name", 7])
def test_fields_that_records_do_not_have(env: StreamExecutionEnvironment, field: Any) -> None:
    env.from_collection([("a", 1)]).key_by(field).sum(1).print()
    text = fails(env)
    assert f"key_by({field!r}) takes fields out of records" in text
    assert "record: ('a', 1)" in text


def test_a_directory_that_cannot_be_made(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    encoder = Encoder.simple_string_encoder()
    sink = FileSink.for_row_format(str(tmp_path / "file" / "out"), encoder).build()
    env.from_collection(["a"]).sink_to(sink)
    assert "the file sink cannot make the directory" in fails(env)


class NoSplits(PythonSource):
    bounded = True

    def splits(self) -> list[str]:
        raise LookupError("nowhere")

    def read(self, split: str, start: int, end: int) -> list[Any]:
        return []


class Refuses(PythonSink):
    def write(self, value: Any, context: Any) -> None:
        if value == 2:
            raise ValueError("not this one")


class RefusesOld(SinkFunction):
    invoke = Refuses.write


def test_methods_of_sources_and_sinks_are_looked_at(env: StreamExecutionEnvironment) -> None:
    class ReadsAll(NoSplits):
        def read(self, split: str) -> list[Any]:  # type: ignore[override]
            return []

    class SaysHowFar(NoSplits):
        def read(self, split: str, start: int, end: int) -> Any:
            yield 1
            return start + 1

    class WritesAlone(PythonSink):
        def write(self, value: Any) -> None:  # type: ignore[override]
            pass

    class Waits(SinkFunction):
        async def invoke(self, value: Any, context: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(ProgramError, match=r"cannot be called as read\(split, start, end\)"):
        env.add_source(ReadsAll())
    numbers = env.add_source(SaysHowFar())
    with pytest.raises(ProgramError, match=r"cannot be called as write\(value, context\)"):
        numbers.sink_to(WritesAlone())
    with pytest.raises(ProgramError, match=r"Waits.invoke is a coroutine"):
        numbers.add_sink(Waits())


def test_sources_and_sinks_that_fail_are_told_as_functions_are(
    env: StreamExecutionEnvironment,
) -> None:
    env.add_source(NoSplits(), "digits").print()
    with pytest.raises(UserFunctionError) as caught:
        env.execute()
    text = str(caught.value)
    assert text.index("in splits") < text.index("LookupError: nowhere") < text.index("'Source: dig")
    for sink in (Refuses(), RefusesOld()):
        env.from_collection([1, 2, 3]).add_sink(sink).uid("out")
        with pytest.raises(UserFunctionError) as caught:
            env.execute()
        text = str(caught.value)
        assert "ValueError: not this one\nrecord: 2\nin operator 'Sink: Refuses" in text
        assert "(uid 'out'), subtask 1 of 1" in text
        assert OURS not in text


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timestamp_that_is_none_names_the_record(
    env: StreamExecutionEnvironment, timestamp: int
) -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value)
    stream = env.from_collection([2**63 - 1, timestamp]).assign_timestamps_and_watermarks(strategy)
    stream.key_by(lambda value: value % 2).sum().print()
    with pytest.raises(ProgramError, match=f"record {timestamp} has the timestamp .* of 64 bits"):
        env.execute()
