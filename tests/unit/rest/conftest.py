"""Fixtures for the routes: one server for a file of tests, its dispatcher as new for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from served import Service, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stored_jobs_dispatcher import MemoryDispatcher

from filled_dispatcher import filled


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[MemoryDispatcher, Service]]:
    dispatcher = filled()
    with served(dispatcher) as service:
        yield dispatcher, service


@pytest.fixture
def dispatcher(shared: tuple[MemoryDispatcher, Service]) -> MemoryDispatcher:
    fresh = filled()
    shared[0].__dict__.update(
        {name: value for name, value in vars(fresh).items() if name not in ("changes", "lock")}
    )
    return shared[0]


@pytest.fixture
def service(shared: tuple[MemoryDispatcher, Service], dispatcher: MemoryDispatcher) -> Service:
    return shared[1]
