"""Functions of joins: pairs in windows, groups in windows, pairs within an interval."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.core.times import NO_TIMESTAMP
from penstock.operators.function_base import Function

if TYPE_CHECKING:
    from penstock.operators.results import SideOutputs


class JoinFunction(Function):
    """One result per pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Returns the result for one pair."""


class FlatJoinFunction(Function):
    """Any number of results per pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Yields the results for one pair."""


class CoGroupFunction(Function):
    """Any number of results per key and window, from all records of both sides."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Any:
        """Yields the results of one group; one of the sides may be empty."""


class ProcessJoinFunction(Function):
    """Any number of results per pair of an interval join."""

    class Context:
        """Valid during the call only; reused for every pair."""

        def __init__(self, sides: SideOutputs) -> None:
            self.left_timestamp = NO_TIMESTAMP
            self.right_timestamp = NO_TIMESTAMP
            self._sides = sides

        def get_left_timestamp(self) -> int:
            """Event time of the left record."""
            return self.left_timestamp

        def get_right_timestamp(self) -> int:
            """Event time of the right record."""
            return self.right_timestamp

        def get_timestamp(self) -> int:
            """Event time of the result: the larger one of both."""
            return max(self.left_timestamp, self.right_timestamp)

        def output(self, tag: Any, value: Any) -> None:
            """Sends a value to a side output, with the timestamp of the result."""
            self._sides.add(tag, value, self.get_timestamp())

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        """Yields the results for one pair."""
