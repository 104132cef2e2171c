"""What users see of state: PyFlink's interfaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the current key."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Removes what the current key has.

        Example:
            >>> count.update(5)
            >>> count.clear()
            >>> print(count.value())
            None
        """

    def get_internal_state(self) -> Self:
        """Returns the state itself; in PyFlink there is another object with its methods.

        Example:
            >>> count.update(5)
            >>> count.get_internal_state().value()
            5
        """
        return self


class ValueState(State, Generic[T]):
    """One value per key."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value, or None when there is none.

        Example:
            >>> print(count.value())
            None
        """

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value; None clears it.

        Example:
            >>> count.update((count.value() or 0) + 1)
            >>> count.value()
            1
        """


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT:
        """Returns what the elements make.

        Example:
            >>> largest.get() is None
            True
        """

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds an element.

        Example:
            >>> largest.add(3)
            >>> largest.add(2)
            >>> largest.get()
            3
        """


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be made one."""

    __slots__ = ()


class ReducingState(MergingState[T, "T | None"]):
    """Elements folded into one by a reduce function; `get` is None when none was added."""

    __slots__ = ()


class AggregatingState(MergingState[IN, "OUT | None"], Generic[IN, OUT]):
    """Elements folded into an accumulator; `get` is its result, None when none was added."""

    __slots__ = ()


class ListState(MergingState[T, "list[T]"]):
    """A list per key; None is no element."""

    __slots__ = ()

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces the list; no values clear it.

        Example:
            >>> seen.update(["a", "b"])
            >>> list(seen.get())
            ['a', 'b']
        """

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Adds all values at the end.

        Example:
            >>> seen.add_all(["a", "b"])
            >>> seen.add("c")
            >>> list(seen.get())
            ['a', 'b', 'c']
        """

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """What keyed maps and broadcast maps have in common."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of `key`, or None.

        Example:
            >>> prices.put("pen", 3)
            >>> prices.get("pen")
            3
        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether `key` has an entry, whose value may be None.

        Example:
            >>> prices.put("pen", 3)
            >>> prices.contains("pen")
            True
        """

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns all entries; entries may be removed while iterating.

        Example:
            >>> prices.put("pen", 3)
            >>> list(prices.items())
            [('pen', 3)]
        """

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns all keys.

        Example:
            >>> prices.put("pen", 3)
            >>> list(prices.keys())
            ['pen']
        """

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns all values.

        Example:
            >>> prices.put("pen", 3)
            >>> list(prices.values())
            [3]
        """

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether there is no entry.

        Example:
            >>> prices.is_empty()
            True
        """

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    """What keyed maps and broadcast maps have in common where they can be changed."""

    __slots__ = ()

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the entry of `key`.

        Example:
            >>> prices.put("pen", 3)
            >>> prices.get("pen")
            3
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets all entries of a mapping.

        Example:
            >>> prices.put_all({"pen": 3, "ink": 5})
            >>> sorted(prices.keys())
            ['ink', 'pen']
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes the entry of `key`, if there is one.

        Example:
            >>> prices.put("pen", 3)
            >>> prices.remove("pen")
            >>> prices.contains("pen")
            False
        """

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A map per key; values may be None."""

    __slots__ = ()


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """A broadcast map as the other side sees it."""

    __slots__ = ()


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """A map that every subtask holds in full."""

    __slots__ = ()


class KeyedStateStore(ABC):
    """Where functions obtain keyed state."""

    __slots__ = ()

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[T]:
        """Returns the value state of that name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[T]:
        """Returns the list state of that name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[K, V]:
        """Returns the map state of that name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[T]:
        """Returns the reducing state of that name."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[IN, OUT]:
        """Returns the aggregating state of that name."""


class OperatorStateStore(ABC):
    """Where functions obtain state that belongs to a subtask, not to a key."""

    __slots__ = ()

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[T]:
        """Returns list state whose elements are redistributed when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[T]:
        """Returns list state of which every subtask receives all elements on restore."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[K, V]:
        """Returns a map that is the same in every subtask."""


class FunctionInitializationContext(ABC):
    """What `initialize_state` of a checkpointed function is given."""

    __slots__ = ()

    @abstractmethod
    def is_restored(self) -> bool:
        """Returns whether the job came from a snapshot."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the state of the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the state of the keys."""


class FunctionSnapshotContext(ABC):
    """What `snapshot_state` of a checkpointed function is given."""

    __slots__ = ()

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns a number that rises with every snapshot."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns the processing time of the snapshot."""
