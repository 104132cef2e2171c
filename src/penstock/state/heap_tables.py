"""Tables of the `hashmap` backend: plain dicts that hold everything.

User state (namespace None) lies in one dict by key, so that its lookups are one dict access; each
other namespace has a dict of its own, and the one used last is remembered, because windows are
worked on one after the other. A change is written twice, to the entries and to `dirty`: reading
stays one lookup, and a commit copies columns without looking anything up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.state.tables import ABSENT, CLEARED, Columns, ListTable, MapTable, Table, ValueTable


class _Spaces:
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

    def changes(self) -> Iterator[tuple[Any, dict[Any, Any], dict[Any, Any]]]:
        """Yields (namespace, changes, entries)."""
        if self.dirty:
            yield None, self.dirty, self.entries
        for ns, dirty in self._scoped_dirty.items():
            if dirty:
                yield ns, dirty, self._scoped.get(ns, {})

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


class _HeapTable(Table):
    """What the three tables share."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.spaces = _Spaces()

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.spaces.reset()

    def mark_clean(self) -> None:
        """Forgets what changed, because a full image holds it."""
        self.spaces.mark_clean()

    def keys_of_all(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yields each namespace with its keys."""
        for ns, entries in self.spaces.all():
            yield ns, list(entries)

    def drop(self, ns: Any, keys: Iterable[Any]) -> None:
        """Removes keys without a trace, when a restore finds them out of range."""
        entries = self.spaces.read(ns)
        if entries is not None:
            for key in keys:
                entries.pop(key, None)
            self.spaces.prune(ns)


class HeapValueTable(_HeapTable, ValueTable):
    """Values in dicts."""

    def get(self, key: Any, ns: Any = None) -> Any:
        entries = self.spaces.read(ns)
        return None if entries is None else entries.get(key)

    def put(self, key: Any, ns: Any, value: Any) -> None:
        if value is None:
            self.remove(key, ns)
            return
        entries, dirty = self.spaces.write(ns)
        entries[key] = dirty[key] = value

    def remove(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        if entries is not None and entries.pop(key, None) is not None:
            self.spaces.write(ns)[1][key] = None
            if not entries:
                self.spaces.prune(ns)

    def collect(self) -> Columns:
        columns: Columns = [
            (ns, list(dirty), list(dirty.values())) for ns, dirty, _ in self.spaces.changes()
        ]
        self.spaces.mark_clean()
        return columns

    def image(self) -> Columns:
        """Returns the whole table as columns."""
        return [
            (ns, list(entries), list(entries.values())) for ns, entries in self.spaces.all()
        ]

    def apply(self, columns: Columns) -> None:
        for ns, keys, values in columns:
            entries, _ = self.spaces.write(ns)
            entries.update(zip(keys, values, strict=True))
            if None in values:
                for key, value in zip(keys, values, strict=True):
                    if value is None:
                        del entries[key]
            self.spaces.prune(ns)

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, value in entries.items():
                yield key, ns, value


class HeapListTable(_HeapTable, ListTable):
    """Lists in dicts; a change is the position from which a list is new."""

    def get(self, key: Any, ns: Any = None) -> list[Any]:
        entries = self.spaces.read(ns)
        return [] if entries is None else entries.get(key) or []

    def append(self, key: Any, ns: Any, value: Any) -> None:
        entries, dirty = self.spaces.write(ns)
        values = entries.get(key)
        if values is None:
            entries[key] = [value]
            dirty[key] = 0
            return
        if key not in dirty:
            dirty[key] = len(values)
        values.append(value)

    def extend(self, key: Any, ns: Any, values: Iterable[Any]) -> None:
        entries, dirty = self.spaces.write(ns)
        present = entries.get(key)
        if present is None:
            present = list(values)
            if present:
                entries[key] = present
                dirty[key] = 0
            else:
                self.spaces.prune(ns)
            return
        if key not in dirty:
            dirty[key] = len(present)
        present.extend(values)

    def replace(self, key: Any, ns: Any, values: list[Any]) -> None:
        if not values:
            self.remove(key, ns)
            return
        entries, dirty = self.spaces.write(ns)
        entries[key] = values
        dirty[key] = 0

    def remove(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        if entries is not None and entries.pop(key, None) is not None:
            self.spaces.write(ns)[1][key] = 0
            if not entries:
                self.spaces.prune(ns)

    def collect(self) -> Columns:
        columns: Columns = []
        for ns, dirty, entries in self.spaces.changes():
            items: list[list[Any] | None] = []
            for key, start in dirty.items():
                values = entries.get(key)
                items.append(values if values is None or start == 0 else values[start:])
            columns.append((ns, list(dirty), list(dirty.values()), items))
        self.spaces.mark_clean()
        return columns

    def image(self) -> Columns:
        """Returns the whole table as columns."""
        return [
            (ns, list(entries), [0] * len(entries), list(entries.values()))
            for ns, entries in self.spaces.all()
        ]

    def apply(self, columns: Columns) -> None:
        for ns, keys, starts, items in columns:
            entries, _ = self.spaces.write(ns)
            for key, start, values in zip(keys, starts, items, strict=True):
                if values is None:
                    entries.pop(key, None)
                elif start <= 0:
                    entries[key] = values
                else:
                    present = entries[key]
                    del present[start:]
                    present.extend(values)
            self.spaces.prune(ns)

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, values in entries.items():
                yield key, ns, values


class HeapMapTable(_HeapTable, MapTable):
    """Maps in dicts; a change is a dict of the map entries that changed."""

    def get(self, key: Any, ns: Any, map_key: Any, default: Any = None) -> Any:
        entries = self.spaces.read(ns)
        if entries is None:
            return default
        found = entries.get(key)
        return default if found is None else found.get(map_key, default)

    def put(self, key: Any, ns: Any, map_key: Any, value: Any) -> None:
        found, changes = self._open(key, ns)
        found[map_key] = changes[map_key] = value

    def remove(self, key: Any, ns: Any, map_key: Any) -> None:
        entries = self.spaces.read(ns)
        found = None if entries is None else entries.get(key)
        if found is None or map_key not in found:
            return
        found, changes = self._open(key, ns)
        del found[map_key]
        changes[map_key] = ABSENT
        if not found and entries is not None:
            del entries[key]
            self.spaces.prune(ns)

    def items(self, key: Any, ns: Any = None) -> Iterable[tuple[Any, Any]]:
        entries = self.spaces.read(ns)
        found = None if entries is None else entries.get(key)
        return [] if found is None else list(found.items())

    def is_empty(self, key: Any, ns: Any = None) -> bool:
        entries = self.spaces.read(ns)
        return entries is None or key not in entries

    def update(self, key: Any, ns: Any, mapping: Mapping[Any, Any]) -> None:
        if mapping:
            found, changes = self._open(key, ns)
            found.update(mapping)
            changes.update(mapping)

    def clear(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        if entries is not None and entries.pop(key, None) is not None:
            self.spaces.write(ns)[1][key] = {CLEARED: True}
            self.spaces.prune(ns)

    def _open(self, key: Any, ns: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Returns the map of a key and the dict of its changes, made if missing."""
        entries, dirty = self.spaces.write(ns)
        found = entries.get(key)
        if found is None:
            found = entries[key] = {}
        changes = dirty.get(key)
        if changes is None:
            changes = dirty[key] = {}
        return found, changes

    def collect(self) -> Columns:
        columns = [map_columns(ns, dirty) for ns, dirty, _ in self.spaces.changes()]
        self.spaces.mark_clean()
        return columns

    def image(self) -> Columns:
        """Returns the whole table as columns."""
        return [
            (
                ns,
                list(entries),
                [True] * len(entries),
                [list(found) for found in entries.values()],
                [list(found.values()) for found in entries.values()],
                [()] * len(entries),
            )
            for ns, entries in self.spaces.all()
        ]

    def apply(self, columns: Columns) -> None:
        for ns, *rows in columns:
            entries, _ = self.spaces.write(ns)
            for key, cleared, map_keys, values, removed in zip(*rows, strict=True):
                found = None if cleared else entries.get(key)
                if found is None:
                    found = entries[key] = {}
                found.update(zip(map_keys, values, strict=True))
                for map_key in removed:
                    found.pop(map_key, None)
                if not found:
                    del entries[key]
            self.spaces.prune(ns)

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, found in entries.items():
                for item in found.items():
                    yield key, ns, item


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
