"""Tables of the `rocksdb` backend: changes since the base in memory, everything else in its rows.

Each table holds, by namespace and key,

* `spaces.entries`: what is known in memory, changes and rows already read,
* `spaces.dirty`: changes since the last commit,
* `overlay`: changes from the base to the last commit, which are in the deltas too.

Reads look into `entries`, then into the base. `evict` reduces `entries` to what only memory has.
A fold turns `overlay` into rows of a new base.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock.state import codec
from penstock.state.heap_tables import map_columns
from penstock.state.rows import (
    chunk_number,
    encode_value,
    encode_values,
    frame,
    owner_of,
    stable_bytes,
)
from penstock.state.spaces import Spaces
from penstock.state.tables import ABSENT, CLEARED, Columns, ListTable, MapTable, Table, ValueTable
from penstock.state.timed import convert_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.state.rocks_base import RocksBase
    from penstock.state.rows import RowKeys

MISSING: Final = object()

CHUNK_ELEMENTS: Final = 1000
"""Most elements in one row of a list."""

SMALL_MAP: Final = 64
"""Maps up to this size stay in memory as a whole once they were iterated."""

MAX_CACHED_LIST_BYTES: Final = 1 << 20
"""Longer lists are read again each time, since one of them could fill the memory."""

ENTRY_BYTES: Final = 150
"""What an entry costs in memory besides its pickled size: dict slots and object headers."""


class RocksContext:
    """What the tables of one state share."""

    def __init__(
        self,
        base: RocksBase,
        row_keys: RowKeys,
        account: Callable[[int], None],
    ) -> None:
        self.base = base
        self.row_keys = row_keys
        self.account = account


class RocksTable(Table):
    """What the three tables share.

    Attributes:
        in_base: The base may have rows of this table.
        is_complete: Whatever the base has is in memory too, so that nothing needs looking up. True
            for as long as a state fits into memory.
        is_read_by_key: There are entries without a namespace, so that prefetching by key pays.
        timed_since_ms: When the state got its TTL; the last access of rows that are older.
    """

    def __init__(self, name: str, context: RocksContext) -> None:
        super().__init__(name)
        self.spaces = Spaces()
        self.overlay: dict[Any, dict[Any, Any]] = {}
        self._context = context
        self._base = context.base
        self._name_frame = frame(name.encode())
        self._what = f"state {name!r}"
        self.in_base = False
        self.is_complete = True
        self.is_read_by_key = False
        self.timed_since_ms = 0

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.overlay.clear()
        self.spaces.reset()
        self.in_base = False
        self.is_complete = True

    def attach(self) -> None:
        """The table gets a base that has rows of it."""
        self.in_base = True
        self.is_complete = False

    def folded(self) -> None:
        """The overlay is in the base now."""
        self.overlay.clear()
        self.in_base = True

    @abstractmethod
    def evict(self) -> None:
        """Drops from memory what the base has."""

    @abstractmethod
    def overlay_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the overlay as rows, None for rows to delete; a later one of a key counts."""

    @abstractmethod
    def base_entry(self, row: bytes, data: bytes) -> Any:
        """Returns (key, namespace, value) of a base row, or None if memory knows better."""

    @abstractmethod
    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields (key, namespace, value) of what memory knows better than the base."""

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        raise NotImplementedError("a rocksdb state yields its entries itself, in one scan")

    def _set_timed(self, timed: bool, now_ms: int) -> None:
        self.timed = timed
        self.timed_since_ms = now_ms if timed else 0

    @abstractmethod
    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        """Returns a timed row's content without what was last accessed by then; None if nothing.

        Returns `MISSING` where nothing is expired.
        """

    def unexpired_row(
        self, row: bytes, data: bytes, deadline_ms: int
    ) -> tuple[bytes, bytes | None] | None:
        """Returns what a row becomes when expired content goes, or None if it stays as it is."""
        content = self.unexpired(data, deadline_ms)
        if content is MISSING:
            return None
        if content is None:
            return row, None
        return row, encode_value(content, *owner_of(row, data), timed=True, what=self._what)

    def row_of(self, key: Any, ns: Any) -> bytes:
        """Returns the row key of a key and namespace, the prefix of all its rows."""
        row_keys = self._context.row_keys
        return row_keys.of_key(key) + self._name_frame + row_keys.of_namespace(ns)

    def rows_of(self, keys: list[Any], ns: Any) -> list[bytes]:
        """Returns `row_of` of each key."""
        row_keys = self._context.row_keys
        tail = self._name_frame + row_keys.of_namespace(ns)
        return [start + tail for start in row_keys.of_keys(keys)]

    def encode(self, value: Any, key: Any, ns: Any) -> bytes:
        return encode_value(value, key, ns, timed=self.timed, what=self._what)

    def decode(self, data: bytes) -> Any:
        """Returns the value in a row value, in the form that the table has now."""
        value = codec.loads(data)
        is_timed = data[-1] > 1
        if is_timed is self.timed:
            return value
        return convert_value(self.kind, value, to_timed=self.timed, now_ms=self.timed_since_ms)


class RocksValueTable(RocksTable, ValueTable):
    """Values; an entry None is known to be absent."""

    def get(self, key: Any, ns: Any = None) -> Any:
        entries = self.spaces.read(ns)
        if entries is not None:
            value = entries.get(key, MISSING)
            if value is not MISSING:
                return value
        return self.load(key, ns)

    def load(self, key: Any, ns: Any = None) -> Any:
        """Reads a value from the base into memory and returns it."""
        if self.is_complete:
            hash(key)
            return None
        if ns is None:
            self.is_read_by_key = True
        data = self._base.get(self.row_of(key, ns))
        value = None if data is None else self.decode(data)
        self._context.account(ENTRY_BYTES + (0 if data is None else len(data)))
        self.spaces.write(ns)[0][key] = value
        return value

    def prefetch(self, keys: Iterable[Any], ns: Any = None) -> None:
        """Reads the values of many keys in the order of their rows."""
        if self.is_complete:
            return
        entries = self.spaces.write(ns)[0]
        missing = [key for key in keys if key not in entries]
        if not missing:
            return
        if ns is None:
            self.is_read_by_key = True
        keys_by_row = dict(zip(self.rows_of(missing, ns), missing, strict=True))
        rows = sorted(keys_by_row)
        found = self._base.get_many(rows)
        size = len(rows) * ENTRY_BYTES
        self._context.account(size + sum(len(data) for data in found if data is not None))
        entries = self.spaces.write(ns)[0]
        loads, timed = codec.loads, self.timed
        for row, data in zip(rows, found, strict=True):
            if data is None:
                entries[keys_by_row[row]] = None
            elif (data[-1] > 1) is timed:
                entries[keys_by_row[row]] = loads(data)
            else:
                entries[keys_by_row[row]] = self.decode(data)

    def put(self, key: Any, ns: Any, value: Any) -> None:
        if value is None:
            self.remove(key, ns)
            return
        entries, dirty = self.spaces.write(ns)
        entries[key] = dirty[key] = value

    def remove(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        known = MISSING if entries is None else entries.get(key, MISSING)
        if known is None or (known is MISSING and self.is_complete):
            return
        entries, dirty = self.spaces.write(ns)
        entries[key] = dirty[key] = None

    def collect(self) -> Columns:
        columns: Columns = []
        for ns, dirty, _ in self.spaces.changes():
            columns.append((ns, list(dirty), list(dirty.values())))
            self.overlay.setdefault(ns, {}).update(dirty)
            if not self.in_base:
                self._drop_removed(ns, dirty.items())
        self.spaces.mark_clean()
        return columns

    def apply(self, columns: Columns) -> None:
        for ns, keys, values in columns:
            self.spaces.write(ns)[0].update(zip(keys, values, strict=True))
            self.overlay.setdefault(ns, {}).update(zip(keys, values, strict=True))
            if not self.in_base:
                self._drop_removed(ns, zip(keys, values, strict=True))
        self.spaces.mark_clean()

    def _drop_removed(self, ns: Any, changes: Iterable[tuple[Any, Any]]) -> None:
        """Without a base nothing needs hiding: windows that came and went leave no trace."""
        removed = [key for key, value in changes if value is None]
        overlay, entries = self.overlay[ns], self.spaces.read(ns)
        for key in removed:
            del overlay[key]
            if entries is not None:
                entries.pop(key, None)
        if not overlay:
            del self.overlay[ns]
        self.spaces.prune(ns)

    def folded(self) -> None:
        self.is_read_by_key = self.is_read_by_key or bool(self.spaces.entries)
        for ns, found in self.overlay.items():
            # Nobody asks for the past again; under namespace None keys do come back.
            entries = self.spaces.read(ns)
            if ns is not None and entries is not None:
                for key in [key for key, value in found.items() if value is None]:
                    entries.pop(key, None)
                self.spaces.prune(ns)
        super().folded()

    def evict(self) -> None:
        if not self.in_base:
            return
        self.is_complete = False
        kept = {ns: dict(found) for ns, found in self.overlay.items()}
        for ns, dirty, _ in self.spaces.changes():
            kept.setdefault(ns, {}).update(dirty)
        self.spaces.keep_only(kept)

    def count_overlay(self) -> int:
        """Returns the number of entries in the overlay."""
        return sum(map(len, self.overlay.values()))

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self._set_timed(timed, now_ms)
        for found in (*self.spaces.all_dicts(), *self.overlay.values()):
            for key, value in found.items():
                if value is not None:
                    found[key] = convert_value("value", value, to_timed=timed, now_ms=now_ms)
        return self.in_base or not self.spaces.is_empty

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        return None if codec.loads(data)[1] <= deadline_ms else MISSING

    def overlay_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        for ns, found in self.overlay.items():
            kept = [key for key, value in found.items() if value is not None]
            values = [value for value in found.values() if value is not None]
            data = encode_values(values, kept, ns, timed=self.timed, what=self._what)
            yield from zip(self.rows_of(kept, ns), data, strict=True)
            if len(kept) < len(found):
                removed = [key for key, value in found.items() if value is None]
                for row in self.rows_of(removed, ns):
                    yield row, None

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = owner_of(row, data)
        entries = self.spaces.read(ns)
        if entries is not None and key in entries:
            return None
        return key, ns, self.decode(data)

    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, value in entries.items():
                if value is not None:
                    yield key, ns, value


class _Tail:
    """What is new of one list since the base: the base's part counts unless `is_cleared`."""

    __slots__ = ("is_cleared", "items")

    def __init__(self) -> None:
        self.is_cleared = False
        self.items: list[Any] = []


class RocksListTable(RocksTable, ListTable):
    """Lists; an entry is the tail, a change the position in it from which it is new (-1: all).

    The tails are the overlay. `clean` are the base's parts that were read.
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
            if size <= MAX_CACHED_LIST_BYTES:
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
            dirty[key] = len(tail.items)
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
        tail.items = values
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
                    items.append(tail.items[max(start, 0) :])
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
                    tail = entries[key] = _Tail()
                if values is None or start < 0:
                    tail.is_cleared = True
                    tail.items = values or []
                else:
                    del tail.items[start:]
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

    def folded(self) -> None:
        self._clean.clear()
        self.spaces.reset()
        self.in_base = True

    def evict(self) -> None:
        self._clean.clear()

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self._set_timed(timed, now_ms)
        self._clean.clear()
        for _, entries in self.spaces.all():
            for tail in entries.values():
                tail.items = convert_value("list", tail.items, to_timed=timed, now_ms=now_ms)
        return self.in_base or not self.spaces.is_empty

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        elements = codec.loads(data)
        fresh = [element for element in elements if element[1] > deadline_ms]
        return MISSING if len(fresh) == len(elements) else fresh or None

    def overlay_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        folds = self._base.folds
        for ns, entries in self.spaces.all():
            keys = list(entries)
            for row, key in zip(self.rows_of(keys, ns), keys, strict=True):
                tail = entries[key]
                if tail.is_cleared:
                    for old, _ in self._base.scan_prefix(row):
                        yield old, None
                for start in range(0, len(tail.items), CHUNK_ELEMENTS):
                    chunk = tail.items[start : start + CHUNK_ELEMENTS]
                    place = chunk_number(folds, start // CHUNK_ELEMENTS)
                    yield row + place, self.encode(chunk, key, ns)

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = owner_of(row, data)
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


class _Part:
    """What is known of one map.

    Attributes:
        known: Map entries in memory, `ABSENT` where there is none; all of them if `is_whole`.
        changes: Those of them that changed since the base, up to the last commit.
        is_cleared: The base's entries were removed, up to the last commit.
    """

    __slots__ = ("changes", "is_cleared", "is_whole", "known")

    def __init__(self, *, is_whole: bool) -> None:
        self.known: dict[Any, Any] = {}
        self.changes: dict[Any, Any] = {}
        self.is_whole = is_whole
        self.is_cleared = False


class RocksMapTable(RocksTable, MapTable):
    """Maps, one row per map entry; an entry is what is known of a map."""

    def get(self, key: Any, ns: Any, map_key: Any, default: Any = None) -> Any:
        entries = self.spaces.read(ns)
        part = None if entries is None else entries.get(key)
        if part is None:
            if self.is_complete:
                hash(key)
                return default
            value = self._load(key, ns, map_key)
        else:
            value = part.known.get(map_key, MISSING)
            if value is MISSING:
                value = ABSENT if part.is_whole else self._load(key, ns, map_key)
        return default if value is ABSENT else value

    def _load(self, key: Any, ns: Any, map_key: Any) -> Any:
        data = self._base.get(self.row_of(key, ns) + stable_bytes(map_key))
        value = ABSENT if data is None else self.decode(data)[1]
        self._context.account(ENTRY_BYTES + (0 if data is None else len(data)))
        self._part(key, ns).known[map_key] = value
        return value

    def _part(self, key: Any, ns: Any) -> _Part:
        entries, _ = self.spaces.write(ns)
        part: _Part | None = entries.get(key)
        if part is None:
            part = entries[key] = _Part(is_whole=self.is_complete)
        return part

    def _change(self, key: Any, ns: Any, map_key: Any, value: Any) -> None:
        self._part(key, ns).known[map_key] = value
        dirty = self.spaces.write(ns)[1]
        changes = dirty.get(key)
        if changes is None:
            changes = dirty[key] = {}
        changes[map_key] = value

    def put(self, key: Any, ns: Any, map_key: Any, value: Any) -> None:
        self._change(key, ns, map_key, value)

    def update(self, key: Any, ns: Any, mapping: Mapping[Any, Any]) -> None:
        for map_key, value in mapping.items():
            self._change(key, ns, map_key, value)

    def remove(self, key: Any, ns: Any, map_key: Any) -> None:
        entries = self.spaces.read(ns)
        part = None if entries is None else entries.get(key)
        if part is None and self.is_complete:
            return
        if part is not None:
            known = part.known.get(map_key, ABSENT if part.is_whole else MISSING)
            if known is ABSENT:
                return
        self._change(key, ns, map_key, ABSENT)

    def items(self, key: Any, ns: Any = None) -> Iterable[tuple[Any, Any]]:
        entries = self.spaces.read(ns)
        part = None if entries is None else entries.get(key)
        if part is None and self.is_complete:
            hash(key)
            return []
        if part is not None and part.is_whole:
            return [item for item in part.known.items() if item[1] is not ABSENT]
        return self._merged(key, ns, {} if part is None else dict(part.known))

    def _merged(self, key: Any, ns: Any, known: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Yields what is known and the base's other rows; keeps a small map in memory."""
        rows = self._base.scan_prefix(self.row_of(key, ns))
        small: dict[Any, Any] = {}
        size = ENTRY_BYTES
        for _, data in rows:
            map_key, value = self.decode(data)
            small.setdefault(map_key, value)
            size += len(data) + ENTRY_BYTES
            if len(small) > SMALL_MAP:
                break
        else:
            self._keep_whole(key, ns, small, size)
        others = (self.decode(data) for _, data in rows)
        for map_key, in_base in itertools.chain(small.items(), others):
            value = known.pop(map_key, in_base)
            if value is not ABSENT:
                yield map_key, value
        for item in known.items():
            if item[1] is not ABSENT:
                yield item

    def _keep_whole(self, key: Any, ns: Any, base: dict[Any, Any], size: int) -> None:
        self._context.account(size)
        part = self._part(key, ns)
        part.known = base | part.known
        part.is_whole = True

    def is_empty(self, key: Any, ns: Any = None) -> bool:
        return next(iter(self.items(key, ns)), None) is None

    def clear(self, key: Any, ns: Any = None) -> None:
        entries = self.spaces.read(ns)
        part = None if entries is None else entries.get(key)
        if part is None and self.is_complete:
            return
        part = self._part(key, ns)
        part.known = {}
        part.is_whole = True
        self.spaces.write(ns)[1][key] = {CLEARED: True}

    def collect(self) -> Columns:
        columns: Columns = []
        for ns, dirty, entries in self.spaces.changes():
            for key, changes in dirty.items():
                part = entries[key]
                if CLEARED in changes:
                    part.is_cleared = True
                    part.changes = {}
                part.changes.update(changes)
                part.changes.pop(CLEARED, None)
            self._drop_empty(ns, entries, dirty)
            columns.append(map_columns(ns, dirty))
        self.spaces.mark_clean()
        return columns

    def apply(self, columns: Columns) -> None:
        for ns, *rows in columns:
            for key, cleared, map_keys, values, removed in zip(*rows, strict=True):
                part = self._part(key, ns)
                if cleared:
                    part.is_cleared = part.is_whole = True
                    part.known = {}
                    part.changes = {}
                changes = dict(zip(map_keys, values, strict=True))
                changes.update(dict.fromkeys(removed, ABSENT))
                part.known.update(changes)
                part.changes.update(changes)
            self._drop_empty(ns, self.spaces.write(ns)[0], rows[0])
        self.spaces.mark_clean()

    def _drop_empty(self, ns: Any, entries: dict[Any, Any], keys: Iterable[Any]) -> None:
        if self.in_base:
            return
        for key in keys:
            part = entries[key]
            for map_key in [name for name, value in part.changes.items() if value is ABSENT]:
                del part.changes[map_key]
                del part.known[map_key]
            if not part.known:
                del entries[key]
        self.spaces.prune(ns)

    def folded(self) -> None:
        for _, entries in self.spaces.all():
            for part in entries.values():
                part.changes = {}
                part.is_cleared = False
        self.in_base = True

    def evict(self) -> None:
        if not self.in_base:
            return
        self.is_complete = False
        kept: dict[Any, dict[Any, Any]] = {}
        dirty_of = {ns: dirty for ns, dirty, _ in self.spaces.changes()}
        for ns, entries in self.spaces.all():
            dirty = dirty_of.get(ns, {})
            for key, part in entries.items():
                changes = dirty.get(key, {})
                if not (part.changes or part.is_cleared or changes):
                    continue
                part.is_whole = part.is_cleared or CLEARED in changes
                part.known = {} if CLEARED in changes else dict(part.changes)
                part.known.update(changes)
                part.known.pop(CLEARED, None)
                kept.setdefault(ns, {})[key] = part
        self.spaces.keep_only(kept)

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self._set_timed(timed, now_ms)
        parts = [part for _, entries in self.spaces.all() for part in entries.values()]
        changed = [changes for _, dirty, _ in self.spaces.changes() for changes in dirty.values()]
        for found in (
            *(part.known for part in parts),
            *(part.changes for part in parts),
            *changed,
        ):
            for key, value in found.items():
                if value is not ABSENT and key is not CLEARED:
                    found[key] = convert_value("value", value, to_timed=timed, now_ms=now_ms)
        return self.in_base or not self.spaces.is_empty

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        return None if codec.loads(data)[1][1] <= deadline_ms else MISSING

    def overlay_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        for ns, entries in self.spaces.all():
            changed = [key for key, part in entries.items() if part.changes or part.is_cleared]
            for row, key in zip(self.rows_of(changed, ns), changed, strict=True):
                part = entries[key]
                if part.is_cleared:
                    for old, _ in self._base.scan_prefix(row):
                        yield old, None
                for map_key, value in part.changes.items():
                    place = row + stable_bytes(map_key)
                    if value is ABSENT:
                        yield place, None
                    else:
                        yield place, self.encode((map_key, value), key, ns)

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = owner_of(row, data)
        entries = self.spaces.read(ns)
        part = None if entries is None else entries.get(key)
        item = self.decode(data)
        if part is not None and (part.is_whole or item[0] in part.known):
            return None
        return key, ns, item

    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, part in entries.items():
                for item in part.known.items():
                    if item[1] is not ABSENT:
                        yield key, ns, item
