"""Checkpoint, state and execution settings are views on the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common import (
    Duration,
)
from penstock.common.execution_config import ExecutionConfig
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    StreamExecutionEnvironment,
)

CP = "execution.checkpointing."


def settings(env: StreamExecutionEnvironment) -> dict[str, str]:
    found = env.get_configuration().to_dict()
    del found["penstock.spark.master"]
    return found


def test_a_restart_strategy_is_one_of_them(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match="takes one of RestartStrategies, not 'none'"):
        env.get_config().set_restart_strategy("none")  # type: ignore[arg-type]


@pytest.mark.parametrize("directory", [None, "", " "])
def test_a_directory_of_checkpoints_has_a_name(
    env: StreamExecutionEnvironment, directory: str | None
) -> None:
    with pytest.raises(ProgramError, match="names no directory"):
        env.get_checkpoint_config().set_checkpoint_storage_dir(directory)  # type: ignore[arg-type]


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
