"""Functions of joins: pairs in windows, groups in windows, pairs within an interval."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.operators.function_base import Function


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
        """Valid during the call only."""

        def get_left_timestamp(self) -> int:
            """Event time of the left record."""
            raise NotImplementedError

        def get_right_timestamp(self) -> int:
            """Event time of the right record."""
            raise NotImplementedError

        def get_timestamp(self) -> int:
            """Event time of the result: the larger one of both."""
            raise NotImplementedError

        def output(self, tag: Any, value: Any) -> None:
            """Sends a value to a side output, with the timestamp of the result."""
            raise NotImplementedError

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        """Yields the results for one pair."""
