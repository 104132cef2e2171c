"""How accumulators are kept in a value table: many at a time, None among them, without aliases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.state.hashmap.tables import HeapValueTable

if TYPE_CHECKING:
    from penstock.state.tables import ValueTable


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
