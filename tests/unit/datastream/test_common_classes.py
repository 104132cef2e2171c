"""The small classes of `penstock.common` and of resources: what they say and do."""

from __future__ import annotations

import datetime
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import (
    ByteArraySchema,
    CompletableFuture,
    ConfigOptions,
    Configuration,
    JobExecutionResult,
    JobID,
    RestartStrategies,
    SimpleStringSchema,
)
from penstock.core.errors import ConfigurationError, ProgramError
from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup

if TYPE_CHECKING:
    from penstock.datastream import StreamExecutionEnvironment


def test_schemas() -> None:
    assert SimpleStringSchema().serialize("ä") == b"\xc3\xa4"
    assert SimpleStringSchema("latin-1").serialize("ä") == b"\xe4"
    assert SimpleStringSchema().serialize(5) == b"5"
    assert SimpleStringSchema("latin-1").deserialize(b"\xe4") == "ä"
    with pytest.raises(ProgramError, match="klingon"):
        SimpleStringSchema("klingon")
    assert ByteArraySchema().deserialize(ByteArraySchema().serialize(bytearray(b"a"))) == b"a"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean_type", "true", True),
        ("int_type", "7", 7),
        ("long_type", "1099511627776", 2**40),
        ("float_type", "1.5", 1.5),
        ("double_type", "2.5", 2.5),
        ("string_type", "7", "7"),
    ],
)
def test_options_of_a_program(kind: str, text: str, value: Any) -> None:
    builder = getattr(ConfigOptions.key("my.own"), kind)()
    configuration = Configuration()
    assert configuration.get(builder.no_default_value()) is None
    assert configuration.get(builder.default_value(value)) == value
    configuration.set_string("my.own", text)
    assert configuration.get(builder.no_default_value()) == value
    configuration.set(builder.default_value(None), value)
    assert configuration.get_string("my.own") == text
    if kind == "int_type":
        configuration.set_string("my.own", "many")
        with pytest.raises(ConfigurationError, match=r"my.own is 'many', but it must be a whole"):
            configuration.get(builder.default_value(1))


def test_an_answer_that_is_on_its_way() -> None:
    future: Future[int] = Future()
    answer = CompletableFuture(future, str)
    assert (answer.done(), answer.exception()) == (False, None)
    future.set_result(5)
    assert (answer.done(), answer.cancelled(), answer.cancel()) == (True, False, False)
    assert answer.result() == "5"
    failed: Future[int] = Future()
    failed.set_exception(ValueError("x"))
    assert isinstance(CompletableFuture(failed).exception(), ValueError)


def test_who_gives_up_an_answer_disturbs_nobody_else() -> None:
    future: Future[int] = Future()
    mine, other = CompletableFuture(future), CompletableFuture(future)
    assert (mine.cancel(), mine.cancelled(), mine.done()) == (True, True, True)
    assert (other.cancelled(), other.done()) == (False, False)
    future.set_result(5)
    assert other.result() == 5
    assert mine.exception() is None
    with pytest.raises(CancelledError):
        mine.result()


def test_restart_strategies_say_what_they_are() -> None:
    seconds = datetime.timedelta(seconds=1)
    fixed: Any = RestartStrategies.fixed_delay_restart(3, 2000)
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == 2 * seconds
    assert fixed.get_description() == "Restart with fixed delay (2 s). #3 restart attempts."
    rate: Any = RestartStrategies.failure_rate_restart(4, 60 * seconds, 5 * seconds)
    assert rate.get_max_failure_rate() == 4
    assert rate.get_failure_interval() == 60 * seconds
    assert rate.get_delay_between_attempts_interval() == 5 * seconds
    assert "4 failures within 1 min and fixed delay 5 s" in rate.get_description()
    assert fixed == RestartStrategies.fixed_delay_restart(3, 2 * seconds)
    assert len({fixed, RestartStrategies.fixed_delay_restart(3, 2 * seconds), rate}) == 2


@pytest.mark.parametrize(
    ("on", "off", "asked", "key", "at_first"),
    [
        (
            "enable_auto_generated_uids",
            "disable_auto_generated_uids",
            "has_auto_generated_uids_enabled",
            "pipeline.auto-generate-uids",
            True,
        ),
        (
            "enable_object_reuse",
            "disable_object_reuse",
            "is_object_reuse_enabled",
            "pipeline.object-reuse",
            False,
        ),
        (
            "disable_generic_types",
            "enable_generic_types",
            "has_generic_types_disabled",
            "penstock.state.allow-pickle",
            False,
        ),
    ],
)
def test_switches_of_the_execution_config(
    env: StreamExecutionEnvironment, on: str, off: str, asked: str, key: str, at_first: bool
) -> None:
    config = env.get_config()
    assert getattr(config, asked)() is at_first
    assert getattr(config, on)() is config
    assert getattr(env.get_config(), asked)() is True
    assert getattr(config, off)() is config
    assert getattr(env.get_config(), asked)() is False
    assert str(env.get_configuration().setting(key)).startswith("code ")


def test_other_settings_of_the_execution_config(env: StreamExecutionEnvironment) -> None:
    config = env.get_config()
    config.set_task_cancellation_interval(datetime.timedelta(seconds=7))
    assert env.get_config().get_task_cancellation_interval() == 7000
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
    fixed = config.enable_closure_cleaner().disable_force_kryo().disable_force_avro()
    assert fixed.is_closure_cleaner_enabled()
    assert not fixed.is_force_kryo_enabled() and not fixed.is_force_avro_enabled()


def test_wishes_for_resources() -> None:
    size = MemorySize.of_mebi_bytes(3 << 20)
    assert (size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes()) == (
        3 << 40,
        3 << 30,
        3 << 20,
    )
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 << 10, 3)
    assert str(MemorySize(5)) == "5 bytes"
    with pytest.raises(ProgramError, match="at least 0"):
        MemorySize(-1)
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_external_resource("gpu", 2.0)
    builder = builder.set_task_heap_memory_mb(1).set_task_off_heap_memory_mb(2)
    group = builder.set_managed_memory_mb(3).set_external_resource("disk", 1.0).build()
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.5)
    assert group.get_external_resources() == {"gpu": 2.0, "disk": 1.0}
    assert group.get_task_heap_memory() == MemorySize(1 << 20)
    assert group.get_task_off_heap_memory() == MemorySize(2 << 20)
    assert group.get_managed_memory() == MemorySize(3 << 20)


def test_result_of_a_job() -> None:
    result = JobExecutionResult(JobID("0f" * 16), 1200)
    assert result.is_job_execution_result()
    assert str(result).splitlines() == [
        "Program execution finished",
        f"Job with JobID {'0f' * 16} has finished.",
        "Job Runtime: 1200 ms",
    ]
