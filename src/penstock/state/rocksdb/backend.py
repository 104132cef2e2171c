"""The `rocksdb` backend: state larger than memory.

A version is a RocksDB directory (the base) and the deltas since. The deltas are replayed into
memory, over the base; once they are many, a fold (`fold`) makes them rows of a new base, whose old
SST files keep their names. Memory holds the deltas, the running epoch and what was read lately,
within `memory_bytes` apart from the running epoch.

The last file of a base describes the others: their names for RocksDB, the tables, whether it has
timers.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.state.keyed import KeyedState
from penstock.state.rocksdb.base import RocksBase, RocksLimits, RocksSettings
from penstock.state.rocksdb.fold import (
    STEP_ROWS,
    Fold,
    merged_pieces,
    noted_timers,
    overlaid,
    sorted_pieces,
    stretch_cuts,
)
from penstock.state.rocksdb.lists import RocksListTable
from penstock.state.rocksdb.maps import RocksMapTable
from penstock.state.rocksdb.row_values import (
    BaseDescription,
    TableDescription,
    decode_description,
    encode_description,
)
from penstock.state.rocksdb.rows import IS_TIMED, TIMER_PREFIX, RowKeys, group_start, name_of
from penstock.state.rocksdb.table import (
    ENTRY_BYTES,
    RocksContext,
    RocksTable,
    RocksValueTable,
    renumbering,
)
from penstock.state.rocksdb.timers import GROUP_START, RocksTimerTable
from penstock.state.timers import timer_entries

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.state.delta_chain import FoldPolicy, StateContext
    from penstock.state.payload import Payload
    from penstock.state.tables import Row, Table

ROCKSDB: Final = "rocksdb"
EVENT: Final = b"e"
PROCESSING: Final = b"p"
LATE_FOLD: Final = 3
"""A fold that could not end while the deltas grew to so many times `replay_bytes` ends at once."""

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
        cuts = stretch_cuts(context.first_key_group, context.last_key_group, settings.stretches)
        self._base = RocksBase(context.area, settings, cuts)
        self._shared = RocksContext(
            self._base,
            RowKeys(context.max_parallelism),
            self._account,
            self._declared,
            limits,
            context,
        )
        self.event_timers = self._timer_table(EVENT)
        self.processing_timers = self._timer_table(PROCESSING)
        self._clean_bytes = 0
        self._overlay_bytes = 0
        self._frozen_bytes = 0
        self._changes = 0
        self._change_bytes = 0
        self._other_changes = 0
        self._latest_changes = 0
        self._fold: Fold | None = None
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

    def _descriptions(self) -> list[TableDescription]:
        return [table.description() for table in self._rocks_tables()]

    def _all_parts(self) -> list[RocksTable | RocksTimerTable]:
        return [*self._rocks_tables(), self.event_timers, self.processing_timers]

    # -- memory -------------------------------------------------------------------------------

    def _account(self, size_bytes: int) -> None:
        """Counts bytes that the base has and memory too, and makes room where they are many."""
        self._clean_bytes += size_bytes
        changed = self._frozen_bytes + self._overlay_bytes
        if self._clean_bytes + changed > self._limits.memory_bytes:
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
        self._latest_changes = values + others
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
        self._latest_changes = 0

    # -- versions -----------------------------------------------------------------------------

    def _new_table(self, kind: str, name: str) -> Table:
        return _TABLES[kind](name, self._shared)

    def _attach(self, tables: Iterable[TableDescription]) -> None:
        """Prepares tables for the rows that the base has of them."""
        for each in tables:
            table = self.table_for(each.name, each.kind, timed=each.timed, schema=each.schema)
            assert isinstance(table, RocksTable)
            if table.schema != each.schema:
                # Raises if there is no way from one to the other, before any row is read.
                self._declared.conversion(table.name, table.kind, each.schema, table.schema)
                self._rewrite()
            table.attach(each)
            if table.timed and not each.timed:
                table.timed_since_ms = self.clock.now_ms
                self._rewrite()

    def _load_base(self, version: KeyedStateVersion) -> None:
        if version.base:
            *database, description = version.base
            self._load_description(description, database)

    def _load_description(self, handle: FileHandle, database: list[FileHandle]) -> None:
        described = decode_description(self.context.area.read(handle), handle.name)
        names = described.files
        self._base.attach(dict(zip(names, database, strict=True)), described.folds)
        self._attach(described.tables)
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

    def _is_fold_late(self, held: KeyedStateVersion) -> bool:
        """Returns whether a fold has to end in this commit, however long that takes."""
        size = sum(handle.size_bytes for handle in held.deltas)
        return (
            self._frozen_bytes + self._overlay_bytes > self._limits.memory_bytes
            or size > LATE_FOLD * self._limits.replay_bytes
        )

    def _advanced(self, held: KeyedStateVersion, version_id: str) -> KeyedStateVersion:
        self._latest_changes = 0
        if self.is_dirty:
            begins = self._fold is None and self._is_fold_due(held)
            if begins:
                # What the fold takes needs no merging.
                self._deltas.frozen = len(held.deltas) + 1
            held = self._write_delta(held, version_id)
            if begins:
                self._fold = self._begin_fold(held, version_id)
        if self._fold is None:
            return held
        limits = self._limits
        least = math.inf if self._is_fold_late(held) else limits.fold_pace * self._latest_changes
        if not self._fold.work(least, limits.fold_slice_ms):
            return held
        return self._end_fold(self._fold, held)

    def _begin_fold(self, held: KeyedStateVersion, version_id: str) -> Fold:
        """Freezes what has changed; files are named after the commit that does."""
        for part in self._all_parts():
            part.freeze()
        self._frozen_bytes = self._overlay_bytes
        self._forget_overlay()
        self._deltas.frozen = len(held.deltas)
        return Fold(held, self._fold_steps(version_id))

    def _fold_steps(self, version_id: str) -> Generator[int, None, tuple[FileHandle, ...]]:
        base = self._base
        tables = self._descriptions()
        has_timers = not self.event_timers.is_empty, not self.processing_timers.is_empty
        was_empty = base.is_empty
        base.open_for_writing()
        pieces: list[list[tuple[bytes, bytes | None]]] = []
        for part in self._all_parts():
            yield from sorted_pieces(part.frozen_rows(), pieces)
        if not was_empty:
            limit = max(self._limits.min_expiry_rows, 2 * sum(map(len, pieces)))
            yield from self._expired_rows(limit, pieces)
        rows = merged_pieces(pieces)
        yield from base.adding((row for row in rows if row[1] is not None) if was_empty else rows)
        base.folds += 1
        for part in self._all_parts():
            part.folded()
        self._clean_bytes += self._frozen_bytes
        self._frozen_bytes = 0
        if self._clean_bytes + self._overlay_bytes > self._limits.memory_bytes:
            self._evict()
        files = yield from base.publishing(version_id)
        base.compact()
        description = BaseDescription(list(files), tables, base.folds, *has_timers)
        handle = self.context.area.write(f"{version_id}.rocksdb", encode_description(description))
        return (*files.values(), handle)

    def _end_fold(self, fold: Fold, held: KeyedStateVersion) -> KeyedStateVersion:
        """Returns the held version with the fold's base in place of the deltas that it has."""
        count, self._deltas.frozen = self._deltas.frozen, 0
        self._fold = None
        for table in self._rocks_tables():
            table.published()
        return replace(
            held,
            base_id=fold.version.version_id,
            base=fold.files,
            deltas=held.deltas[count:],
            delta_ids=held.delta_ids[count:],
        )

    def _give_up_fold(self) -> None:
        fold, self._fold = self._fold, None
        if fold is None:
            return
        fold.close()
        self._deltas.frozen = 0
        for part in self._all_parts():
            part.unfreeze()
        self._overlay_bytes += self._frozen_bytes
        self._frozen_bytes = 0

    def _write_base(self, version_id: str) -> KeyedStateVersion:
        self._collect()
        self._give_up_fold()
        held = self._version(version_id)
        fold = self._begin_fold(held, version_id)
        fold.work(math.inf, 0)
        return self._end_fold(fold, held)

    def _expired_rows(
        self, limit: int, pieces: list[list[tuple[bytes, bytes | None]]]
    ) -> Generator[int, None, None]:
        """Adds removals of expired rows in the next stretch of the base, as the oldest piece.

        Stretches grow with the changes, so that each fold costs in proportion to them.
        """
        ttls = {name: ttl for name, ttl in self._ttls.items() if ttl.cleans_rows}
        if not ttls:
            return
        found: list[tuple[bytes, bytes | None]] = []
        pieces.insert(0, found)
        stretch = self._base.scan(self._expiry_cursor, TIMER_PREFIX)
        for count, (row, data) in enumerate(stretch):
            if count == limit:
                self._expiry_cursor = row
                return
            name = name_of(row)
            if data[-1] & IS_TIMED and name in ttls:
                table = self._tables[name]
                assert isinstance(table, RocksTable)
                change = table.unexpired_row(row, data, ttls[name].deadline_ms)
                if change is not None:
                    found.append(change)
            if count % STEP_ROWS == 0:
                yield STEP_ROWS
        self._expiry_cursor = b""

    def _reset_all(self) -> None:
        self._give_up_fold()
        super()._reset_all()
        self._base.attach({}, 0)
        self._clean_bytes = 0
        self._forget_overlay()

    # -- other ranges, other backends ---------------------------------------------------------

    def _import(self, versions: Sequence[KeyedStateVersion]) -> None:
        """Copies the rows of old versions one by one, so that memory stays bounded here too."""
        olds = []
        for version in versions:
            if version.backend == ROCKSDB:
                old = self.context.open_version(version, self.context)
                assert isinstance(old, RocksKeyedState)
                olds.append(old)
        if olds:
            for old in olds:
                self._attach(old._descriptions())
                # Chunks of lists in the old overlays take the number itself.
                self._base.folds = max(self._base.folds, old._base.folds + 1)
            merged = heapq.merge(*(self._rows_from(old) for old in olds), key=itemgetter(0))
            domains: set[bytes] = set()
            self._base.load(noted_timers(merged, domains))
            self.event_timers.attach(has_timers=EVENT in domains)
            self.processing_timers.attach(has_timers=PROCESSING in domains)
            for old in olds:
                old.close()
        super()._import([each for each in versions if each.backend != ROCKSDB])

    def _rows_from(self, old: RocksKeyedState) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows of an old version, its overlay applied, that lie in this range."""
        context = self.context
        start = group_start(context.first_key_group)
        end = group_start(context.last_key_group + 1)
        base = itertools.chain(old._base.scan(start, end), old._base.scan_prefix(TIMER_PREFIX))
        flags = renumbering(old._rocks_tables(), self._rocks_tables())
        for row, data in overlaid(base, old._overlay_rows()):
            is_timer = row.startswith(TIMER_PREFIX)
            place = GROUP_START if is_timer else 0
            if start <= row[place : place + 2] < end:
                known = None if is_timer or not flags else flags.get(name_of(row))
                yield row, data if known is None else data[:-1] + known[data[-1]]

    def _overlay_rows(self) -> list[tuple[bytes, bytes | None]]:
        """Returns what changed since the base as rows in order, None for rows to delete."""
        rows: dict[bytes, bytes | None] = {}
        for part in self._all_parts():
            part.freeze()
            rows.update(part.frozen_rows())
            part.unfreeze()
        return sorted(rows.items())

    def entries(self) -> Iterator[Row]:
        tables = {table.name: table for table in self._rocks_tables()}
        for row, data in self._base.scan(b"", TIMER_PREFIX):
            table = tables[name_of(row)]
            entry = table.base_entry(row, data)
            if entry is not None:
                yield table.name, table.kind, *entry
        for name, table in tables.items():
            for entry in table.memory_entries():
                yield name, table.kind, *entry
        yield from timer_entries(self.event_timers, self.processing_timers)

    def close(self) -> None:
        self._give_up_fold()
        self._base.close()
