"""Settings of an environment: each one is a key of its configuration."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.common.execution_config import ExecutionConfig
from penstock.common.restart_strategy import restart_strategy_of
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.refused_names import Hints, earlier_keywords
from penstock.core.times import to_millis
from penstock.datastream.checkpoint_config import CheckpointConfig, checked_enum
from penstock.datastream.execution_mode import RuntimeExecutionMode, TimeCharacteristic
from penstock.datastream.program import (
    Program,
    checked_max_parallelism,
    checked_parallelism,
    checked_text,
)
from penstock.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)

if TYPE_CHECKING:
    from penstock.common.restart_strategy import RestartStrategyConfiguration
    from penstock.core.configuration import Configuration
    from penstock.datastream.checkpointing_mode import CheckpointingMode
    from penstock.datastream.slot_sharing_group import SlotSharingGroup

_log = logging.getLogger("penstock.program")
_OF_FLINK: Final = re.compile(r"(flink-|kafka-clients-)[^/]*\.jar")


_left_out: Final[set[str]] = set()


def _without_flinks(jars: tuple[str, ...]) -> list[str]:
    """Returns the jars that something may need; says of each other one, once, that nothing does."""
    kept = [jar for jar in jars if not _OF_FLINK.fullmatch(jar.rpartition("/")[2])]
    names = {jar.rpartition("/")[2]: None for jar in jars if jar not in kept}
    if new := [name for name in names if name not in _left_out]:
        _left_out.update(new)
        _log.warning("%s: left out; connectors and formats need no jars here.", ", ".join(new))
    return kept


class EnvironmentSettings(Hints):
    """Setters return the environment again."""

    _program: Program

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_configuration(self) -> Configuration:
        """Returns the configuration, with the source of every value.

        Example:
            >>> env.get_configuration().get_string("penstock.spark.master", "local[*]")
            'in-process'
        """
        return self._configuration

    def configure(self, configuration: Configuration) -> Self:
        """Adds the settings of a configuration.

        Example:
            >>> settings = Configuration().set_string("parallelism.default", "4")
            >>> env.configure(settings).get_parallelism()
            4
        """
        self._configuration.add_all(configuration)
        return self

    def _set(self, key: str, value: Any) -> Self:
        self._configuration.set(key, value)
        return self

    # ---- parallelism, chaining, mode ----

    def get_parallelism(self) -> int:
        """Returns the parallelism of operators that set none.

        Example:
            >>> _ = env.set_parallelism(4)
            >>> env.get_parallelism()
            4
        """
        key = "parallelism.default"
        return checked_parallelism(self._configuration.get_integer(key), key)

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the default number of subtasks of an operator.

        Example:
            >>> _ = env.set_parallelism(2)
            >>> env.get_parallelism()
            2
        """
        checked_parallelism(parallelism, "the parallelism of the environment")
        return self._set("parallelism.default", parallelism)

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 when it follows from the parallelism.

        Example:
            >>> env.get_max_parallelism()
            -1
            >>> env.set_max_parallelism(64).get_max_parallelism()
            64
        """
        key = "pipeline.max-parallelism"
        number = int(self._configuration.get_integer(key))
        return number if number == -1 else checked_max_parallelism(number, key)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the number of key groups, the limit of later rescaling.

        Example:
            >>> _ = env.set_max_parallelism(256)
            >>> env.get_max_parallelism()
            256
        """
        checked_max_parallelism(max_parallelism, "the max parallelism of the environment")
        return self._set("pipeline.max-parallelism", max_parallelism)

    def get_default_local_parallelism(self) -> int:
        """Returns the parallelism of environments that say none.

        Example:
            >>> env.get_default_local_parallelism()
            1
        """
        return self.get_parallelism()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Sets the parallelism for when the program says none; one environment is all there is.

        Example:
            >>> _ = env.set_default_local_parallelism(2)
            >>> env.get_parallelism()
            2
        """
        if not self._configuration.contains_key("parallelism.default"):
            self.set_parallelism(parallelism)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Accepted and reported: Spark gives resources to executors, not to groups of operators.

        Example:
            >>> group = SlotSharingGroup.builder("models").build()
            >>> _ = env.register_slot_sharing_group(group)
        """
        self._program.remark(
            f"the resources of slot sharing group '{slot_sharing_group.get_name()}' have no "
            "effect: Spark has no slots. Set spark.executor.memory and spark.executor.cores."
        )
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Sets whether results come as they change, or only at the end of bounded input.

        Example:
            >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
            >>> pairs = env.from_collection([("a", 1), ("b", 1), ("a", 1)])
            >>> pairs.key_by(lambda pair: pair[0]).sum(1).take()
            [('a', 2), ('b', 1)]
        """
        mode = checked_enum(execution_mode, RuntimeExecutionMode, "the runtime mode")
        return self._set("execution.runtime-mode", mode.name)

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Returns EventTime, which is Flink's default since 1.12.

        Example:
            >>> env.get_stream_time_characteristic().name
            'EventTime'
        """
        return TimeCharacteristic.EventTime

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Accepted from programs of Flink 1: the window assigners of a program say their time.

        Example:
            >>> _ = env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
        """
        wanted = checked_enum(characteristic, TimeCharacteristic, "the time characteristic")
        if wanted is TimeCharacteristic.IngestionTime:
            raise UnsupportedError(
                "TimeCharacteristic.IngestionTime is not supported, and Flink has dropped it; use "
                "windows of processing time, or call assign_timestamps_and_watermarks() with the "
                "records' own time."
            )
        if wanted is TimeCharacteristic.ProcessingTime:
            self._program.remark(
                "TimeCharacteristic.ProcessingTime has no effect: windows and timers are of "
                "processing time where the program says so, as with TumblingProcessingTimeWindows."
            )

    def disable_operator_chaining(self) -> Self:
        """Runs every operator in a stage of its own.

        Example:
            >>> _ = env.disable_operator_chaining()
            >>> env.is_chaining_enabled()
            False
        """
        return self._set("pipeline.operator-chaining.enabled", value=False)

    def is_chaining_enabled(self) -> bool:
        """Returns whether operators may share a stage.

        Example:
            >>> env.is_chaining_enabled()
            True
            >>> env.disable_operator_chaining().is_chaining_enabled()
            False
        """
        return bool(self._configuration.get_boolean("pipeline.operator-chaining.enabled"))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Returns False: chained operators share their key groups.

        Example:
            >>> env.is_chaining_of_operators_with_different_max_parallelism_enabled()
            False
        """
        return False

    def get_buffer_timeout(self) -> int:
        """Returns what the program set; it has no effect.

        Example:
            >>> env.get_buffer_timeout()
            100
        """
        return int(self._configuration.get_duration_ms("execution.buffer-timeout.interval"))

    def set_buffer_timeout(self, timeout_millis: Any) -> Self:
        """Accepted and reported: records travel once per epoch, there are no buffers to flush.

        Example:
            >>> _ = env.set_buffer_timeout(10)
            >>> env.get_buffer_timeout()
            10
        """
        millis = to_millis(timeout_millis, "the buffer timeout")
        if millis < -1:
            raise ProgramError(f"the buffer timeout is {millis} ms; it must be at least -1.")
        return self._set("execution.buffer-timeout.interval", f"{max(millis, 0)} ms")

    # ---- checkpoints, state, recovery ----

    def _checkpoints(self) -> CheckpointConfig:
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: Any, mode: CheckpointingMode | None = None) -> Self:
        """Takes checkpoints at an interval; a span or milliseconds.

        Example:
            >>> _ = env.enable_checkpointing(Duration.of_seconds(10))
            >>> env.get_checkpoint_interval()
            10000
        """
        self._checkpoints().set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoints().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Returns milliseconds; -1 when checkpointing is off.

        Example:
            >>> env.get_checkpoint_interval()
            -1
            >>> env.enable_checkpointing(5_000).get_checkpoint_interval()
            5000
        """
        return self._checkpoints().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns EXACTLY_ONCE, the only mode.

        Example:
            >>> env.get_checkpointing_mode().name
            'EXACTLY_ONCE'
        """
        return self._checkpoints().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns False: checkpoints are always aligned.

        Example:
            >>> env.is_unaligned_checkpoints_enabled()
            False
        """
        return self._checkpoints().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns False: checkpoints are always aligned.

        Example:
            >>> env.is_force_unaligned_checkpoints()
            False
        """
        return self._checkpoints().is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Sets where savepoints go that are taken without a directory.

        Example:
            >>> _ = env.set_default_savepoint_directory('file:///savepoints')
            >>> env.get_default_savepoint_directory()
            'file:///savepoints'
        """
        return self._set(
            "execution.checkpointing.savepoint-dir", checked_text(directory, "a directory")
        )

    def get_default_savepoint_directory(self) -> str | None:
        """Returns where savepoints without a path are written; None if nothing says so.

        Example:
            >>> _ = env.set_default_savepoint_directory("file:///savepoints")
            >>> env.get_default_savepoint_directory()
            'file:///savepoints'
        """
        directory: str | None = self._configuration.get_string(
            "execution.checkpointing.savepoint-dir"
        )
        return directory

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Sets how working state is kept.

        Example:
            >>> _ = env.set_state_backend(EmbeddedRocksDBStateBackend())
            >>> env.get_state_backend()
            EmbeddedRocksDBStateBackend()
        """
        if not isinstance(state_backend, StateBackend):
            raise ProgramError(
                f"set_state_backend() takes a StateBackend, not {state_backend!r:.80}. Use "
                "HashMapStateBackend() or EmbeddedRocksDBStateBackend()."
            )
        state_backend.put_into(self._configuration)
        return self

    def get_state_backend(self) -> StateBackend:
        """Returns the backend that the configuration names.

        Example:
            >>> _ = env.set_state_backend(EmbeddedRocksDBStateBackend())
            >>> env.get_state_backend()
            EmbeddedRocksDBStateBackend()
        """
        if self._configuration.get_enum("state.backend.type") == "rocksdb":
            return EmbeddedRocksDBStateBackend()
        return HashMapStateBackend()

    def enable_changelog_state_backend(self, enabled: bool = True) -> Self:
        """Accepted and reported: every epoch's changes are logged anyway.

        Example:
            >>> _ = env.enable_changelog_state_backend()
            >>> env.is_changelog_state_backend_enabled()
            True
        """
        return self._set("state.changelog.enabled", bool(enabled))

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Returns what the program said, None if nothing.

        Example:
            >>> env.is_changelog_state_backend_enabled() is None
            True
        """
        if not self._configuration.contains_key("state.changelog.enabled"):
            return None
        return bool(self._configuration.get_boolean("state.changelog.enabled"))

    @earlier_keywords(restart_strategy_configuration="restart_strategy")
    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> Self:
        """Sets what happens after a failure.

        Example:
            >>> strategy = RestartStrategies.fixed_delay_restart(3, Duration.of_seconds(10))
            >>> env.set_restart_strategy(strategy).get_restart_strategy() == strategy
            True
        """
        ExecutionConfig(self._configuration).set_restart_strategy(restart_strategy)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Returns the strategy that the configuration names.

        Example:
            >>> _ = env.set_restart_strategy(RestartStrategies.no_restart())
            >>> env.get_restart_strategy() == RestartStrategies.no_restart()
            True
        """
        return restart_strategy_of(self._configuration)

    # ---- what workers need ----

    def add_python_file(self, file_path: str) -> Self:
        """Ships a module, package or zip file to the workers.

        Example:
            >>> _ = (folder / "units.py").write_text("def celsius(f): return (f - 32) * 5 / 9")
            >>> _ = env.add_python_file(str(folder / "units.py"))
            >>> def convert(degrees):
            ...     import units
            ...
            ...     return units.celsius(degrees)
            >>> env.from_collection([212]).map(convert).take()
            [100.0]
        """
        return self._append("python.files", file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> Self:
        """Ships an archive, which is unpacked below the working directory of the functions.

        `open("target_dir/name")` in a function then opens a file of it. In a job that runs in this
        process, its working directory is another one while such a job runs.

        Args:
            archive_path: A zip or tar file.
            target_dir: Name of the directory it is unpacked to; that of the file if None, such as
                `data.zip`.

        Example:
            >>> with zipfile.ZipFile(folder / "data.zip", "w") as archive:
            ...     archive.writestr("capitals.txt", "Paris")
            >>> _ = env.add_python_archive(str(folder / "data.zip"), "data")
            >>> def capital(_):
            ...     with open("data/capitals.txt") as lines:
            ...         return lines.read()
            >>> env.from_collection([1]).map(capital).take()
            ['Paris']
        """
        name = checked_text(archive_path, "the path of an archive")
        return self._append("python.archives", f"{name}#{target_dir}" if target_dir else name)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> Self:
        """Names the file of packages that the workers need.

        Example:
            >>> _ = (folder / "requirements.txt").write_text("pytest")
            >>> _ = env.set_python_requirements(str(folder / "requirements.txt"))
        """
        path = checked_text(requirements_file_path, "the path of a requirements file")
        if requirements_cache_dir:
            path = f"{path}#{requirements_cache_dir}"
        return self._set("python.requirements", path)

    def set_python_executable(self, python_exec: str) -> Self:
        """Names the interpreter of the workers.

        Example:
            >>> _ = env.set_python_executable(sys.executable)
        """
        return self._set("python.executable", checked_text(python_exec, "an interpreter"))

    def add_jars(self, *jars_path: str) -> Self:
        """Ships jars to Spark's executors; those of Flink and its connectors are left out.

        Example:
            >>> _ = (folder / "driver.jar").write_bytes(b"")
            >>> _ = env.add_jars((folder / "driver.jar").as_uri())
        """
        key = "penstock.spark.conf.spark.jars"
        wanted = _without_flinks(jars_path)
        if not wanted:
            return self
        present = self._configuration.get_string(key, "").split(",")
        return self._set(key, ",".join([jar for jar in present if jar] + wanted))

    def add_classpaths(self, *classpaths: str) -> Self:
        """Leaves out the jars of Flink and its connectors; others belong to `add_jars`.

        Example:
            >>> _ = env.add_classpaths("file:///jars/flink-sql-connector-kafka-1.17.1.jar")
        """
        wanted = _without_flinks(classpaths)
        if wanted:
            raise UnsupportedError(
                f"add_classpaths() is not supported, got {wanted[0]}; use add_jars(), or Spark's "
                "spark.driver.extraClassPath."
            )
        return self

    def _append(self, key: str, value: str) -> Self:
        items = [*self._configuration.get_list(key), checked_text(value, f"a path for {key}")]
        return self._set(key, items)
