"""Rows of the suites for checkpoint storage: every implementation is one.

A row that lacks a capability is a strict xfail with the reason, never a silent skip.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from penstock.files.wrappers import RetryingStorage, ScopedStorage
from simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.files.contract import Storage

_numbers = itertools.count()


def fsspec_storage() -> Storage:
    return Storages().at(f"memory://suite-{os.getpid()}-{next(_numbers)}/job")


ROWS: dict[str, Callable[[Path], Storage]] = {
    "local": lambda path: LocalStorage(str(path / "checkpoints")),
    "simulated-disk": lambda path: LocalStorage("/data", SimulatedDisk()),
    "memory": lambda path: MemoryStorage(),
    "retrying": lambda path: RetryingStorage(MemoryStorage(), sleep=lambda seconds: None),
    "scoped": lambda path: ScopedStorage(MemoryStorage(), "some/where"),
    "fsspec": lambda path: fsspec_storage(),
}


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A real server of the S3 protocol, in this process."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_storages(s3_endpoint: str) -> Storages:
    import urllib.request

    request = urllib.request.Request(f"{s3_endpoint}/suite", method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    return Storages(
        {
            "s3.endpoint": s3_endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
        }
    )


@pytest.fixture(params=[*ROWS, "s3", pytest.param("hdfs", marks=pytest.mark.e2e)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param in ROWS:
        made = ROWS[request.param](tmp_path)
    else:
        if request.param == "s3":
            storages: Storages = request.getfixturevalue("s3_storages")
            made = storages.at(f"s3://suite/run-{next(_numbers)}")
        else:
            cluster = request.getfixturevalue("hdfs")
            made = Storages().at(f"{cluster.url}/run-{next(_numbers)}")
        # Without the retries around it, so that the suite sees the storage itself.
        assert isinstance(made, RetryingStorage)
        made = made.inner
    made.make_directory("job/chk-1")
    made.make_directory("job/shared")
    return made


@pytest.fixture
def row(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["storage"])
