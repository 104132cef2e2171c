"""A job manager that only speaks, and no configuration of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stub_manager import ID_RUNNING, StubJob, StubManager, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("PENSTOCK_CONF_DIR", "FLINK_CONF_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manager() -> Iterator[StubManager]:
    """With one running job."""
    with serving(StubManager()) as running:
        running.add(StubJob(ID_RUNNING))
        yield running
