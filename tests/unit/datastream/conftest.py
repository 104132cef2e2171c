"""An environment that no file or command line of this machine reaches into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StreamExecutionEnvironment:
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path / "no-configuration"))
    monkeypatch.delenv("PENSTOCK_DYNAMIC_PROPERTIES", raising=False)
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.get_configuration().set_string("penstock.spark.master", "in-process")
    return environment
