"""An environment that no file or command line of this machine reaches into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.common import Types
from penstock.datastream import DataStream, KeyedStream, StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StreamExecutionEnvironment:
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path / "no-configuration"))
    monkeypatch.delenv("PENSTOCK_DYNAMIC_PROPERTIES", raising=False)
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.get_configuration().set_string("penstock.spark.master", "in-process")
    return environment


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3])


@pytest.fixture
def words(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(["a", "b"], Types.STRING())


@pytest.fixture
def keyed(words: DataStream) -> KeyedStream:
    return words.key_by(len)
