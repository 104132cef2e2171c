"""Sizes of both backends so small that folds, merges and compactions come every few commits."""

from __future__ import annotations

from typing import Any, Final

TINY_LIMITS: Final[dict[str, dict[str, Any]]] = {
    "hashmap": {"max_deltas": 3, "min_bytes": 4_000, "full_bytes": 1_000},
    "rocksdb": {
        "max_deltas": 3,
        "full_bytes": 1_000,
        "memory_bytes": 40_000,
        "replay_bytes": 8_000,
        "merge_bytes": 2_000,
        "timers_in_memory": 10,
        "fold_slice_ms": 0,
        "block_cache_bytes": 1 << 20,
        "log_bytes": 4_000,
        "manifest_bytes": 2_000,
        "stretches": 3,
    },
}
