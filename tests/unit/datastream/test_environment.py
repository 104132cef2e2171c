"""Every setter is a key of the configuration; sources become nodes; execution takes the program."""

from __future__ import annotations

import datetime
import inspect
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import (
    Configuration,
    Duration,
    JobStatus,
    RestartStrategies,
    Row,
    Types,
    WatermarkStrategy,
)
from penstock.common.execution_config import ExecutionConfig
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
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


def test_checkpoint_config(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert not config.is_checkpointing_enabled()
    config.set_checkpoint_interval(Duration.of_seconds(30)).set_checkpoint_timeout("5 min")
    config.set_min_pause_between_checkpoints(500).set_max_concurrent_checkpoints(2)
    config.set_tolerable_checkpoint_failure_number(3)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.set_externalized_checkpoint_retention(
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    )
    config.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout(Duration.of_seconds(1))
    config.set_force_unaligned_checkpoints().set_checkpoint_storage_dir("file:///c")
    again = env.get_checkpoint_config()
    assert again.is_checkpointing_enabled()
    assert again.get_checkpoint_interval() == 30_000
    assert again.get_checkpoint_timeout() == 300_000
    assert again.get_min_pause_between_checkpoints() == 500
    assert again.get_max_concurrent_checkpoints() == 2
    assert again.get_tolerable_checkpoint_failure_number() == 3
    assert not again.is_fail_on_checkpointing_errors()
    assert again.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert again.is_externalized_checkpoints_enabled()
    assert again.get_externalized_checkpoint_retention() is (
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    )
    assert again.is_unaligned_checkpoints_enabled()
    assert env.is_unaligned_checkpoints_enabled()
    assert env.is_force_unaligned_checkpoints()
    assert again.get_aligned_checkpoint_timeout() == Duration.of_seconds(1)
    assert again.get_alignment_timeout() == Duration.of_seconds(1)
    assert again.get_checkpoint_storage() == FileSystemCheckpointStorage("file:///c")
    assert repr(again) == "CheckpointConfig(every 30000 ms)"


def test_failing_on_checkpoint_errors_is_a_number(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(False)
    assert config.get_tolerable_checkpoint_failure_number() == 2_147_483_647
    config.set_fail_on_checkpointing_errors(True)
    assert config.get_tolerable_checkpoint_failure_number() == 0


@pytest.mark.parametrize(
    ("verb", "argument"),
    [
        ("set_checkpoint_interval", 9),
        ("set_checkpoint_timeout", 9),
        ("set_min_pause_between_checkpoints", -1),
        ("set_max_concurrent_checkpoints", 0),
        ("set_tolerable_checkpoint_failure_number", -1),
        ("set_checkpointing_mode", "EXACTLY_ONCE"),
        ("set_externalized_checkpoint_retention", None),
        ("set_checkpoint_storage", "file:///c"),
    ],
)
def test_wrong_checkpoint_settings(
    env: StreamExecutionEnvironment, verb: str, argument: Any
) -> None:
    with pytest.raises(ProgramError, match=r"must be|takes a CheckpointStorage"):
        getattr(env.get_checkpoint_config(), verb)(argument)


def test_checkpoint_storages(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_storage() is None
    config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///c", 1024, 8192))
    assert settings(env) == {
        CP + "storage": "filesystem",
        CP + "dir": "file:///c",
        CP + "data-inline-threshold": "1024",
        CP + "write-buffer-size": "8192",
    }
    files = FileSystemCheckpointStorage("file:///c")
    assert files.get_min_file_size_threshold() == 20_480
    # The buffer is at least as large as what is held back.
    assert files.get_write_buffer_size() == 20_480
    memory = JobManagerCheckpointStorage()
    assert memory.get_max_state_size() == 5_242_880
    assert memory.settings[CP + "storage"] == "jobmanager"
    with pytest.raises(ProgramError, match="needs the directory"):
        FileSystemCheckpointStorage()
    with pytest.raises(ProgramError, match="the limit is 1048576"):
        FileSystemCheckpointStorage("file:///c", 2 * 1024 * 1024)


def test_rocksdb_settings() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert not backend.is_incremental_checkpoints_enabled()
    backend.set_db_storage_paths("/fast")
    backend.set_number_of_transfer_threads(8)
    assert backend.settings == {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": "/fast",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "8",
    }
    with pytest.raises(ProgramError, match="got 2 directories; give one"):
        backend.set_db_storage_paths("/a", "/b")
    with pytest.raises(UnsupportedError, match="no Java classes"):
        backend.set_options("com.example.Options")


def test_execution_config(env: StreamExecutionEnvironment) -> None:
    config = env.get_config()
    config.set_parallelism(2).set_max_parallelism(16).set_auto_watermark_interval(50)
    config.disable_auto_generated_uids().set_global_job_parameters({"a": 1})
    config.disable_generic_types().set_task_cancellation_timeout("1 s")
    assert (config.get_parallelism(), config.get_max_parallelism()) == (2, 16)
    assert config.get_auto_watermark_interval() == 50
    assert not config.has_auto_generated_uids_enabled()
    assert config.get_global_job_parameters() == {"a": "1"}
    assert config.has_generic_types_disabled()
    assert config.get_task_cancellation_timeout() == 1_000
    assert config.is_closure_cleaner_enabled()
    assert config == ExecutionConfig(env.get_configuration())
    with pytest.raises(UnsupportedError, match=r"ExecutionConfig.enable_force_kryo"):
        config.enable_force_kryo()


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
    with pytest.raises(UnsupportedError, match="use from_source"):
        env.create_input(object())
    with pytest.raises(ProgramError, match="needs a DataFrame"):
        env.from_spark([1, 2])
    assert isinstance(SourceFunction, type)


# ---- graph, plan, execution ----


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
    env.from_collection([1]).set_buffer_timeout(5).add_sink(lambda value: None)
    with caplog.at_level(logging.WARNING, "penstock.environment"):
        env.execute()
    messages = [record.getMessage() for record in caplog.records]
    assert any("Did you mean 'parallelism.default'?" in message for message in messages)
    assert any("set_buffer_timeout(5)" in message for message in messages)


def test_reprs(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    assert repr(env) == (
        "StreamExecutionEnvironment(parallelism=1, ['Collection Source', 'Print to Std. Out'])"
    )
    env.close()
    assert not env._program.nodes
