"""Programs as Flink 1's documents write them: what Flink 2 has dropped is there, or says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import ExecutionMode, RestartStrategies, Types
from penstock.common.serialization import SimpleStringEncoder
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.datastream import (
    ExternalizedCheckpointCleanup,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.datastream.checkpoint_storage import (
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.connectors import (
    DefaultRollingPolicy,
    OutputFileConfig,
    StreamingFileSink,
)
from penstock.datastream.functions import (
    CoMapFunction,
    KeyedProcessFunction,
    RuntimeContext,
    SourceFunction,
    TimerService,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend

if TYPE_CHECKING:
    from pathlib import Path

Env = StreamExecutionEnvironment


@pytest.mark.filterwarnings("ignore:StreamingFileSink is deprecated")
def test_a_file_sink_of_flink_1_12(env: Env, tmp_path: Path) -> None:
    """The whole set-up of an early program: time, checkpoints, backend, restarts, sink."""
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    env.enable_checkpointing(1000)
    checkpoints = env.get_checkpoint_config()
    checkpoints.enable_externalized_checkpoints(
        ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    )
    checkpoints.set_prefer_checkpoint_for_recovery(True)
    env.set_state_backend(FsStateBackend((tmp_path / "checkpoints").as_uri()))
    env.get_config().set_execution_mode(ExecutionMode.PIPELINED)
    env.get_config().set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
    sink = (
        StreamingFileSink.for_row_format(str(tmp_path / "out"), SimpleStringEncoder("UTF-8"))
        .with_rolling_policy(
            DefaultRollingPolicy.builder()
            .with_max_part_size(1024 * 1024)
            .with_rollover_interval(15 * 60 * 1000)
            .with_inactivity_interval(5 * 60 * 1000)
            .build()
        )
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("words").build())
        .build()
    )
    words = env.from_collection(["to", "be", "to"], type_info=Types.STRING())
    words.map(str.upper, output_type=Types.STRING()).add_sink(sink)
    env.execute("early")

    written = [path for path in (tmp_path / "out").rglob("words-*") if path.is_file()]
    lines = [line for path in written for line in path.read_text().splitlines()]
    assert sorted(lines) == ["BE", "TO", "TO"]
    assert (tmp_path / "checkpoints").is_dir()
    assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
    strategy = RestartStrategies.fixed_delay_restart(3, 10_000)
    assert env.get_restart_strategy() == strategy == env.get_config().get_restart_strategy()
    kept = checkpoints.get_externalized_checkpoint_cleanup()
    assert kept is ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION


def test_timers_with_the_imports_of_flink_1_12(env: Env) -> None:
    """`out: Collector` was never in PyFlink; `TimerService` was in `functions`."""

    class Last(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            timers: TimerService = ctx.timer_service()
            timers.register_event_time_timer(10)
            self.last.update(value[1])

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
            yield ctx.get_current_key(), self.last.value()

    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    keyed = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING())
    latest = keyed.process(Last(), Types.TUPLE([Types.STRING(), Types.INT()]))
    with latest.execute_and_collect() as found:
        assert sorted(found) == [("a", 3), ("b", 2)]


@pytest.mark.parametrize(
    ("backend", "kind", "storage"),
    [
        (MemoryStateBackend(), HashMapStateBackend, JobManagerCheckpointStorage()),
        (
            MemoryStateBackend(max_state_size=1000),
            HashMapStateBackend,
            JobManagerCheckpointStorage(max_state_size=1000),
        ),
        (
            FsStateBackend("file:///c"),
            HashMapStateBackend,
            FileSystemCheckpointStorage("file:///c"),
        ),
        (
            RocksDBStateBackend("file:///c", enable_incremental_checkpointing=True),
            EmbeddedRocksDBStateBackend,
            FileSystemCheckpointStorage("file:///c"),
        ),
        (
            RocksDBStateBackend(checkpoint_stream_backend=MemoryStateBackend()),
            EmbeddedRocksDBStateBackend,
            JobManagerCheckpointStorage(),
        ),
    ],
)
def test_a_backend_of_flink_1_is_a_backend_and_a_storage(
    env: Env, backend: Any, kind: type, storage: Any
) -> None:
    """As Flink's guide of the migration from these backends says."""
    env.set_state_backend(backend)
    assert type(env.get_state_backend()) is kind
    assert env.get_checkpoint_config().get_checkpoint_storage() == storage
    assert isinstance(backend, kind)


def test_what_flink_1_said_about_its_backends() -> None:
    backend = FsStateBackend("file:///c", "file:///s", 100, 8192)
    assert backend.get_checkpoint_path() == "file:///c"
    assert backend.get_min_file_size_threshold() == 100
    assert backend.get_write_buffer_size() == 8192
    assert backend.settings["execution.checkpointing.savepoint-dir"] == "file:///s"
    rocks = RocksDBStateBackend("file:///c", True)
    rocks.set_number_of_transfering_threads(2)
    assert rocks.get_number_of_transfering_threads() == 2
    assert rocks.is_incremental_checkpoints_enabled()
    assert rocks.get_checkpoint_backend() == FsStateBackend("file:///c")
    assert MemoryStateBackend().get_max_state_size() == 5 * 1024 * 1024
    with pytest.raises(ProgramError, match="needs the directory"):
        FsStateBackend()


def test_processing_time_says_that_windows_say_it(
    env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    env.from_collection([1]).print()
    env.execute()
    assert "TimeCharacteristic.ProcessingTime has no effect" in caplog.text
    with pytest.raises(UnsupportedError, match="IngestionTime"):
        env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)


def test_what_is_gone_says_what_to_use(env: Env) -> None:
    with pytest.raises(UnsupportedError, match="set_runtime_mode"):
        env.get_config().set_execution_mode(ExecutionMode.BATCH)
    with pytest.raises(UnsupportedError, match="pickled"):
        env.register_type("org.example.Event")
    with pytest.raises(UnsupportedError, match="fromSavepoint"):
        env.get_checkpoint_config().set_prefer_checkpoint_for_recovery(False)


def test_keywords_that_had_other_names(env: Env) -> None:
    """`result_type` and `key_type_info` are of 1.12 and 1.13, the others of 1.20."""
    env.set_restart_strategy(restart_strategy_configuration=RestartStrategies.no_restart())
    env.get_checkpoint_config().enable_externalized_checkpoints(
        cleanup_mode=ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    )
    EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(number_of_transfering_threads=2)
    words = env.from_collection(["to be", "to do"]).flat_map(str.split, result_type=Types.STRING())
    lengths = words.map(len, result_type=Types.INT())
    assert lengths.get_type() == Types.INT()
    keyed = words.key_by(lambda word: word, key_type_info=Types.STRING()).key_by(
        lambda word: word[0], key_type_info=Types.STRING()
    )
    pairs = keyed.count_window(2).apply(
        lambda key, window, elements: [key + str(len(list(elements)))], result_type=Types.STRING()
    )
    firsts = keyed.count_window(2).process(
        lambda key, context, elements: [next(iter(elements))], result_type=Types.STRING()
    )
    both = words.connect(words).key_by(len, len, key_type_info=Types.INT())
    assert both.map(SameWord(), Types.STRING()).get_type() == pairs.get_type() == Types.STRING()
    assert sorted(pairs.union(firsts).execute_and_collect()) == ["t2", "to"]


class SameWord(CoMapFunction):
    def map1(self, value: str) -> str:
        return value

    def map2(self, value: str) -> str:
        return value


def test_a_source_of_javas_shape_says_what_it_must_have() -> None:
    with pytest.raises(ProgramError, match=r"class Ticks: a source has splits\(\) and read"):

        class Ticks(SourceFunction):
            def run(self, ctx: Any) -> None:
                ctx.collect(1)
