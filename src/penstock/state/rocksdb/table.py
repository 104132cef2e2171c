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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.state.rocksdb.row_values import RowValues, TableDescription, renumbered_flags
from penstock.state.rocksdb.rows import IS_TIMED, RowKeys, frame, owner_of
from penstock.state.tables import (
    Columns,
    Conversion,
    Spaces,
    Table,
    ValueTable,
    changed_content,
    keeping_times,
    retimed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.state.delta_chain import StateContext
    from penstock.state.evolution import DeclaredTypes
    from penstock.state.rocksdb.base import RocksBase, RocksLimits

MISSING: Final = object()
"""Not in memory; the base may have it."""

ENTRY_BYTES: Final = 150
"""What an entry costs in memory besides its pickled size: dict slots and object headers."""


@dataclass(frozen=True, slots=True)
class RocksContext:
    """What the tables of one state share."""

    base: RocksBase
    row_keys: RowKeys
    account: Callable[[int], None]  # Counts bytes that were read into memory.
    declared: DeclaredTypes
    limits: RocksLimits
    state: StateContext


class RocksTable(Table):
    """What the three tables share.

    The *overlay* is what changed since the base, up to the last commit. A fold freezes it, writes
    it in slices while another overlay grows, and lets go of it once the base has its rows.

    Attributes:
        in_base: The base may have rows of this table, or gets them by a fold that has begun.
        is_complete: All that the base has is in memory too, so that nothing needs looking up. True
            for as long as a state fits into memory.
        is_read_by_key: There are entries without a namespace, so that prefetching by key pays.
        timed_since_ms: When the state got its TTL; the last access of rows that are older.
    """

    def __init__(self, name: str, context: RocksContext) -> None:
        super().__init__(name)
        self.spaces = Spaces()
        self.overlay: dict[Any, dict[Any, Any]] = {}
        self.frozen: dict[Any, dict[Any, Any]] = {}
        self._context = context
        self._base = context.base
        self._name_frame = frame(name.encode())
        self.pickles = context.state.pickles
        what = f"state {name!r} of operator {context.state.uid!r}"
        self.values = RowValues(self.kind, what, self.pickles, self._conversion_from)
        self.in_base = False
        self.is_complete = True
        self.is_read_by_key = False
        self.timed_since_ms = 0

    def description(self) -> TableDescription:
        """Returns what a base remembers of the table."""
        return TableDescription(
            self.name,
            self.kind,
            self.timed,
            self.is_read_by_key,
            self.timed_since_ms,
            self.schema,
            tuple(self.values.schemas),
        )

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.overlay = {}
        self.frozen = {}
        self.spaces.reset()
        self.in_base = False
        self.is_complete = True

    def attach(self, described: TableDescription) -> None:
        """The table gets a base that has rows of it, perhaps one of several."""
        if not self.in_base:
            self.is_read_by_key = described.is_read_by_key
            self.timed_since_ms = described.timed_since_ms
            self.values.schemas = []
        self.values.know(described.schemas)
        self.in_base = True
        self.is_complete = False

    def freeze(self) -> None:
        """The overlay is that of a fold from now on, and another one begins."""
        self.frozen, self.overlay = self.overlay, {}
        # From now on what is removed must be hidden, since the base is going to have it.
        self.in_base = True

    @abstractmethod
    def unfreeze(self) -> None:
        """The fold was given up: both overlays are one again."""

    @abstractmethod
    def folded(self) -> None:
        """The frozen overlay is in the base now."""

    def published(self) -> None:
        """Versions name the base that has the frozen overlay."""

    @abstractmethod
    def evict(self) -> None:
        """Drops from memory what the base has."""

    @abstractmethod
    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the frozen overlay as rows, None to delete; a later one of a row counts."""

    @abstractmethod
    def base_entry(self, row: bytes, data: bytes) -> Any:
        """Returns (key, namespace, value) of a base row, or None if memory knows better."""

    @abstractmethod
    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields (key, namespace, value) of what memory knows better than the base."""

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        raise NotImplementedError("a rocksdb state yields its entries itself, in one scan")

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self.timed = timed
        self.timed_since_ms = now_ms if timed else 0
        self._change_each(retimed(to_timed=timed, now_ms=now_ms))
        return self.in_base or not self.spaces.is_empty

    @abstractmethod
    def _change_each(self, change: Conversion) -> None:
        """Replaces each value, list element and map value in memory."""

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
        return row, self.values.encode(content, *self.owner_of(row, data), timed=True)

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
        return self.values.encode(value, key, ns, timed=self.timed)

    def decode(self, data: bytes) -> Any:
        """Returns the value in a row value, in the form that the table has now."""
        value = self.values.decode(data)
        if bool(data[-1] & IS_TIMED) is self.timed:
            return value
        change = retimed(to_timed=self.timed, now_ms=self.timed_since_ms)
        return changed_content(self.kind, value, change)

    def owner_of(self, row: bytes, data: bytes) -> tuple[Any, Any]:
        """Returns (key, namespace) of a row."""
        return owner_of(row, data, self.pickles)

    # -- types --------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        return self.values.schema

    @schema.setter
    def schema(self, schema: str) -> None:
        self.values.use(schema)

    def _conversion_from(self, schema: str) -> Conversion:
        return self._context.declared.conversion(self.name, self.kind, schema, self.schema)

    def convert(self, schema: str, conversion: Conversion) -> bool:
        """Rows of the base stay what they are, and are converted when they are read."""
        self.values.use(schema)
        self._change_each(keeping_times(conversion, timed=self.timed))
        return self.in_base or not self.spaces.is_empty


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

    def _change_each(self, change: Conversion) -> None:
        overlays = (*self.overlay.values(), *self.frozen.values())
        for found in (*self.spaces.all_dicts(), *overlays):
            for key, value in found.items():
                if value is not None:
                    found[key] = change([value])[0]

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


def renumbering(
    before: Iterable[RocksTable], after: Iterable[RocksTable]
) -> dict[str, list[bytes]]:
    """Returns by table the new flags of its rows, where they change.

    Subtasks that become one may have seen the types of a state in different order.

    Args:
        before: The tables that rows come from.
        after: The tables that they go into.
    """
    schemas = {table.name: table.values.schemas for table in after}
    return {
        table.name: renumbered_flags(known, schemas[table.name])
        for table in before
        if schemas[table.name][: len(known := table.values.schemas)] != known
    }
