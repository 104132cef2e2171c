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
    """

    memory_bytes: int = 384 << 20
    replay_bytes: int = 32 << 20
    merge_bytes: int = 1 << 20
    timers_in_memory: int = 500_000


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Sizes of the database; all states of a worker share one block cache of each size.

    Attributes:
        block_cache_bytes: Blocks, indexes and filters of SST files in memory.
        block_size_bytes: Size of a block.
        target_file_size_bytes: Size at which compaction starts another SST file.
    """

    block_cache_bytes: int = 64 << 20
    block_size_bytes: int = 8 * 1024
    target_file_size_bytes: int = 32 << 20
