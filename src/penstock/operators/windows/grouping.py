"""Batches of records by key, and the values of many keys of one window at once.

The unit of work is a group: the user's function is called record by record, but state is read and
written once per key and batch.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.state.heap import HeapValueTable

if TYPE_CHECKING:
    from penstock.state.tables import ValueTable

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
