"""PyFlink's `common.execution_config`: settings of the program, kept in its configuration."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.restart_strategy import RestartStrategyConfiguration, restart_strategy_of
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.refused_names import names_of, refuses_methods
from penstock.core.times import to_millis

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

__getattr__ = names_of(__name__)


class ExecutionMode(Enum):
    """How Flink 1 exchanged data between the tasks of bounded jobs."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3


@refuses_methods
class ExecutionConfig:
    """A view on the configuration of an environment."""

    PARALLELISM_DEFAULT: ClassVar[int] = -1
    PARALLELISM_UNKNOWN: ClassVar[int] = -2

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _set(self, key: str, value: Any) -> ExecutionConfig:
        self._configuration.set(key, value)
        return self

    # ---- parallelism ----

    def get_parallelism(self) -> int:
        return int(self._configuration.get_integer("parallelism.default"))

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the default number of subtasks of an operator."""
        return self._set("parallelism.default", parallelism)

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 when it follows from the parallelism."""
        return int(self._configuration.get_integer("pipeline.max-parallelism"))

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        return self._set("pipeline.max-parallelism", max_parallelism)

    # ---- time ----

    def get_auto_watermark_interval(self) -> int:
        """Returns milliseconds; periodic watermarks come at the end of each epoch as well."""
        return int(self._configuration.get_duration_ms("pipeline.auto-watermark-interval"))

    def set_auto_watermark_interval(self, interval: Any) -> ExecutionConfig:
        return self._span("pipeline.auto-watermark-interval", interval)

    def get_task_cancellation_interval(self) -> int:
        return int(self._configuration.get_duration_ms("task.cancellation.interval"))

    def set_task_cancellation_interval(self, interval: Any) -> ExecutionConfig:
        return self._span("task.cancellation.interval", interval)

    def get_task_cancellation_timeout(self) -> int:
        return int(self._configuration.get_duration_ms("task.cancellation.timeout"))

    def set_task_cancellation_timeout(self, timeout: Any) -> ExecutionConfig:
        return self._span("task.cancellation.timeout", timeout)

    def _span(self, key: str, value: Any) -> ExecutionConfig:
        return self._set(key, f"{to_millis(value, key)} ms")

    # ---- uids and parameters ----

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self._set("pipeline.auto-generate-uids", value=True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Makes an operator without a uid an error."""
        return self._set("pipeline.auto-generate-uids", value=False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return bool(self._configuration.get_boolean("pipeline.auto-generate-uids"))

    def get_global_job_parameters(self) -> dict[str, str]:
        return self._configuration.get_map("pipeline.global-job-parameters")

    def set_global_job_parameters(
        self, global_job_parameters_dict: dict[str, Any]
    ) -> ExecutionConfig:
        """Sets what `runtime_context.get_job_parameter()` returns."""
        return self._set("pipeline.global-job-parameters", dict(global_job_parameters_dict))

    # ---- objects and types ----

    def enable_object_reuse(self) -> ExecutionConfig:
        """Reported as without effect: chained operators share records either way."""
        return self._set("pipeline.object-reuse", value=True)

    def disable_object_reuse(self) -> ExecutionConfig:
        return self._set("pipeline.object-reuse", value=False)

    def is_object_reuse_enabled(self) -> bool:
        return bool(self._configuration.get_boolean("pipeline.object-reuse"))

    def enable_generic_types(self) -> ExecutionConfig:
        """Lets state of any Python type be pickled."""
        return self._set("penstock.state.allow-pickle", value=True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Lets state be of declared types only."""
        return self._set("penstock.state.allow-pickle", value=False)

    def has_generic_types_disabled(self) -> bool:
        return not self._configuration.get_boolean("penstock.state.allow-pickle")

    def is_use_snapshot_compression(self) -> bool:
        return bool(self._configuration.get_boolean("execution.checkpointing.snapshot-compression"))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Reported as without effect: state files are compressed by their own format."""
        return self._set("execution.checkpointing.snapshot-compression", use_snapshot_compression)

    # ---- what is so anyway, and what is not there ----

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Says what is so anyway: functions are pickled with what they need."""
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        return True

    def disable_force_kryo(self) -> ExecutionConfig:
        """Says what is so anyway."""
        return self

    def is_force_kryo_enabled(self) -> bool:
        return False

    def disable_force_avro(self) -> ExecutionConfig:
        """Says what is so anyway."""
        return self

    def is_force_avro_enabled(self) -> bool:
        return False

    def disable_auto_type_registration(self) -> ExecutionConfig:
        """Says what is so anyway: types are not registered with serializers."""
        return self

    def is_auto_type_registration_disabled(self) -> bool:
        return True

    def get_execution_mode(self) -> ExecutionMode:
        """Returns PIPELINED; `set_runtime_mode()` of the environment says how bounded jobs run."""
        return ExecutionMode.PIPELINED

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """Says what is so anyway; a mode other than PIPELINED is refused."""
        if execution_mode is not ExecutionMode.PIPELINED:
            raise UnsupportedError(
                f"set_execution_mode({execution_mode}) is not supported, and Flink has dropped it; "
                "for bounded jobs call env.set_runtime_mode(RuntimeExecutionMode.BATCH)."
            )
        return self

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """Returns ANY, which is Flink 1's default."""
        return InputDependencyConstraint.ANY

    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> ExecutionConfig:
        """Says what is so anyway; ALL is refused."""
        if input_dependency_constraint is not InputDependencyConstraint.ANY:
            raise UnsupportedError(
                f"set_default_input_dependency_constraint({input_dependency_constraint}) is not "
                "supported, and Flink has dropped it: all operators run in every epoch."
            )
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        return restart_strategy_of(self._configuration)

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """Says what happens after a failure, as the environment's method of that name does."""
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):
            raise ProgramError(
                "set_restart_strategy() takes one of RestartStrategies, not "
                f"{restart_strategy_configuration!r:.80}."
            )
        restart_strategy_configuration.put_into(self._configuration)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and other._configuration == self._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)
