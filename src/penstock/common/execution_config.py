"""PyFlink's `common.execution_config`: settings of the program, kept in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.unsupported import unsupported_method
from penstock.core.duration import to_millis

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

__all__ = ["ExecutionConfig"]

_PATH: Final = "common.execution_config.ExecutionConfig."


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

    disable_closure_cleaner = unsupported_method(_PATH + "disable_closure_cleaner")
    set_latency_tracking_interval = unsupported_method(_PATH + "set_latency_tracking_interval")
    get_latency_tracking_interval = unsupported_method(_PATH + "get_latency_tracking_interval")
    enable_force_kryo = unsupported_method(_PATH + "enable_force_kryo")
    enable_force_avro = unsupported_method(_PATH + "enable_force_avro")
    get_default_kryo_serializer_classes = unsupported_method(
        _PATH + "get_default_kryo_serializer_classes"
    )
    get_registered_kryo_types = unsupported_method(_PATH + "get_registered_kryo_types")
    get_registered_pojo_types = unsupported_method(_PATH + "get_registered_pojo_types")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and other._configuration == self._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)
