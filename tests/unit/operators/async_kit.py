"""An operator with asynchronous calls, and functions for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from penstock.operators.async_function import AsyncFunction
from penstock.testing.harness import OneOperatorHarness


class AsyncHarness(OneOperatorHarness):
    """An operator with calls that are closed with the test."""

    def process_all(self, *values: Any, timestamps: Any = None) -> None:
        """Processes records and waits for all calls."""
        self.process(*values, timestamps=timestamps)
        self.logic.end_input()

    def wait_for(self, count: int) -> None:
        """Runs empty epochs until that many records have left."""
        while len(self.values) < count:
            self.end_of_epoch()
            time.sleep(0)


Make = Callable[..., AsyncHarness]


class Doubled(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [value] * value


class Counted(AsyncFunction):
    def __init__(self) -> None:
        self.running = 0

    async def async_invoke(self, value: int) -> list[int]:
        self.running += 1
        for _ in range(3):
            await asyncio.sleep(0)
        seen = self.running
        self.running -= 1
        return [seen]
