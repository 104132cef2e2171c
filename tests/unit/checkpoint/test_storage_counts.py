"""Requests to storage are counted by what came of them; orphans by their size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.checkpoint.orphans import OrphanSweep
from penstock.checkpoint.paths import layout_of
from penstock.files.contract import Content
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from penstock.files.wrappers import RetryingStorage, StorageCounts


class Unreliable(MemoryStorage):
    """Raises what it is told to, one error for each put."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().put_if_absent(key, content)


def test_each_try_is_a_request() -> None:
    counts = StorageCounts()
    inner = Unreliable(StorageError("no"), UnknownOutcomeError("lost"))
    storage = RetryingStorage(inner, tries=3, sleep=lambda _: None, counts=counts)
    storage.put_if_absent("a", Content.of_bytes(b"one"))
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("a", Content.of_bytes(b"two"))
    assert storage.read("a") == b"one"
    with pytest.raises(ObjectMissingError):
        storage.read("b")
    assert [*storage.list("")]
    assert counts.requests() == {
        ("put", "failed"): 1,
        ("put", "unknown"): 1,
        ("put", "ok"): 1,
        ("put", "exists"): 1,
        ("read", "ok"): 1,
        ("read", "missing"): 1,
        ("list", "ok"): 1,
    }
    assert counts.retries == 2


def test_all_storages_of_a_process_count_together() -> None:
    first, second = MemoryStorage(), MemoryStorage()
    one = Storages(openers={"a": lambda _: first})
    both = one.adding("b", lambda _: second)
    one.at("a://x").size("k")
    both.at("a://x/deeper").size("k")
    both.at("b://y").size("k")
    assert one.counts.requests() == both.counts.requests() == {("size", "ok"): 3}


def sweep(storage: MemoryStorage, grace_ms: int, now_ms: int) -> OrphanSweep:
    clock: Any = SimpleNamespace(wall_ms=lambda: now_ms)
    layout = layout_of("0" * 32, create_subdir=True)
    return OrphanSweep(storage, layout, "nobody", grace_ms, clock, lambda: None)


def test_orphans_that_stay_are_told_by_their_size() -> None:
    storage = MemoryStorage(now_ms=lambda: 1_000)
    layout = layout_of("0" * 32, create_subdir=True)
    storage.put_if_absent(f"{layout.checkpoint(3)}/_metadata", Content.of_bytes(b"x" * 70))
    storage.put_if_absent(f"{layout.checkpoint(9)}/_metadata", Content.of_bytes(b"x" * 5))
    young = sweep(storage, 60_000, 2_000)
    young.finish(8, [])
    assert young.orphan_bytes == 75
    # Checkpoint 9 may still be under way; 3 is over, and old enough now.
    old = sweep(storage, 60_000, 62_000)
    old.finish(8, [])
    assert old.orphan_bytes == 5
    for each in (young, old):
        each.close()
