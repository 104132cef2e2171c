"""State tables: what operators and user state read and write, by key and namespace.

A table is one named state of one operator. The namespace None is user state; windows are the
namespaces of window state. Tables of the two backends differ in where entries lie; what changed
since the last commit leaves every table in one format, its *columns*:

* value: `[(namespace, keys, values)]`, None for a removed value
* list: `[(namespace, keys, starts, items)]`: cut the list at `start` (-1: empty it), then add
  `items`; None for a removed list
* map: `[(namespace, keys, cleared, map keys, map values, removed map keys)]`, all in step

Applying columns a second time, or on top of any version that they cover, changes nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from penstock.core.errors import StateError

# The dicts of one table, by namespace.
#
# User state (namespace None) lies in one dict by key, so that its lookups are one dict access; each
# other namespace has a dict of its own, and the one used last is remembered, because windows are
# worked on one after the other. A change is written twice, to the entries and to `dirty`: reading
# stays one lookup, and a commit copies columns without looking anything up.


class Spaces:
    """The dicts of the namespaces of one table: entries by key, and changes by key.

    Attributes:
        entries: Entries of namespace None; always this same dict.
        dirty: Changes of namespace None since the last commit; always this same dict.
    """

    __slots__ = ("_last", "_last_dirty", "_last_ns", "_scoped", "_scoped_dirty", "dirty", "entries")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.dirty: dict[Any, Any] = {}
        self._scoped: dict[Any, dict[Any, Any]] = {}
        self._scoped_dirty: dict[Any, dict[Any, Any]] = {}
        # `self` is no namespace, so the first lookup goes to the dict.
        self._last_ns: Any = self
        self._last: dict[Any, Any] = {}
        self._last_dirty: dict[Any, Any] = {}

    def read(self, ns: Any) -> dict[Any, Any] | None:
        """Returns the entries of a namespace, if it has any."""
        if ns is None:
            return self.entries
        if ns is self._last_ns:
            return self._last
        return self._scoped.get(ns)

    def write(self, ns: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Returns entries and changes of a namespace, made if missing."""
        if ns is None:
            return self.entries, self.dirty
        if ns is not self._last_ns:
            self._last = self._scoped.setdefault(ns, {})
            self._last_dirty = self._scoped_dirty.setdefault(ns, {})
            self._last_ns = ns
        return self._last, self._last_dirty

    def prune(self, ns: Any) -> None:
        """Drops a namespace's dict once it is empty."""
        if ns is not None and not self._scoped.get(ns, True):
            del self._scoped[ns]
            self._forget()

    def all(self) -> Iterator[tuple[Any, dict[Any, Any]]]:
        if self.entries:
            yield None, self.entries
        yield from self._scoped.items()

    def all_dicts(self) -> list[dict[Any, Any]]:
        """Returns every dict of entries and of changes."""
        scoped = (*self._scoped.values(), *self._scoped_dirty.values())
        return [self.entries, self.dirty, *scoped]

    def changes(self) -> Iterator[tuple[Any, dict[Any, Any], dict[Any, Any]]]:
        """Yields (namespace, changes, entries)."""
        if self.dirty:
            yield None, self.dirty, self.entries
        for ns, dirty in self._scoped_dirty.items():
            if dirty:
                yield ns, dirty, self._scoped.get(ns, {})

    def keep_only(self, kept: dict[Any, dict[Any, Any]]) -> None:
        """Drops all entries but `kept`, by namespace; what is not committed must be among them."""
        self.entries.clear()
        self.entries.update(kept.get(None, {}))
        self._scoped = {ns: dict(found) for ns, found in kept.items() if ns is not None and found}
        self._forget()

    @property
    def is_empty(self) -> bool:
        return not self.entries and not any(self._scoped.values())

    @property
    def is_dirty(self) -> bool:
        return bool(self.dirty) or any(self._scoped_dirty.values())

    def mark_clean(self) -> None:
        self.dirty.clear()
        self._scoped_dirty.clear()
        self._forget()

    def reset(self) -> None:
        self.entries.clear()
        self._scoped.clear()
        self.mark_clean()

    def _forget(self) -> None:
        self._last_ns = self
        self._last = {}
        self._last_dirty = {}


Columns = list[tuple[Any, ...]]

Conversion = Callable[[list[Any]], list[Any]]
"""Turns values of one type into those of another, in order."""

Row = tuple[str, str, Any, Any, Any]
"""(state name, kind, key, namespace, value), see `KeyedState.entries`."""


class _NoKey:
    """Stands where no key is current: looking anything up by it fails, at no cost elsewhere."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise StateError(
            "keyed state was used without a current key. Use it inside a function that processes "
            "a keyed record or a timer, not in open(), close(), snapshot_state() or for broadcast "
            "elements."
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> str:
        return "NO_KEY"

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final = _NoKey()


class _Marker:
    """A constant compared by identity."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return self._name


ABSENT: Final = _Marker("ABSENT")
"""No such map entry; map values may be None."""

CLEARED: Final = _Marker("CLEARED")
"""Among the changes of a map: everything older is gone."""


class Table(ABC):
    """One named state.

    Attributes:
        name: Name of the state.
        timed: Entries are stored as `(value, last access)`, because the state has a TTL.
        schema: Type of the state as text (`penstock.state.schema`); "" if it is pickled.
    """

    kind: ClassVar[str]
    schema: str = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.timed = False

    @property
    @abstractmethod
    def is_dirty(self) -> bool:
        """Whether something changed since the last commit."""

    @abstractmethod
    def collect(self) -> Columns:
        """Returns what changed since the last commit, which is now."""

    @abstractmethod
    def apply(self, columns: Columns) -> None:
        """Applies changes that were committed elsewhere."""

    @abstractmethod
    def reset(self) -> None:
        """Empties the table without a trace, before a restore."""

    @abstractmethod
    def retime(self, *, timed: bool, now_ms: int) -> bool:
        """Turns the TTL of a table on or off; returns whether there were entries to convert."""

    @abstractmethod
    def convert(self, schema: str, conversion: Conversion) -> bool:
        """Gives the table another schema; returns whether there were entries to convert.

        Args:
            schema: The new one.
            conversion: Takes values without their last access.
        """

    def expire(self, deadline_ms: int, count: int) -> None:
        """Looks at `count` more keys and removes what was last accessed by `deadline_ms`.

        The `rocksdb` backend does nothing here: it removes expired rows when it folds.
        """

    @abstractmethod
    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields (key, namespace, value); one per map entry, `value` then is (map key, value)."""


class ValueTable(Table):
    """One value, never None, per key and namespace."""

    kind = "value"

    @abstractmethod
    def get(self, key: Any, ns: Any = None) -> Any:
        """Returns the value or None."""

    def prefetch(self, keys: Iterable[Any], ns: Any = None) -> None:
        """Loads the values of these keys at once, where they are not in memory anyway."""

    @abstractmethod
    def put(self, key: Any, ns: Any, value: Any) -> None:
        """Sets the value; None removes it."""

    @abstractmethod
    def remove(self, key: Any, ns: Any = None) -> None:
        """Removes the value, if there is one."""

    def merge_namespaces(
        self, key: Any, target: Any, sources: Sequence[Any], merge: Callable[[Any, Any], Any]
    ) -> None:
        """Folds the values of `sources` into that of `target` and removes them."""
        merged = self.get(key, target)
        for source in sources:
            value = self.get(key, source)
            if value is None:
                continue
            self.remove(key, source)
            merged = value if merged is None else merge(merged, value)
        if merged is not None:
            self.put(key, target, merged)


class ListTable(Table):
    """One list per key and namespace; an empty list is no list."""

    kind = "list"

    @abstractmethod
    def get(self, key: Any, ns: Any = None) -> list[Any]:
        """Returns the list, which is not to be changed; empty when there is none."""

    @abstractmethod
    def append(self, key: Any, ns: Any, value: Any) -> None:
        """Adds one element at the end."""

    @abstractmethod
    def extend(self, key: Any, ns: Any, values: Iterable[Any]) -> None:
        """Adds elements at the end."""

    @abstractmethod
    def replace(self, key: Any, ns: Any, values: list[Any]) -> None:
        """Sets the list; the table keeps `values` itself. An empty list removes."""

    @abstractmethod
    def remove(self, key: Any, ns: Any = None) -> None:
        """Removes the list, if there is one."""

    def merge_namespaces(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        """Appends the lists of `sources` to that of `target` and removes them."""
        for source in sources:
            values = self.get(key, source)
            if values:
                self.remove(key, source)
                self.extend(key, target, values)


class MapTable(Table):
    """One map per key and namespace; an empty map is no map."""

    kind = "map"

    @abstractmethod
    def get(self, key: Any, ns: Any, map_key: Any, default: Any = None) -> Any:
        """Returns the value of a map entry, or `default`."""

    @abstractmethod
    def put(self, key: Any, ns: Any, map_key: Any, value: Any) -> None:
        """Sets a map entry."""

    @abstractmethod
    def remove(self, key: Any, ns: Any, map_key: Any) -> None:
        """Removes a map entry, if it is there."""

    def contains(self, key: Any, ns: Any, map_key: Any) -> bool:
        """Returns whether a map entry is there."""
        return self.get(key, ns, map_key, ABSENT) is not ABSENT

    @abstractmethod
    def items(self, key: Any, ns: Any = None) -> Iterable[tuple[Any, Any]]:
        """Returns the entries in no promised order; they may be changed while iterating."""

    @abstractmethod
    def is_empty(self, key: Any, ns: Any = None) -> bool:
        """Returns whether there is no entry."""

    @abstractmethod
    def update(self, key: Any, ns: Any, mapping: Mapping[Any, Any]) -> None:
        """Sets all entries of a mapping."""

    @abstractmethod
    def clear(self, key: Any, ns: Any = None) -> None:
        """Removes all entries."""

    def merge_namespaces(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        """Moves the entries of `sources` into `target`; of equal map keys the last source wins."""
        for source in sources:
            entries = dict(self.items(key, source))
            if entries:
                self.clear(key, source)
                self.update(key, target, entries)


def map_columns(ns: Any, dirty: dict[Any, dict[Any, Any]]) -> tuple[Any, ...]:
    """Returns the columns of the changes of one namespace; `dirty` is used up."""
    keys: list[Any] = []
    cleared: list[bool] = []
    map_keys: list[list[Any]] = []
    values: list[list[Any]] = []
    removed: list[list[Any]] = []
    for key, changes in dirty.items():
        keys.append(key)
        cleared.append(changes.pop(CLEARED, False))
        gone = [map_key for map_key, value in changes.items() if value is ABSENT]
        for map_key in gone:
            del changes[map_key]
        removed.append(gone)
        map_keys.append(list(changes))
        values.append(list(changes.values()))
    return ns, keys, cleared, map_keys, values, removed


# Entries of a state with a time to live are stored as (value, last access). A state may gain or
# lose its TTL between two runs: what was stored without one counts as accessed when it is first
# seen with it.


def retimed(*, to_timed: bool, now_ms: int) -> Conversion:
    """Returns what gives values a last access, or takes it from them."""
    if to_timed:
        return lambda values: [(value, now_ms) for value in values]
    return lambda values: [value for value, _ in values]


def keeping_times(conversion: Conversion, *, timed: bool) -> Conversion:
    """Returns a conversion of values for a table; those with a last access keep it."""
    if not timed:
        return conversion

    def convert(values: list[Any]) -> list[Any]:
        plain = conversion([value for value, _ in values])
        return [(one, accessed) for one, (_, accessed) in zip(plain, values, strict=True)]

    return convert


def changed_content(kind: str, content: Any, change: Conversion) -> Any:
    """Returns the content of one row changed: a value, a chunk of a list, or a map entry."""
    if kind == "list":
        return change(content)
    if kind == "map":
        return content[0], change([content[1]])[0]
    return change([content])[0]


def changed_columns(kind: str, columns: Columns, change: Conversion) -> Columns:
    """Returns columns with their values changed; what says that something is gone stays."""
    if kind == "value":
        changed: Columns = []
        for ns, keys, values in columns:
            found = iter(change([value for value in values if value is not None]))
            changed.append((ns, keys, [None if value is None else next(found) for value in values]))
        return changed
    if kind == "list":
        return [
            (ns, keys, starts, [None if part is None else change(part) for part in items])
            for ns, keys, starts, items in columns
        ]
    return [
        (ns, keys, cleared, map_keys, list(map(change, values)), removed)
        for ns, keys, cleared, map_keys, values, removed in columns
    ]
