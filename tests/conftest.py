"""For every test: how long an example of a property takes says nothing about the code."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hdfs_cluster import HdfsCluster

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Says which tests share a process in a run with `--dist loadgroup`: those of a file.

    Those on hosts and those in a browser all share one, because a browser breaks off what it loads
    when the machine gets another network interface; those of Kafka share a broker.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    @functools.cache
    def group_of(file: str) -> str:
        folder = Path(file).parent.name
        opens_tabs = "open_tab" in (config.rootpath / file).read_text(encoding="utf-8")
        if folder == "cluster" or opens_tabs:
            return "network"
        return folder if folder == "kafka" else file

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0])

    return ByGroup(config, log)


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: collections pass over what is there before the first."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def bound_by_permissions() -> Iterator[None]:
    """Modes of files bind the test, and threads that it starts, even if root runs it on Linux.

    Root's right to pass over them is taken from the thread for the time of the test: the
    capabilities CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH leave its effective set.
    """
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # A header (version 3, this thread), then effective, permitted and inheritable sets, twice.
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0, os.strerror(ctypes.get_errno())
    all_rights = sets[0]
    sets[0] &= ~(1 << 1 | 1 << 2)
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        sets[0] = all_rights
        assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """A real HDFS; skips where there can be none, but not where there must be one."""
    from hdfs_cluster import HdfsCluster, missing

    if reason := missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with HdfsCluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster
