"""User functions of one or two records: what programs subclass, or give as a plain callable.

The names and shapes are PyFlink's. Everything optional has a default, everything required is
abstract, so that a forgotten method is found when the object is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.operators.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024 - each subclass says what is required
    """Base of all user functions with a life cycle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first record of a subtask; obtain state and connections here."""

    def close(self) -> None:
        """Called once when the subtask ends."""


class MapFunction(Function):
    """One record in, one record out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the output record."""


class FlatMapFunction(Function):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """Yields output records, or returns an iterable of them, or None for no output."""


class FilterFunction(Function):
    """Decides which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Returns whether the record stays."""


class KeySelector(Function):
    """Gives the key of a record; must give the same one for the same record always."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key."""


class NullByteKeySelector(KeySelector):
    """Gives all records one key, as `window_all` does."""

    def get_key(self, value: Any) -> Any:
        return 0


class ReduceFunction(Function):
    """Combines two records into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination; `value1` is the one so far."""


class AggregateFunction(Function):
    """Folds records into an accumulator and makes a result of it.

    `merge` is needed by session windows only.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Returns the accumulator with the record in it; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Returns the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Returns both accumulators as one; it may be one of the two."""


class Partitioner(Function):
    """Chooses the subtask for a key, for `partition_custom`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Returns a number from 0 to `num_partitions - 1`."""


class CoMapFunction(Function):
    """A map over two connected streams; a result of None is dropped, as in PyFlink."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Maps a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Maps a record of the second stream."""


class CoFlatMapFunction(Function):
    """A flat map over two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """Yields the outputs for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """Yields the outputs for a record of the second stream."""


class SourceFunction:
    """Marker of PyFlink's JVM sources; Penstock reads `penstock.connectors` sources instead."""


class SinkFunction:
    """Marker of PyFlink's JVM sinks; Penstock writes to `penstock.connectors` sinks instead."""
