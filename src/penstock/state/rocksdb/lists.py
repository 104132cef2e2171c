"""Lists of the `rocksdb` backend: rows are chunks, so appending never reads what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.state.rocksdb.rows import chunk_number
from penstock.state.rocksdb.table import ENTRY_BYTES, MISSING, RocksContext, RocksTable
from penstock.state.tables import Columns, Conversion, ListTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class _Tail:
    """What is new of one list since the base: the base's part counts unless `is_cleared`.

    Attributes:
        origin: Position of the first item. A fold takes items away from the beginning, but deltas
            count on from where they were, since they apply to the base before it too.
        items: In order.
        is_cleared: See above.
    """

    __slots__ = ("is_cleared", "items", "origin")

    def __init__(self, origin: int = 0) -> None:
        self.origin = origin
        self.is_cleared = False
        self.items: list[Any] = []


class RocksListTable(RocksTable, ListTable):
    """Lists; an entry is the tail, a change the position in it from which it is new (-1: all).

    The tails are the overlay, and what is frozen are their `(is_cleared, items, number of items)`;
    items behind that number came later. `clean` are the base's parts that were read.
    """

    def __init__(self, name: str, context: RocksContext) -> None:
        super().__init__(name, context)
        self._clean: dict[tuple[Any, Any], list[Any]] = {}

    def get(self, key: Any, ns: Any = None) -> list[Any]:
        entries = self.spaces.read(ns)
        tail = None if entries is None else entries.get(key)
        if tail is not None and (tail.is_cleared or not self.in_base):
            items: list[Any] = tail.items
            return items
        start = self._base_part(key, ns)
        return start + tail.items if tail is not None else start

    def _base_part(self, key: Any, ns: Any) -> list[Any]:
        if not self.in_base:
            hash(key)
            return []
        found = self._clean.get((key, ns))
        if found is None:
            found, size = [], ENTRY_BYTES
            for _, data in self._base.scan_prefix(self.row_of(key, ns)):
                found += self.decode(data)
                size += len(data)
            if size <= self._context.limits.cached_list_bytes:
                self._context.account(size)
                self._clean[key, ns] = found
        return found

    def append(self, key: Any, ns: Any, value: Any) -> None:
        self._open(key, ns).items.append(value)

    def extend(self, key: Any, ns: Any, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            self._open(key, ns).items += added

    def _open(self, key: Any, ns: Any) -> _Tail:
        entries, dirty = self.spaces.write(ns)
        tail: _Tail | None = entries.get(key)
        if tail is None:
            tail = entries[key] = _Tail()
        if key not in dirty:
            dirty[key] = tail.origin + len(tail.items)
        return tail

    def replace(self, key: Any, ns: Any, values: list[Any]) -> None:
        entries, dirty = self.spaces.write(ns)
        tail = entries.get(key)
        if tail is None:
            if not values and not self.in_base:
                self.spaces.prune(ns)
                return
            tail = entries[key] = _Tail()
        tail.is_cleared = True
        tail.origin = 0
        # Never the same object: by that a fold sees that the list was replaced.
        tail.items = list(values) if values is tail.items else values
        dirty[key] = -1

    def remove(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        tail = None if entries is None else entries.get(key)
        if tail is not None and tail.is_cleared and not tail.items:
            return
        self.replace(key, ns, [])

    def collect(self) -> Columns:
        columns: Columns = []
        for ns, dirty, entries in self.spaces.changes():
            items: list[list[Any] | None] = []
            for key, start in dirty.items():
                tail = entries[key]
                if tail.is_cleared and not tail.items:
                    items.append(None)
                else:
                    items.append(tail.items[max(start - tail.origin, 0) :])
            columns.append((ns, list(dirty), list(dirty.values()), items))
            self._drop_empty(ns, entries, dirty)
        self.spaces.mark_clean()
        return columns

    def apply(self, columns: Columns) -> None:
        for ns, keys, starts, items in columns:
            entries, _ = self.spaces.write(ns)
            for key, start, values in zip(keys, starts, items, strict=True):
                tail = entries.get(key)
                if tail is None:
                    # What was before it is in the base.
                    tail = entries[key] = _Tail(max(start, 0))
                if values is None or start < 0:
                    tail.is_cleared = True
                    tail.origin = 0
                    tail.items = values or []
                else:
                    del tail.items[start - tail.origin :]
                    tail.items += values
            self._drop_empty(ns, entries, keys)
        self.spaces.mark_clean()

    def _drop_empty(self, ns: Any, entries: dict[Any, Any], keys: Iterable[Any]) -> None:
        if not self.in_base:
            for key in [key for key in keys if not entries[key].items]:
                del entries[key]
            self.spaces.prune(ns)

    def reset(self) -> None:
        self._clean.clear()
        super().reset()

    def freeze(self) -> None:
        super().freeze()
        self.frozen = {
            ns: {
                key: (tail.is_cleared, tail.items, len(tail.items)) for key, tail in entries.items()
            }
            for ns, entries in self.spaces.all()
        }

    def unfreeze(self) -> None:
        self.frozen = {}

    def folded(self) -> None:
        self._clean.clear()
        for ns, tails in self.frozen.items():
            entries = self.spaces.write(ns)[0]
            for key, (_, items, count) in tails.items():
                tail = entries[key]
                if tail.items is items:
                    tail.items = items[count:]
                    tail.origin += count
                    tail.is_cleared = False
        self.frozen = {}

    def published(self) -> None:
        for ns, entries in list(self.spaces.all()):
            for key in [
                key for key, tail in entries.items() if not (tail.items or tail.is_cleared)
            ]:
                del entries[key]
            self.spaces.prune(ns)

    def evict(self) -> None:
        self._clean.clear()

    def _change_each(self, change: Conversion) -> None:
        self._clean.clear()
        for _, entries in self.spaces.all():
            for tail in entries.values():
                tail.items = list(change(tail.items))

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        elements = self.decode(data)
        fresh = [element for element in elements if element[1] > deadline_ms]
        return MISSING if len(fresh) == len(elements) else fresh or None

    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        folds, size = self._base.folds, self._context.limits.chunk_elements
        for ns, tails in self.frozen.items():
            for key, (is_cleared, items, count) in tails.items():
                row = self.row_of(key, ns)
                if is_cleared:
                    for old, _ in self._base.scan_prefix(row):
                        yield old, None
                for start in range(0, count, size):
                    chunk = items[start : min(start + size, count)]
                    place = chunk_number(folds, start // size)
                    yield row + place, self.encode(chunk, key, ns)

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = self.owner_of(row, data)
        entries = self.spaces.read(ns)
        tail = None if entries is None else entries.get(key)
        if tail is not None and tail.is_cleared:
            return None
        return key, ns, self.decode(data)

    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, tail in entries.items():
                if tail.items:
                    yield key, ns, tail.items
