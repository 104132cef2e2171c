"""Hosts for tests, and the reason where there can be none."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest
from hosts import missing, spark_on_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts import Hosts, SparkCluster


@pytest.fixture(scope="session")
def _can_have_hosts() -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    # A run that is ended from outside leaves no processes and namespaces behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))


@pytest.fixture
def cluster(_can_have_hosts: None, tmp_path: Path) -> Iterator[tuple[Hosts, SparkCluster]]:
    """A host for the driver, and two with a Spark worker of one core each."""
    with spark_on_hosts(tmp_path, 2) as made:
        yield made
