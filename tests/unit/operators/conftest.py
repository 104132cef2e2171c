"""Operators with asynchronous calls are closed with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from async_kit import AsyncHarness

from penstock.operators.async_wait import AsyncWaitSpec

if TYPE_CHECKING:
    from penstock.operators.async_function import AsyncFunction


@pytest.fixture
def harness() -> Iterator[Callable[..., AsyncHarness]]:
    made = []

    def make(
        function: AsyncFunction, timeout_ms: int = 0, *, place: Any = None, **settings: Any
    ) -> AsyncHarness:
        made.append(AsyncHarness(AsyncWaitSpec(function, timeout_ms, **settings), **(place or {})))
        return made[-1]

    yield make
    for each in made:
        each.close()
