"""One server of each kind for all tests against it; each test has tables of its own."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mariadb_server
import opensearch_server
from postgres_server import Server, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The oracle of kills lies there; pytest adds the directories of those tests only that it runs.
sys.path.append(str(Path(__file__).resolve().parents[1]))

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e/tables" in item.path.as_posix():
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    if reason := missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[mariadb_server.Server]:
    if reason := mariadb_server.missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with mariadb_server.Server() as server:
        yield server


@pytest.fixture
def maria_table(mariadb: mariadb_server.Server) -> Callable[[str], str]:
    """As `table`, in MariaDB."""

    def create(columns: str) -> str:
        name = f"t{next(_numbers)}"
        mariadb.execute(f"CREATE TABLE {name} ({columns})")
        return name

    return create


@pytest.fixture(scope="session")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[opensearch_server.Server]:
    if reason := opensearch_server.missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with opensearch_server.Server(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


@pytest.fixture
def table(postgres: Server) -> Callable[[str], str]:
    """Creates tables with names that no other test has."""

    def create(columns: str) -> str:
        name = f"t{next(_numbers)}"
        postgres.execute(f"CREATE TABLE {name} ({columns})")
        return name

    return create
