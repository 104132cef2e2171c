"""Values of the `rocksdb` backend, one row each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from penstock.state.rocksdb.table import ENTRY_BYTES, MISSING, RocksTable
from penstock.state.tables import ValueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.state.tables import Columns


ROWS_AT_ONCE: Final = 512
"""Values that become rows together."""


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
        usual = self.values.usual_flags(timed=self.timed)
        alike: list[Any] = []
        for row, data in zip(rows, found, strict=True):
            if data is None:
                entries[keys_by_row[row]] = None
            elif data[-1] == usual:
                alike.append((keys_by_row[row], data))
            else:
                entries[keys_by_row[row]] = self.decode(data)
        if alike:
            same, datas = zip(*alike, strict=True)
            entries.update(zip(same, self.values.decode_values(datas), strict=True))

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

    def unfreeze(self) -> None:
        for ns, found in self.overlay.items():
            self.frozen.setdefault(ns, {}).update(found)
        self.overlay, self.frozen = self.frozen, {}

    def folded(self) -> None:
        self.is_read_by_key = self.is_read_by_key or bool(self.spaces.entries)
        for ns, found in self.frozen.items():
            # A window that is over is not read again; without a namespace, keys do come back.
            entries = self.spaces.read(ns)
            if ns is not None and entries is not None:
                for key in [key for key, value in found.items() if value is None]:
                    if entries.get(key) is None:
                        entries.pop(key, None)
                self.spaces.prune(ns)
        self.frozen = {}

    def evict(self) -> None:
        if not self.in_base:
            return
        self.is_complete = False
        kept = {ns: dict(found) for ns, found in self.frozen.items()}
        for ns, changed in self.overlay.items():
            kept.setdefault(ns, {}).update(changed)
        for ns, dirty, _ in self.spaces.changes():
            kept.setdefault(ns, {}).update(dirty)
        self.spaces.keep_only(kept)

    def count_overlay(self) -> int:
        """Returns the number of entries in the overlay."""
        return sum(map(len, self.overlay.values()))

    def _change_each(self, change: Callable[[Any], Any]) -> None:
        overlays = (*self.overlay.values(), *self.frozen.values())
        for found in (*self.spaces.all_dicts(), *overlays):
            for key, value in found.items():
                if value is not None:
                    found[key] = change(value)

    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        return None if self.decode(data)[1] <= deadline_ms else MISSING

    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        for ns, found in self.frozen.items():
            items = iter(found.items())
            while part := list(itertools.islice(items, ROWS_AT_ONCE)):
                kept = [key for key, value in part if value is not None]
                values = [value for _, value in part if value is not None]
                data = self.values.encode_values(values, kept, ns, timed=self.timed)
                yield from zip(self.rows_of(kept, ns), data, strict=True)
                if len(kept) < len(part):
                    for row in self.rows_of([key for key, value in part if value is None], ns):
                        yield row, None

    def base_entry(self, row: bytes, data: bytes) -> Any:
        key, ns = self.owner_of(row, data)
        entries = self.spaces.read(ns)
        if entries is not None and key in entries:
            return None
        return key, ns, self.decode(data)

    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        for ns, entries in self.spaces.all():
            for key, value in entries.items():
                if value is not None:
                    yield key, ns, value
