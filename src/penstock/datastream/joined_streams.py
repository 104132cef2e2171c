"""Joins and co-groups of two streams within windows, as Java Flink spells them.

first.join(second).where(key).equal_to(key).window(assigner).apply(function)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.datastream.keys import key_groups
from penstock.datastream.plain_stream import DataStream, append_operator
from penstock.datastream.windowed_stream import WindowSettings
from penstock.operators.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.operators.windows.functions import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
    PairContents,
    PairFunction,
)

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation
    from penstock.operators.windows.assigners import WindowAssigner

__all__ = ["CoGroupedStreams", "JoinedStreams"]


class _PairedStreams:
    """Two streams, before their keys are known."""

    is_join: ClassVar[bool]

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> PairedByOneKey:
        """Sets the key of the first stream."""
        return PairedByOneKey(
            self._first.key_by(key_selector, key_type), self._second, is_join=self.is_join
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r})"


class JoinedStreams(_PairedStreams):
    """Two streams whose records are paired."""

    is_join = True


class CoGroupedStreams(_PairedStreams):
    """Two streams whose records are grouped."""

    is_join = False


class PairedByOneKey:
    """Two streams of which the first has its key; `equal_to` comes next."""

    def __init__(self, first: DataStream, second: DataStream, *, is_join: bool) -> None:
        self._first = first
        self._second = second
        self._is_join = is_join

    def equal_to(self, key_selector: Any, key_type: TypeInformation | None = None) -> PairedByKeys:
        """Sets the key of the second stream; records with equal keys meet."""
        partitioning = key_groups(key_selector, key_type)
        second = self._second._repartition(partitioning)
        return PairedByKeys(self._first, second, is_join=self._is_join)


class PairedByKeys:
    """Two streams with keys; `window` comes next."""

    def __init__(self, first: DataStream, second: DataStream, *, is_join: bool) -> None:
        self._first = first
        self._second = second
        self._is_join = is_join

    def window(self, window_assigner: WindowAssigner) -> WindowedPairs:
        """Sets the windows within which records meet."""
        return WindowedPairs(self._first, self._second, window_assigner, is_join=self._is_join)


class WindowedPairs(WindowSettings):
    """Two streams with keys and windows."""

    def __init__(
        self,
        first: DataStream,
        second: DataStream,
        window_assigner: WindowAssigner,
        *,
        is_join: bool,
    ) -> None:
        super().__init__(window_assigner)
        self._first = first
        self._second = second
        self._is_join = is_join

    def apply(
        self,
        function: Callable[[Any, Any], Any] | JoinFunction | FlatJoinFunction | CoGroupFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for each pair (join), or for all records of a window (co-group).

        Args:
            function: For a join a `JoinFunction`, a `FlatJoinFunction` or a function of two
                records; for a co-group a `CoGroupFunction` or a function of two lists of records.
            output_type: Type of the results.
        """
        spec = self._window_spec(PairContents(), self._pair_function(function))
        second = tuple(replace(given, input_index=1) for given in self._second._inputs)
        name = "Join" if self._is_join else "CoGroup"
        return append_operator(
            self._first._environment,
            f"{name}-{self._window_name}",
            spec,
            self._first._inputs + second,
            output_type,
            description=self._describe(name, function),
        )

    def _pair_function(self, function: Any) -> PairFunction:
        if not self._is_join:
            return CoGroupPairs(function)
        if isinstance(function, FlatJoinFunction):
            return FlatJoinPairs(function)
        return JoinPairs(function)
