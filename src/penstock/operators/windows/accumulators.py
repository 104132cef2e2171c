"""How accumulators are kept in a value table: many at a time, None among them, without aliases."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, Final

from penstock.operators.reduce import IMMUTABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.state.tables import ValueTable


class _NoneValue:
    """Stands for None in a table, where None means that there is nothing."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "NONE_VALUE"


NONE_VALUE: Final = _NoneValue()


def look_up(table: ValueTable, keys: Iterable[Any], window: Any) -> Callable[[Any], Any]:
    """Returns what gives the stored value of each of `keys`; None if there is none.

    The tables of both backends keep a window's entries in one dict, which `prefetch` completes
    where there is something behind it: asking that dict is five times faster than the table.
    """
    prefetch = getattr(table, "prefetch", None)
    if prefetch is not None:
        prefetch(keys, window)
    spaces = getattr(table, "spaces", None)
    if spaces is None:
        return lambda key: table.get(key, window)
    return spaces.write(window)[0].get  # type: ignore[no-any-return]


def write_all(table: ValueTable, window: Any, accumulators: dict[Any, Any]) -> None:
    """Sets the values of many keys of one window."""
    if None in accumulators.values():
        for key, accumulator in accumulators.items():
            if accumulator is None:
                accumulators[key] = NONE_VALUE
    spaces = getattr(table, "spaces", None)
    if spaces is None:
        for key, accumulator in accumulators.items():
            table.put(key, window, accumulator)
        return
    # What `put` does, for all at once.
    for entries in spaces.write(window):
        entries.update(accumulators)


def copied(value: Any) -> Any:
    """Returns a deep copy of what may be changed in place, and anything else as it is."""
    if type(value) in IMMUTABLE:
        return value
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        # Slower, but takes classes that pickle cannot name.
        return copy.deepcopy(value)
