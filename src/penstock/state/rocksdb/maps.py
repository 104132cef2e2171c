"""Maps of the `rocksdb` backend: one row per map entry, so no map is ever read as a whole."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from penstock.state.rocksdb.rows import stable_bytes
from penstock.state.rocksdb.table import ENTRY_BYTES, MISSING, RocksTable
from penstock.state.tables import ABSENT, CLEARED, Columns, Conversion, MapTable, map_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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
    """Maps, one row per map entry; an entry is what is known of a map.

    The overlay has the parts that changed. What is frozen are their `(is_cleared, changes)`.
    """

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
            if len(small) > self._context.limits.whole_map_entries:
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
                self.overlay.setdefault(ns, {})[key] = part
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
                self.overlay.setdefault(ns, {})[key] = part
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
                self.overlay[ns].pop(key, None)
        self.spaces.prune(ns)

    def freeze(self) -> None:
        super().freeze()
        for parts in self.frozen.values():
            for key, part in parts.items():
                parts[key] = (part.is_cleared, part.changes)
                part.is_cleared, part.changes = False, {}

    def unfreeze(self) -> None:
        for ns, parts in self.frozen.items():
            for key, (is_cleared, changes) in parts.items():
                part = self._part(key, ns)
                if not part.is_cleared:
                    part.is_cleared, part.changes = is_cleared, changes | part.changes
                self.overlay.setdefault(ns, {})[key] = part
        self.frozen = {}

    def folded(self) -> None:
        self.frozen = {}

    def evict(self) -> None:
        if not self.in_base:
            return
        self.is_complete = False
        kept: dict[Any, dict[Any, Any]] = {}
        dirty_of = {ns: dirty for ns, dirty, _ in self.spaces.changes()}
        for ns, entries in self.spaces.all():
            dirty, frozen = dirty_of.get(ns, {}), self.frozen.get(ns, {})
            for key, part in entries.items():
                changes = dirty.get(key, {})
                was_cleared, older = frozen.get(key, (False, {}))
                if not (part.changes or part.is_cleared or changes or was_cleared or older):
                    continue
                part.is_whole = was_cleared or part.is_cleared or CLEARED in changes
                part.known = {} if part.is_cleared else dict(older)
                part.known.update(part.changes)
                if CLEARED in changes:
                    part.known = {}
                part.known.update(changes)
                part.known.pop(CLEARED, None)
                kept.setdefault(ns, {})[key] = part
        self.spaces.keep_only(kept)

    def _change_each(self, change: Conversion) -> None:
        parts = [part for _, entries in self.spaces.all() for part in entries.values()]
        changed = [changes for _, dirty, _ in self.spaces.changes() for changes in dirty.values()]
        for found in (
            *(part.known for part in parts),
            *(part.changes for part in parts),
            *(changes for old in self.frozen.values() for _, changes in old.values()),
            *changed,
        ):
            for key, value in found.items():
                if value is not ABSENT and key is not CLEARED:
                    found[key] = change([value])[0]

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        return None if self.decode(data)[1][1] <= deadline_ms else MISSING

    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        for ns, parts in self.frozen.items():
            for key, (is_cleared, changes) in parts.items():
                row = self.row_of(key, ns)
                if is_cleared:
                    for old, _ in self._base.scan_prefix(row):
                        yield old, None
                for map_key, value in changes.items():
                    place = row + stable_bytes(map_key)
                    if value is ABSENT:
                        yield place, None
                    else:
                        yield place, self.encode((map_key, value), key, ns)

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = self.owner_of(row, data)
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
