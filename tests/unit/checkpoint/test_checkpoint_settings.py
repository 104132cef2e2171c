"""Settings of checkpointing: defaults, old names, limits."""

from __future__ import annotations

import pytest

from penstock.checkpoint.settings import CheckpointSettings, RetentionPolicy, StorageKind
from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError


def read(**values: str) -> CheckpointSettings:
    prefix = "execution.checkpointing."
    return CheckpointSettings.from_configuration(
        Configuration.from_dict(
            {prefix + key.replace("_", "-"): value for key, value in values.items()}
        )
    )


def test_defaults_are_flinks() -> None:
    assert read() == CheckpointSettings(
        interval_ms=None,
        timeout_ms=600_000,
        min_pause_ms=0,
        max_concurrent=1,
        tolerable_failures=0,
        num_retained=1,
        retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS,
        interval_during_backlog_ms=None,
        checkpoints_after_tasks_finish=True,
        storage=StorageKind.JOB_MANAGER,
        directory=None,
        savepoint_directory=None,
        create_subdirectory=True,
        inline_threshold_bytes=20_480,
        incremental=False,
        history_size=10,
    )
    assert not read().is_enabled


def test_every_key() -> None:
    settings = read(
        interval="12 min",
        timeout="1 min",
        min_pause="500 ms",
        max_concurrent_checkpoints="3",
        tolerable_failed_checkpoints="4",
        num_retained="20",
        externalized_checkpoint_retention="retain-on-cancellation",
        interval_during_backlog="0",
        checkpoints_after_tasks_finish="false",
        dir="s3://bucket/checkpoints",
        savepoint_dir="s3://bucket/savepoints",
        create_subdir="false",
        data_inline_threshold="1kb",
        incremental="true",
    )
    assert settings == CheckpointSettings(
        interval_ms=720_000,
        timeout_ms=60_000,
        min_pause_ms=500,
        max_concurrent=3,
        tolerable_failures=4,
        num_retained=20,
        retention=RetentionPolicy.RETAIN_ON_CANCELLATION,
        interval_during_backlog_ms=0,
        checkpoints_after_tasks_finish=False,
        storage=StorageKind.FILE_SYSTEM,
        directory="s3://bucket/checkpoints",
        savepoint_directory="s3://bucket/savepoints",
        create_subdirectory=False,
        inline_threshold_bytes=1_024,
        incremental=True,
    )


def test_old_names() -> None:
    settings = CheckpointSettings.from_configuration(
        Configuration.from_dict(
            {
                "state.checkpoints.dir": "/data/chk",
                "state.checkpoints.num-retained": "5",
                "state.backend.fs.memory-threshold": "2048",
                "state.backend.incremental": "true",
                "jobmanager.web.checkpoints.history": "7",
            }
        )
    )
    assert settings.directory == "/data/chk"
    assert settings.storage is StorageKind.FILE_SYSTEM
    assert (settings.num_retained, settings.inline_threshold_bytes) == (5, 2_048)
    assert settings.incremental
    assert settings.history_size == 7


def test_storage_by_name_beats_the_directory() -> None:
    assert read(storage="jobmanager", dir="/data").storage is StorageKind.JOB_MANAGER


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("interval", "9", "at least 10 ms"),
        ("timeout", "9 ms", "at least 10 ms"),
        ("max_concurrent_checkpoints", "0", "at least 1"),
        ("tolerable_failed_checkpoints", "-1", "at least 0"),
        ("num_retained", "0", "at least 1"),
        ("data_inline_threshold", "2mb", "at most 1 MB"),
        ("storage", "filesystem", "execution.checkpointing.dir"),
        ("storage", "elsewhere", "must be one of"),
        ("interval", "often", "no span of time"),
    ],
)
def test_out_of_range(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        read(**{key: value})
    assert key.replace("_", "-") in str(caught.value)


def test_backlog_interval_is_not_shorter() -> None:
    with pytest.raises(ConfigurationError, match="interval-during-backlog is 5 s"):
        read(interval="10 s", interval_during_backlog="5 s")
    assert read(interval="10 s", interval_during_backlog="10 s").backlog_period_ms == 10_000


def test_what_follows_from_the_pause() -> None:
    settings = read(interval="1 s", min_pause="3 s", max_concurrent_checkpoints="4")
    assert settings.concurrency == 1
    assert settings.period_ms == 3_000
    assert settings.first_delay_range_ms == (3_000, 3_000)
    relaxed = read(interval="1 s", max_concurrent_checkpoints="4")
    assert relaxed.concurrency == 4
    assert relaxed.first_delay_range_ms == (0, 1_000)
