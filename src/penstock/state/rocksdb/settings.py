"""Sizes of the `rocksdb` backend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RocksLimits:
    """How much of the state is in memory.

    Attributes:
        memory_bytes: Estimated bytes of entries in memory, outside the running epoch. Half of them
            may be changes that wait for a fold.
        replay_bytes: Deltas together above this are folded, since a restore replays them.
        merge_bytes: Deltas together up to this are merged instead, once they are many.
        timers_in_memory: Timers of each domain in memory after a fold.
        chunk_elements: Most elements in one row of a list.
        cached_list_bytes: Longer lists are read again each time, since one of them could fill the
            memory.
        whole_map_entries: Maps up to this size stay in memory as a whole once they were iterated.
        min_expiry_rows: Rows that each fold looks at for expiry, at least.
        fold_slice_ms: How long a commit works on a fold, at most but for `fold_pace`.
        fold_pace: Rows that a commit folds for each change that it writes, at least, so that a fold
            ends before the next is due: each row is encoded first and written later.
    """

    memory_bytes: int = 384 << 20
    replay_bytes: int = 32 << 20
    merge_bytes: int = 1 << 20
    timers_in_memory: int = 500_000
    chunk_elements: int = 1000
    cached_list_bytes: int = 1 << 20
    whole_map_entries: int = 64
    min_expiry_rows: int = 10_000
    fold_slice_ms: float = 50
    fold_pace: float = 4


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Sizes of the database; all states of a worker share one block cache of each size.

    Attributes:
        block_cache_bytes: Blocks, indexes and filters of SST files in memory.
        block_size_bytes: Size of a block.
        target_file_size_bytes: Size at which compaction starts another SST file.
        stretches: Parts of the range of keys that are compacted one by one.
        log_bytes: Size at which the database starts a new log of its own; one is kept.
        manifest_bytes: Size at which the database writes a new list of its files.
    """

    block_cache_bytes: int = 64 << 20
    block_size_bytes: int = 8 * 1024
    target_file_size_bytes: int = 32 << 20
    stretches: int = 16
    log_bytes: int = 1 << 20
    manifest_bytes: int = 256 << 10
