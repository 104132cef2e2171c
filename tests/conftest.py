"""For every test: how long an example of a property takes says nothing about the code."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from collections import Counter
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

    Those in a browser all share it, and those of Kafka share a broker.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    config.option.loadscopereorder = False

    @functools.cache
    def group_of(file: str) -> str:
        folder = Path(file).parent.name
        opens_tabs = "open_tab" in (config.rootpath / file).read_text(encoding="utf-8")
        if opens_tabs:
            return "browser"
        return folder if folder == "kafka" else file

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0])

        def _reschedule(self, node: Any) -> None:
            # A process has the test that it runs, and the next one, which it has to know: with one
            # more, long tests would wait for each other at the end while other processes rest.
            if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files on hosts come first where processes take one after the other, as they take longest."""
    if getattr(config.option, "loadgroup", False):
        numbers = Counter(item.path for item in items)
        items.sort(key=lambda each: (each.path.parent.name != "cluster", -numbers[each.path]))


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
