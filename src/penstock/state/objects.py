"""State objects of users, bound to the current key and namespace.

They look the key up at each call, so one object serves all keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.copies import IMMUTABLE, Copier, snapshot
from penstock.core.errors import ProgramError, nothing_returned
from penstock.state.api import AggregatingState, ListState, MapState, ReducingState, ValueState
from penstock.state.tables import ABSENT, ListTable, MapTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Scope(Protocol):
    """The current key and namespace."""

    @property
    def key(self) -> Any: ...

    @property
    def namespace(self) -> Any: ...


class VoidScope:
    """The current key without its namespace: global state as a window function sees it."""

    __slots__ = ("_scope",)

    namespace: None = None

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def key(self) -> Any:
        return self._scope.key


class TableListState(ListState[Any]):
    """List state over any table."""

    __slots__ = ("_name", "_scope", "_snapshot", "_table")

    def __init__(self, scope: Scope, table: ListTable, snapshot: Copier = snapshot) -> None:
        self._scope = scope
        self._table = table
        self._snapshot = snapshot
        self._name = table.name

    def get(self) -> list[Any]:
        scope = self._scope
        # A copy: adding while iterating must end, and must not bypass the log of changes.
        return self._table.get(scope.key, scope.namespace)[:]

    def add(self, value: Any) -> None:
        if value is None:
            raise _none_element(self._name)
        if type(value) not in IMMUTABLE:
            value = self._snapshot(value)
        scope = self._scope
        self._table.append(scope.key, scope.namespace, value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = checked_elements(self._name, values, self._snapshot)
        scope = self._scope
        if added:
            self._table.extend(scope.key, scope.namespace, added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = checked_elements(self._name, values, self._snapshot)
        scope = self._scope
        self._table.replace(scope.key, scope.namespace, replaced)

    def clear(self) -> None:
        scope = self._scope
        self._table.remove(scope.key, scope.namespace)


def checked_elements(
    name: str, values: Iterable[Any] | None, snapshot: Copier = snapshot
) -> list[Any]:
    """Returns the elements as a new list, whose elements are copies.

    Raises:
        ProgramError: There is a None among them, or `values` is None.
    """
    if values is None:
        raise ProgramError(
            f"list state {name!r} was given None instead of elements; pass [] to clear it."
        )
    checked = list(map(snapshot, values))
    for value in checked:
        if value is None:
            raise _none_element(name)
    return checked


def _none_element(name: str) -> ProgramError:
    return ProgramError(
        f"list state {name!r} was given the element None, which a list state cannot hold; "
        "leave it out or use a value of your own for it."
    )


class TableMapState(MapState[Any, Any]):
    """Map state over any table."""

    __slots__ = ("_scope", "_snapshot", "_table")

    def __init__(self, scope: Scope, table: MapTable, snapshot: Copier = snapshot) -> None:
        self._scope = scope
        self._table = table
        self._snapshot = snapshot

    def get(self, key: Any) -> Any:
        scope = self._scope
        return self._table.get(scope.key, scope.namespace, key)

    def put(self, key: Any, value: Any) -> None:
        scope = self._scope
        if type(value) not in IMMUTABLE:
            value = self._snapshot(value)
        self._table.put(scope.key, scope.namespace, key, value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        scope = self._scope
        snapshot = self._snapshot
        entries = {key: snapshot(value) for key, value in dict(dict_value).items()}
        self._table.update(scope.key, scope.namespace, entries)

    def remove(self, key: Any) -> None:
        scope = self._scope
        self._table.remove(scope.key, scope.namespace, key)

    def contains(self, key: Any) -> bool:
        scope = self._scope
        return self._table.get(scope.key, scope.namespace, key, ABSENT) is not ABSENT

    def items(self) -> Iterable[tuple[Any, Any]]:
        scope = self._scope
        return self._table.items(scope.key, scope.namespace)

    def keys(self) -> Iterable[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterable[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        scope = self._scope
        return self._table.is_empty(scope.key, scope.namespace)

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def __bool__(self) -> bool:
        # A state object is not false because its map is empty: PyFlink's is always true.
        return True

    def clear(self) -> None:
        scope = self._scope
        self._table.clear(scope.key, scope.namespace)


class TableReducingState(ReducingState[Any]):
    """Reducing state over value state.

    Args:
        state: Holds the reduced value.
        present: Returns the value to continue from.
        reduce: Makes one value of two.
        snapshot: Copies what is added.
    """

    __slots__ = ("_present", "_reduce", "_snapshot", "_state")

    def __init__(
        self,
        state: ValueState[Any],
        present: Callable[[], Any],
        reduce: Callable[[Any, Any], Any],
        snapshot: Copier = snapshot,
    ) -> None:
        self._state = state
        self._present = present
        self._reduce = reduce
        self._snapshot = snapshot

    def get(self) -> Any:
        return self._state.value()

    def add(self, value: Any) -> None:
        if value is None:
            self._state.clear()
            return
        if type(value) not in IMMUTABLE:
            value = self._snapshot(value)
        present = self._present()
        reduced = value if present is None else self._reduce(present, value)
        if reduced is None:
            raise nothing_returned(self._reduce, "the reduced value")
        self._state.update(reduced)

    def clear(self) -> None:
        self._state.clear()


class TableAggregatingState(AggregatingState[Any, Any]):
    """Aggregating state over value state that holds the accumulator.

    Args:
        state: Holds the accumulator.
        present: Returns the accumulator to continue from.
        function: The aggregate function.
        snapshot: Copies what is added.
    """

    __slots__ = ("_function", "_present", "_snapshot", "_state")

    def __init__(
        self,
        state: ValueState[Any],
        present: Callable[[], Any],
        function: Any,
        snapshot: Copier = snapshot,
    ) -> None:
        self._state = state
        self._present = present
        self._function = function
        self._snapshot = snapshot

    def get(self) -> Any:
        accumulator = self._state.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._state.clear()
            return
        function = self._function
        accumulator = self._present()
        if accumulator is None:
            accumulator = function.create_accumulator()
        if type(value) not in IMMUTABLE:
            value = self._snapshot(value)
        accumulator = function.add(value, accumulator)
        if accumulator is None:
            raise nothing_returned(function.add, "the accumulator")
        self._state.update(accumulator)

    def clear(self) -> None:
        self._state.clear()


def reduce_callable(function: Any) -> Callable[[Any, Any], Any]:
    """Returns the function of two values inside a reduce function."""
    reduce = getattr(function, "reduce", None)
    return reduce if callable(reduce) else function  # type: ignore[no-any-return]
