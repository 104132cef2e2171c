"""Every setter is a key of the configuration; sources become nodes."""

from __future__ import annotations

import datetime
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import (
    Configuration,
    RestartStrategies,
    Row,
    Types,
    WatermarkStrategy,
)
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    RuntimeExecutionMode,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors import NumberSequenceSource

if TYPE_CHECKING:
    from pathlib import Path


CP = "execution.checkpointing."


def settings(env: StreamExecutionEnvironment) -> dict[str, str]:
    found = env.get_configuration().to_dict()
    del found["penstock.spark.master"]
    return found


@pytest.mark.parametrize(
    ("verb", "arguments", "found"),
    [
        ("set_parallelism", (4,), {"parallelism.default": "4"}),
        ("set_max_parallelism", (64,), {"pipeline.max-parallelism": "64"}),
        ("set_runtime_mode", (RuntimeExecutionMode.BATCH,), {"execution.runtime-mode": "BATCH"}),
        ("disable_operator_chaining", (), {"pipeline.operator-chaining.enabled": "false"}),
        ("set_buffer_timeout", (-1,), {"execution.buffer-timeout.interval": "0 ms"}),
        ("enable_checkpointing", (60_000,), {CP + "interval": "60000 ms"}),
        ("enable_checkpointing", ("1 min",), {CP + "interval": "60000 ms"}),
        (
            "enable_checkpointing",
            (datetime.timedelta(seconds=5), CheckpointingMode.AT_LEAST_ONCE),
            {CP + "interval": "5000 ms", CP + "mode": "AT_LEAST_ONCE"},
        ),
        ("set_default_savepoint_directory", ("/s",), {CP + "savepoint-dir": "/s"}),
        ("set_state_backend", (HashMapStateBackend(),), {"state.backend.type": "hashmap"}),
        (
            "set_state_backend",
            (EmbeddedRocksDBStateBackend(True),),
            {"state.backend.type": "rocksdb", CP + "incremental": "true"},
        ),
        ("enable_changelog_state_backend", (True,), {"state.changelog.enabled": "true"}),
        (
            "set_restart_strategy",
            (RestartStrategies.no_restart(),),
            {"restart-strategy.type": "disable"},
        ),
        (
            "set_restart_strategy",
            (RestartStrategies.fixed_delay_restart(3, 10_000),),
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "3",
                "restart-strategy.fixed-delay.delay": "10 s",
            },
        ),
        (
            "set_restart_strategy",
            # The interval comes before the delay.
            (RestartStrategies.failure_rate_restart(2, 60_000, 5_000),),
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": "2",
                "restart-strategy.failure-rate.failure-rate-interval": "1 min",
                "restart-strategy.failure-rate.delay": "5 s",
            },
        ),
        ("set_restart_strategy", (RestartStrategies.fall_back_restart(),), {}),
        ("add_python_file", ("a.py",), {"python.files": "a.py"}),
        ("add_python_archive", ("a.zip",), {"python.archives": "a.zip"}),
        ("add_python_archive", ("a.zip", "data"), {"python.archives": "a.zip#data"}),
        ("set_python_requirements", ("r.txt",), {"python.requirements": "r.txt"}),
        ("set_python_executable", ("python3",), {"python.executable": "python3"}),
        ("add_jars", ("file:///lib/flink-sql-connector-kafka-1.17.1.jar",), {}),
        (
            "add_jars",
            ("/lib/kafka-clients-3.4.jar", "a.jar"),
            {"penstock.spark.conf.spark.jars": "a.jar"},
        ),
        ("add_classpaths", ("file:///lib/flink-connector-kafka-1.15.0.jar",), {}),
        ("add_jars", ("a.jar", "b.jar"), {"penstock.spark.conf.spark.jars": "a.jar,b.jar"}),
    ],
)
def test_setters(
    env: StreamExecutionEnvironment, verb: str, arguments: tuple[Any, ...], found: dict[str, str]
) -> None:
    assert getattr(env, verb)(*arguments) is env
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert settings(env) == found
    for key in found:
        assert str(env.get_configuration().setting(key)) == f"code test_environment.py:{line}"


def test_needless_jars_are_named(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    # Programs give the same jar in every function that needs it.
    for _ in range(2):
        env.add_jars("file:///lib/flink-sql-connector-kafka-3.0.jar", "a.jar")
    env.add_classpaths("file:///elsewhere/flink-sql-connector-kafka-3.0.jar")
    env.add_jars("flink-json-3.0.jar", "flink-json-3.0.jar")
    assert [line.partition(";")[0] for line in caplog.messages] == [
        "flink-sql-connector-kafka-3.0.jar: left out",
        "flink-json-3.0.jar: left out",
    ]
    with pytest.raises(UnsupportedError, match=r"got /lib/b\.jar; use add_jars"):
        env.add_classpaths("/lib/b.jar")


def test_lists_grow(env: StreamExecutionEnvironment) -> None:
    env.add_python_file("a.py").add_python_file("b.py").add_jars("a.jar").add_jars("b.jar")
    assert env.get_configuration().get_list("python.files") == ["a.py", "b.py"]
    assert settings(env)["penstock.spark.conf.spark.jars"] == "a.jar,b.jar"


def test_getters_and_defaults(env: StreamExecutionEnvironment) -> None:
    assert env.get_parallelism() == 1
    assert env.get_max_parallelism() == -1
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.is_chaining_enabled()
    assert env.get_buffer_timeout() == 100
    assert env.get_default_savepoint_directory() is None
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_state_backend() == HashMapStateBackend()
    env.set_parallelism(3).set_state_backend(EmbeddedRocksDBStateBackend())
    assert env.get_parallelism() == env.get_config().get_parallelism() == 3
    assert env.get_state_backend() == EmbeddedRocksDBStateBackend()


@pytest.mark.parametrize(
    ("verb", "argument", "said"),
    [
        ("set_parallelism", 0, "at least 1"),
        ("set_parallelism", -1, "at least 1"),
        ("set_max_parallelism", 40_000, "from 1 to 32768"),
        ("set_runtime_mode", "BATCH", "one of RuntimeExecutionMode.STREAMING"),
        ("set_buffer_timeout", -2, "at least -1"),
        ("enable_checkpointing", 9, "at least 10 ms"),
        ("enable_checkpointing", -5, "at least 10 ms"),
        ("set_state_backend", "rocksdb", "takes a StateBackend"),
        ("set_restart_strategy", "none", "takes one of RestartStrategies"),
        ("add_python_file", "", "a text that is not empty"),
        ("set_default_savepoint_directory", None, "a text that is not empty"),
    ],
)
def test_wrong_settings(
    env: StreamExecutionEnvironment, verb: str, argument: Any, said: str
) -> None:
    with pytest.raises(ProgramError, match=said):
        getattr(env, verb)(argument)


def test_configuration_of_the_program(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration.from_dict({"parallelism.default": "7"}))
    assert env.get_parallelism() == 7
    other = Configuration()
    other.set_integer("parallelism.default", 5)
    assert StreamExecutionEnvironment.get_execution_environment(other).get_parallelism() == 5


def test_configuration_of_the_file(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("parallelism.default: 6\nstate.backend: rocksdb\n")
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path))
    from_file = StreamExecutionEnvironment.get_execution_environment()
    assert from_file.get_parallelism() == 6
    assert from_file.get_state_backend() == EmbeddedRocksDBStateBackend()
    assert from_file.set_parallelism(2).get_parallelism() == 2


# ---- checkpoint and execution configuration ----


# ---- sources ----


def test_collections(env: StreamExecutionEnvironment) -> None:
    person = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([("a", 1), Row("b", 2)], person)
    assert stream.get_type() == person
    (node,) = env._program.nodes.values()
    assert (node.name, node.parallelism, node.is_parallel) == ("Collection Source", 1, False)
    env.from_collection(range(3))
    env.from_collection(iter([1]))
    env.from_collection([])


@pytest.mark.parametrize(
    ("given", "type_info", "said"),
    [
        ([1, "b"], Types.INT(), "record 1: declared INT, got str 'b'"),
        ([("a",), ("b", 2)], Types.TUPLE([Types.STRING()]), "record 1: .* which has 2 fields"),
        ("abc", None, "takes a list of records, but got str 'abc'"),
        (5, None, "takes a list of records, but got int 5"),
        ([1], Types.INT, r"write Types.INT\(\)"),
    ],
)
def test_wrong_collections(
    env: StreamExecutionEnvironment, given: Any, type_info: Any, said: str
) -> None:
    with pytest.raises(ProgramError, match=said):
        env.from_collection(given, type_info)


def test_sources(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    source = NumberSequenceSource(1, 10)
    stream = env.from_source(source, strategy, "numbers", Types.LONG())
    (node,) = env._program.nodes.values()
    assert (node.name, node.spec.source, node.spec.strategy) == ("numbers", source, strategy)
    assert node.is_parallel
    assert stream.get_type() == Types.LONG()
    assert stream.set_parallelism(2).get_name() == "numbers"
    env.add_source(source, "older")
    assert list(env._program.nodes.values())[1].spec.strategy is None


def test_wrong_sources(env: StreamExecutionEnvironment) -> None:
    none = WatermarkStrategy.no_watermarks()
    with pytest.raises(ProgramError, match=r"takes a source, but got .*brackets missing"):
        env.from_source(NumberSequenceSource, none, "x")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="subclass PythonSource"):
        env.add_source(object())
    with pytest.raises(ProgramError, match="takes a WatermarkStrategy, but got None"):
        env.from_source(NumberSequenceSource(1, 2), None, "x")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="a name is a text"):
        env.from_source(NumberSequenceSource(1, 2), none, "")
    with pytest.raises(ProgramError, match="takes an AvroInputFormat"):
        env.create_input(object())
    with pytest.raises(ProgramError, match="needs a DataFrame"):
        env.from_spark([1, 2])
    assert isinstance(SourceFunction, type)


# ---- graph, plan, execution ----


def test_a_stream_that_nobody_takes_is_warned_of(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "penstock")
    stream = env.from_collection([1])
    stream.map(str).name("lost")
    stream.map(str).name("kept").print()
    env.execute()
    texts = [record.getMessage() for record in caplog.records]
    assert [text for text in texts if "nothing takes" in text] == [
        "nothing takes what operator 'lost' gives; end it with print() or sink_to()."
    ]


def test_reprs(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    assert repr(env) == (
        "StreamExecutionEnvironment(parallelism=1, "
        "streams=['Collection Source', 'Print to Std. Out'])"
    )
    env.close()
    assert not env._program.nodes
