"""Tables of the `hashmap` backend: plain dicts that hold everything."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock.state.tables import (
    ABSENT,
    CLEARED,
    Columns,
    Conversion,
    ListTable,
    MapTable,
    Spaces,
    Table,
    ValueTable,
    changed_columns,
    keeping_times,
    map_columns,
    retimed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


HASHMAP: Final = "hashmap"


class _HeapTable(Table):
    """What the three tables share."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.spaces = Spaces()
        # The dicts of user state, which are always the same two, without asking for them.
        self._entries = self.spaces.entries
        self._dirty = self.spaces.dirty
        # What of the running round of `expire` is left: keys by namespace, taken from the end.
        self._to_expire: list[tuple[Any, list[Any]]] = []

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.spaces.reset()
        self._to_expire.clear()

    def mark_clean(self) -> None:
        """Forgets what changed, because a full image holds it."""
        self.spaces.mark_clean()

    @abstractmethod
    def image(self) -> Columns:
        """Returns the whole table as columns."""

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self.timed = timed
        return self._change(retimed(to_timed=timed, now_ms=now_ms))

    def convert(self, schema: str, conversion: Conversion) -> bool:
        self.schema = schema
        return self._change(keeping_times(conversion, timed=self.timed))

    def _change(self, change: Conversion) -> bool:
        columns = changed_columns(self.kind, self.image(), change)
        self.reset()
        self.apply(columns)
        return bool(columns)

    def expire(self, deadline_ms: int, count: int) -> None:
        while count > 0:
            if not self._to_expire:
                self._to_expire = [(ns, list(entries)) for ns, entries in self.spaces.all()]
                # One round a call is enough, however often entries were accessed.
                count = min(count, sum(len(keys) for _, keys in self._to_expire))
                if count == 0:
                    return
            ns, keys = self._to_expire[-1]
            for key in keys[-count:]:
                self._expire_key(key, ns, deadline_ms)
            seen = len(keys[-count:])
            del keys[-count:]
            count -= seen
            if not keys:
                self._to_expire.pop()

    def expire_all(self, deadline_ms: int) -> None:
        """Removes all that was last accessed by `deadline_ms`."""
        self._to_expire.clear()
        self.expire(deadline_ms, sys.maxsize)

    @abstractmethod
    def _expire_key(self, key: Any, ns: Any, deadline_ms: int) -> None:
        """Removes what of a key was last accessed by `deadline_ms`."""


class HeapValueTable(_HeapTable, ValueTable):
    """Values in dicts."""

    def get(self, key: Any, ns: Any = None) -> Any:
        entries = self._entries if ns is None else self.spaces.read(ns)
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
        return [(ns, list(entries), list(entries.values())) for ns, entries in self.spaces.all()]

    def apply(self, columns: Columns) -> None:
        for ns, keys, values in columns:
            entries, _ = self.spaces.write(ns)
            entries.update(zip(keys, values, strict=True))
            # Not `None in values`: that would compare with what users store.
            for key in [key for key, value in zip(keys, values, strict=True) if value is None]:
                del entries[key]
            self.spaces.prune(ns)

    def _expire_key(self, key: Any, ns: Any, deadline_ms: int) -> None:
        entry = self.get(key, ns)
        if entry is not None and entry[1] <= deadline_ms:
            self.remove(key, ns)

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
        entries, dirty = (self._entries, self._dirty) if ns is None else self.spaces.write(ns)
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

    def _expire_key(self, key: Any, ns: Any, deadline_ms: int) -> None:
        values = self.get(key, ns)
        fresh = [element for element in values if element[1] > deadline_ms]
        if len(fresh) < len(values):
            self.replace(key, ns, fresh)

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, values in entries.items():
                yield key, ns, values


class HeapMapTable(_HeapTable, MapTable):
    """Maps in dicts; a change is a dict of the map entries that changed."""

    def get(self, key: Any, ns: Any, map_key: Any, default: Any = None) -> Any:
        entries = self._entries if ns is None else self.spaces.read(ns)
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
        entries, dirty = (self._entries, self._dirty) if ns is None else self.spaces.write(ns)
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

    def _expire_key(self, key: Any, ns: Any, deadline_ms: int) -> None:
        for map_key, (_, accessed) in self.items(key, ns):
            if accessed <= deadline_ms:
                self.remove(key, ns, map_key)

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, found in entries.items():
                for item in found.items():
                    yield key, ns, item
