"""What tests of Kafka share: an environment that runs jobs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path


def configuration(directory: Path | None = None, **settings: str) -> Configuration:
    """Returns settings for a job in this process, with frequent checkpoints into a directory.

    In names of settings `_` stands for a dot, and `__` for a dash.
    """
    values = {"penstock.spark.master": "in-process"}
    if directory is not None:
        values["execution.checkpointing.interval"] = "50 ms"
        values["execution.checkpointing.dir"] = str(directory)
    found = Configuration()
    for key, value in settings.items():
        values[key.replace("__", "-").replace("_", ".")] = value
    for key, value in values.items():
        found.set_string(key, value)
    return found


def environment(directory: Path | None = None, **settings: str) -> StreamExecutionEnvironment:
    """Returns an environment with that configuration."""
    return StreamExecutionEnvironment.get_execution_environment(
        configuration(directory, **settings)
    )
