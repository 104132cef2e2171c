"""Count windows: windows of a number of records per key.

Record number `c` of a key, from 0, lies in each window `k` with
`k * slide <= c < k * slide + size`.
This follows PyFlink; Flink's Java API builds count windows from global windows instead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.types import Types
from penstock.operators.windows.assigners import WindowAssigner, WindowAssignerContext
from penstock.operators.windows.triggers import CountTrigger, Trigger
from penstock.operators.windows.windows import CountWindow
from penstock.state.descriptors import ValueStateDescriptor


class CountWindows(WindowAssigner):
    """Base of both count assigners; the number of records seen is state of the key."""

    def __init__(self, size: int, slide: int, state_name: str) -> None:
        for what, number in (("size", size), ("slide", slide)):
            if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
                raise ProgramError(
                    f"a count window has {what} {number!r}; give a positive number of records."
                )
        self.size = size
        self.slide = slide
        self.descriptor = ValueStateDescriptor(state_name, Types.LONG())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self.descriptor)
        count = state.value() or 0
        state.update(count + 1)
        newest = count // self.slide
        oldest = max(0, -((self.size - 1 - count) // self.slide))
        return [CountWindow(number) for number in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return CountTrigger(self.size)

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(CountWindows):
    """A new window every `window_size` records of a key."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(CountWindows):
    """A window of `window_size` records starts every `window_slide` records of a key."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"
