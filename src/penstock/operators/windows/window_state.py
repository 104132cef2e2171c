"""The contents of windows, running: by key and namespace, on one state table.

The namespace is the window, or its state window after a merge. The unit of work is
`add_groups(window, {key: records})`: the user's function is called record by record, but state is
read and written once per group.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.core.copies import snapshots, unchanged
from penstock.state.heap import HeapValueTable

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext
    from penstock.state.keyed import KeyedState
    from penstock.state.tables import ListTable, ValueTable

Groups = Mapping[Any, list[Any]]

_SAMPLE = 256


class Columns:
    """Records of one window: keys and values side by side, or grouped by key.

    With few keys, grouping first is fastest; with many, each group costs more than its record.
    """

    __slots__ = ("_groups", "has_many_keys", "keys", "values")

    def __init__(
        self,
        keys: list[Any],
        values: list[Any],
        groups: Groups | None = None,
        *,
        has_many_keys: bool = False,
    ) -> None:
        self.keys = keys
        self.values = values
        self.has_many_keys = has_many_keys
        self._groups = groups

    def groups(self) -> Groups:
        """Returns the values of each key, in order."""
        groups = self._groups
        if groups is None:
            groups = self._groups = group_by_key(self.keys, self.values)
        return groups


def group_by_key(keys: list[Any], values: list[Any]) -> dict[Any, list[Any]]:
    """Returns the values of each key, in order."""
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups


def has_many_keys(keys: list[Any]) -> bool:
    """Returns whether about every second record has a key of its own, going by the first ones."""
    sample = keys[:_SAMPLE]
    return 2 * len(set(sample)) > len(sample)


class _NoneValue:
    """Stands for None in a table, where None means that there is nothing."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "NONE_VALUE"


NONE_VALUE: Final = _NoneValue()


def read_ahead(table: Any, keys: Iterable[Any], window: Any) -> None:
    """Reads what is stored for many keys of a window at once, where that is not in memory."""
    prefetch = getattr(table, "prefetch", None)
    if prefetch is not None:
        prefetch(keys, window)


def look_up(table: ValueTable, keys: Iterable[Any], window: Any) -> Callable[[Any], Any]:
    """Returns what gives the stored value of each of `keys`; None if there is none.

    Where a table keeps all entries of a window in one dict, asking that dict is five times faster
    than the table. A table with something behind its memory may drop entries at any time and must
    be asked itself.
    """
    if isinstance(table, HeapValueTable):
        return table.spaces.write(window)[0].get
    read_ahead(table, keys, window)
    return functools.partial(table.get, ns=window)


def write_all(table: ValueTable, window: Any, accumulators: dict[Any, Any]) -> None:
    """Sets the values of many keys of one window."""
    if None in accumulators.values():
        for key, accumulator in accumulators.items():
            if accumulator is None:
                accumulators[key] = NONE_VALUE
    if isinstance(table, HeapValueTable):
        # What `put` does, for all at once.
        for entries in table.spaces.write(window):
            entries.update(accumulators)
        return
    for key, accumulator in accumulators.items():
        table.put(key, window, accumulator)


TABLE: Final = "window-contents"
EVICTABLE_TABLE: Final = "window-records"
"""Records with their timestamps, where there is an evictor."""


class Contents(ABC):
    """The running form: contents of the windows of one operator."""

    def __init__(self, context: OperatorContext) -> None:
        assert context.keyed_state is not None
        self._context = context
        self._state: KeyedState = context.keyed_state

    def function(self) -> Any:
        """Returns the user's function, which has a life cycle, or None."""
        return None

    def kept(self, value: Any) -> Any:
        """Returns a record in the form in which a list of records keeps it."""
        return value

    @abstractmethod
    def add(self, key: Any, window: Any, value: Any) -> None:
        """Adds one record."""

    @abstractmethod
    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        """Adds records of several keys; returns at least the keys that had nothing before."""

    def add_columns(self, window: Any, columns: Columns) -> Collection[Any]:
        """Does the same, in whichever way is faster for such records."""
        if columns.has_many_keys:
            return self.add_each(window, columns.keys, columns.values)
        return self.add_groups(window, columns.groups())

    @abstractmethod
    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        """Adds records without grouping them; returns new keys as above."""

    @abstractmethod
    def read_ahead(self, window: Any, keys: list[Any]) -> None:
        """Reads the contents of many keys at once, if that helps."""

    @abstractmethod
    def elements(self, key: Any, window: Any) -> list[Any]:
        """Returns what the window function is given, not to be changed; empty if nothing."""

    def kept_elements(self, key: Any, window: Any) -> list[Any]:
        """Returns the same as copies, for a window whose contents stay after the call."""
        return self.copies(self.elements(key, window))

    def copies(self, elements: Sequence[Any]) -> list[Any]:
        """Returns elements that a function may change, although others will see them too."""
        own = list(elements)
        return own if self._context.snapshot is unchanged else snapshots(own)

    @abstractmethod
    def elements_of(self, records: list[Any]) -> list[Any]:
        """Returns the same for records that are in no table."""

    @abstractmethod
    def remove(self, key: Any, window: Any) -> None:
        """Removes contents."""

    @abstractmethod
    def merge(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        """Moves the contents of other windows into those of `target`, in the order given."""


class ContentsSpec(ABC):
    """What a window holds, as the program said it."""

    @abstractmethod
    def open(self, context: OperatorContext) -> Contents:
        """Makes the running form."""


class RecordContents(Contents):
    """All records, in order of arrival."""

    def __init__(self, context: OperatorContext, table: str = TABLE) -> None:
        super().__init__(context)
        self._table_name = table

    @functools.cached_property
    def table(self) -> ListTable:
        """The lists; obtained when needed, since an evictor keeps records elsewhere."""
        return self._state.list_table(self._table_name)

    def add(self, key: Any, window: Any, value: Any) -> None:
        self.table.extend(key, window, (value,))

    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        extend = self.table.extend
        for key, values in groups.items():
            extend(key, window, values)
        # Asking which lists were empty would cost more than registering known timers again.
        return groups

    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        append = self.table.append
        for key, value in zip(keys, values, strict=True):
            append(key, window, value)
        return keys

    def read_ahead(self, window: Any, keys: list[Any]) -> None:
        read_ahead(self.table, keys, window)

    def elements(self, key: Any, window: Any) -> list[Any]:
        return self.table.get(key, window)

    def elements_of(self, records: list[Any]) -> list[Any]:
        return records

    def replace(self, key: Any, window: Any, values: list[Any]) -> None:
        """Sets the records that an evictor left."""
        self.table.replace(key, window, values)

    def remove(self, key: Any, window: Any) -> None:
        self.table.remove(key, window)

    def merge(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        self.table.merge_namespaces(key, target, sources)
