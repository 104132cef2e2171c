"""The `rocksdb` backend: state larger than memory.

A version is a RocksDB directory (the base) and the deltas since. The deltas are replayed into
memory, over the base; once they are many, a fold makes them rows of a new base, whose old SST files
keep their names. Memory holds the deltas, the running epoch and what was read lately, within
`memory_bytes` apart from the running epoch.

The last file of a base describes the others: their names for RocksDB, the tables, whether it has
timers.
"""

from __future__ import annotations

import heapq
import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.state.keyed import KeyedState
from penstock.state.rescaling import open_version
from penstock.state.rocksdb.base import RocksBase
from penstock.state.rocksdb.description import (
    BaseDescription,
    TableDescription,
    become,
    decode_description,
    describe,
    encode_description,
    renumbering,
)
from penstock.state.rocksdb.lists import RocksListTable
from penstock.state.rocksdb.maps import RocksMapTable
from penstock.state.rocksdb.row_streams import noted_timers, overlaid
from penstock.state.rocksdb.rows import IS_TIMED, TIMER_PREFIX, RowKeys, group_start, name_of
from penstock.state.rocksdb.table import ENTRY_BYTES, RocksContext, RocksTable
from penstock.state.rocksdb.timers import GROUP_START, RocksTimerTable
from penstock.state.rocksdb.values import RocksValueTable
from penstock.state.timers import timer_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.state.context import StateContext
    from penstock.state.facts import StateFacts
    from penstock.state.rocksdb.settings import RocksLimits, RocksSettings
    from penstock.state.tables import Row, Table
    from penstock.state.versions import FoldPolicy, Payload

ROCKSDB: Final = "rocksdb"
EVENT: Final = b"e"
PROCESSING: Final = b"p"

_TABLES: Final = {table.kind: table for table in (RocksValueTable, RocksListTable, RocksMapTable)}


class RocksKeyedState(KeyedState):
    """Keyed state over a RocksDB base."""

    backend_name = ROCKSDB
    event_timers: RocksTimerTable
    processing_timers: RocksTimerTable

    def __init__(
        self,
        context: StateContext,
        policy: FoldPolicy,
        limits: RocksLimits,
        settings: RocksSettings,
    ) -> None:
        super().__init__(context, policy)
        self._limits = limits
        self._base = RocksBase(context.area, settings)
        self._shared = RocksContext(
            self._base, RowKeys(context.max_parallelism), self._account, self, limits
        )
        self.event_timers = self._timer_table(EVENT)
        self.processing_timers = self._timer_table(PROCESSING)
        self._base_tables: dict[str, TableDescription] = {}
        self._clean_bytes = 0
        self._overlay_bytes = 0
        self._changes = 0
        self._change_bytes = 0
        self._other_changes = 0
        self._expiry_cursor = b""

    def _timer_table(self, domain: bytes) -> RocksTimerTable:
        limit = self._limits.timers_in_memory
        pickles = self.context.pickles
        return RocksTimerTable(self._base, self._shared.row_keys, domain, limit, pickles)

    def prefetch(self, keys: Iterable[Any]) -> None:
        for table in self._rocks_tables():
            if table.is_read_by_key and isinstance(table, RocksValueTable):
                table.prefetch(keys)

    def _rocks_tables(self) -> list[RocksTable]:
        return [table for table in self._tables.values() if isinstance(table, RocksTable)]

    # -- memory -------------------------------------------------------------------------------

    def _account(self, size_bytes: int) -> None:
        """Counts bytes that the base has and memory too, and makes room where they are many."""
        self._clean_bytes += size_bytes
        if self._clean_bytes + self._overlay_bytes > self._limits.memory_bytes:
            self._evict()
            self._clean_bytes = size_bytes

    def _evict(self) -> None:
        self._clean_bytes = 0
        for table in self._rocks_tables():
            table.evict()

    def _delta_written(self, payload: Payload, size_bytes: int) -> None:
        """Estimates the overlay: its entries, at the size of an average change.

        Values that changed again are one entry; lists and maps count each change.
        """
        values, others = payload.count_changes()
        self._changes += values + others
        self._change_bytes += size_bytes
        self._other_changes += others
        entries = self._other_changes + sum(
            table.count_overlay()
            for table in self._tables.values()
            if isinstance(table, RocksValueTable)
        )
        self._overlay_bytes = entries * (ENTRY_BYTES + self._change_bytes // max(1, self._changes))

    def _forget_overlay(self) -> None:
        self._overlay_bytes = 0
        self._changes = 0
        self._change_bytes = 0
        self._other_changes = 0

    # -- versions -----------------------------------------------------------------------------

    def _new_table(self, kind: str, name: str) -> Table:
        table = _TABLES[kind](name, self._shared)
        described = self._base_tables.get(name)
        if described is not None:
            become(table, described)
            self._attach(table, described)
        return table

    def _attach_all(self) -> None:
        for table in self._rocks_tables():
            described = self._base_tables.get(table.name)
            if described is not None:
                self._attach(table, described)

    def _attach(self, table: RocksTable, described: TableDescription) -> None:
        """Tells a table that the base has rows of it."""
        self._declared.check_kind(table.name, table.kind, described.kind)
        table.is_read_by_key = described.is_read_by_key
        if table.timed and described.timed:
            table.timed_since_ms = described.timed_since_ms
        elif table.timed:
            table.timed_since_ms = self.clock.now_ms
            self._rewrite()
        table.values.schemas = list(described.schemas)
        if table.schema != described.schema:
            # Raises if there is no way from one to the other, before any row is read.
            self.conversion(table.name, table.kind, described.schema, table.schema)
            self._rewrite()
        table.values.use(table.schema)
        table.attach()

    def _load_base(self, version: KeyedStateVersion) -> None:
        if version.base:
            *database, description = version.base
            self._load_description(description, database)

    def _load_description(self, handle: FileHandle, database: list[FileHandle]) -> None:
        described = decode_description(
            self.context.area.read(handle), handle.name, self.context.pickles
        )
        names = described.files
        self._base.attach(dict(zip(names, database, strict=True)), described.folds)
        self._base_tables = described.tables
        self._attach_all()
        self.event_timers.attach(has_timers=described.event_timers)
        self.processing_timers.attach(has_timers=described.processing_timers)

    def _is_fold_due(self, held: KeyedStateVersion) -> bool:
        limits = self._limits
        if self._overlay_bytes > limits.memory_bytes // 2:
            return True
        size = sum(handle.size_bytes for handle in held.deltas)
        return size > limits.replay_bytes or (
            # Merging small files is cheaper than a fold, and leaves a small state in memory.
            size > limits.merge_bytes and self._policy.are_many(held)
        )

    def _write_base(self, version_id: str) -> KeyedStateVersion:
        self._collect()
        rows = self._overlay_rows()
        rows = self._with_expired(rows)
        if self._base.is_empty:
            rows = [row for row in rows if row[1] is not None]
        files = self._base.fold(rows, version_id)
        for table in self._rocks_tables():
            table.folded()
            self._base_tables[table.name] = describe(table)
        self.event_timers.folded()
        self.processing_timers.folded()
        description = BaseDescription(
            list(files),
            self._base_tables,
            self._base.folds,
            not self.event_timers.is_empty,
            not self.processing_timers.is_empty,
        )
        handle = self.context.area.write(f"{version_id}.rocksdb", encode_description(description))
        self._clean_bytes += self._overlay_bytes
        self._forget_overlay()
        if self._clean_bytes > self._limits.memory_bytes:
            self._evict()
        return self._version(version_id, (*files.values(), handle))

    def _with_expired(
        self, rows: list[tuple[bytes, bytes | None]]
    ) -> list[tuple[bytes, bytes | None]]:
        """Adds removals of expired rows, found in the next stretch of the base.

        Stretches grow with the changes, so that each fold costs in proportion to them.
        """
        ttls = {name: ttl for name, ttl in self._ttls.items() if ttl.cleans_rows}
        if not ttls or self._base.is_empty:
            return rows
        found: dict[bytes, bytes | None] = {}
        limit = max(self._limits.min_expiry_rows, 2 * len(rows))
        stretch = self._base.scan(self._expiry_cursor, TIMER_PREFIX)
        for count, (row, data) in enumerate(stretch):
            if count == limit:
                self._expiry_cursor = row
                break
            ttl = ttls.get(name_of(row)) if data[-1] & IS_TIMED else None
            if ttl is not None:
                table = self._tables[name_of(row)]
                assert isinstance(table, RocksTable)
                change = table.unexpired_row(row, data, ttl.deadline_ms)
                if change is not None:
                    found[change[0]] = change[1]
        else:
            self._expiry_cursor = b""
        found.update(rows)
        return sorted(found.items(), key=itemgetter(0))

    def schema_of(self, name: str) -> str:
        if name not in self._tables and name in self._base_tables:
            return self._base_tables[name].schema
        return super().schema_of(name)

    def facts(self) -> tuple[StateFacts, ...]:
        unclaimed = self._base_tables.keys() - self._tables.keys()
        for name in sorted(unclaimed):
            self._tables[name] = self._new_table(self._base_tables[name].kind, name)
        return super().facts()

    def is_timed(self, name: str) -> bool:
        if name not in self._tables and name in self._base_tables:
            return self._base_tables[name].timed
        return super().is_timed(name)

    def _reset_all(self) -> None:
        super()._reset_all()
        self._base.attach({}, 0)
        self._base_tables = {}
        self._clean_bytes = 0
        self._forget_overlay()

    # -- other ranges, other backends ---------------------------------------------------------

    def _import(self, versions: Sequence[KeyedStateVersion]) -> None:
        """Copies the rows of old versions one by one, so that memory stays bounded here too."""
        olds = []
        for version in versions:
            if version.backend == ROCKSDB:
                old = open_version(version, self.context)
                assert isinstance(old, RocksKeyedState)
                olds.append(old)
        if olds:
            for old in olds:
                self._take_description(old)
            merged = heapq.merge(*(self._rows_from(old) for old in olds), key=itemgetter(0))
            domains: set[bytes] = set()
            self._base.load(noted_timers(merged, domains))
            self.event_timers.attach(has_timers=EVENT in domains)
            self.processing_timers.attach(has_timers=PROCESSING in domains)
            for old in olds:
                old.close()
        super()._import([version for version in versions if version.backend != ROCKSDB])

    def _take_description(self, old: RocksKeyedState) -> None:
        tables = dict(old._base_tables)
        tables.update({table.name: describe(table) for table in old._rocks_tables()})
        for name, described in tables.items():
            known = self._base_tables.setdefault(name, described)
            self._declared.check_kind(name, known.kind, described.kind)
            schemas = (*known.schemas, *(s for s in described.schemas if s not in known.schemas))
            self._base_tables[name] = known._replace(schemas=schemas)
        self._attach_all()
        # Chunks of lists in the old overlays take the number itself.
        self._base.folds = max(self._base.folds, old._base.folds + 1)

    def _rows_from(self, old: RocksKeyedState) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows of an old version, its overlay applied, that lie in this range."""
        context = self.context
        start = group_start(context.first_key_group)
        end = group_start(context.last_key_group + 1)
        base = itertools.chain(old._base.scan(start, end), old._base.scan_prefix(TIMER_PREFIX))
        flags = renumbering(self._base_tables, old._base_tables, old._rocks_tables())
        for row, data in overlaid(base, old._overlay_rows()):
            is_timer = row.startswith(TIMER_PREFIX)
            place = GROUP_START if is_timer else 0
            if start <= row[place : place + 2] < end:
                known = None if is_timer or not flags else flags.get(name_of(row))
                yield row, data if known is None else data[:-1] + known[data[-1]]

    def _overlay_rows(self) -> list[tuple[bytes, bytes | None]]:
        """Returns what changed since the base as rows in order, None for rows to delete."""
        rows: dict[bytes, bytes | None] = {}
        for table in self._rocks_tables():
            rows.update(table.overlay_rows())
        for timers in (self.event_timers, self.processing_timers):
            rows.update(timers.overlay_rows())
        return sorted(rows.items())

    def entries(self) -> Iterator[Row]:
        tables = {table.name: table for table in self._rocks_tables()}
        for row, data in self._base.scan(b"", TIMER_PREFIX):
            name = name_of(row)
            table = tables.get(name)
            if table is None:
                described = self._base_tables[name]
                table = tables[name] = _TABLES[described.kind](name, self._shared)
                become(table, described)
            entry = table.base_entry(row, data)
            if entry is not None:
                yield name, table.kind, *entry
        for name, table in tables.items():
            for entry in table.memory_entries():
                yield name, table.kind, *entry
        yield from timer_entries(self.event_timers, self.processing_timers)

    def close(self) -> None:
        self._base.close()
