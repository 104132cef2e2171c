"""Compare-and-set on every implementation of checkpoint storage, and records made of it."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.core.versioned import Committed, Rejected, SwapRejectedError
from penstock.files.records import open_record

if TYPE_CHECKING:
    from penstock.files.contract import Storage

NO_ATOMIC_CREATE = "fsspec has no exclusive creation that all of its file systems share"


def test_swap(storage: Storage, row: str, request: pytest.FixtureRequest) -> None:
    if not storage.capabilities.cas:
        reason = f"{row} has no compare-and-set; records are numbered files there"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    assert storage.load_tagged("job/record") is None
    storage.swap("job/record", b"one", None)
    with pytest.raises(SwapRejectedError):
        storage.swap("job/record", b"other", None)
    first = storage.load_tagged("job/record")
    assert first is not None
    assert first.data == b"one"
    storage.swap("job/record", b"two", first.token)
    with pytest.raises(SwapRejectedError):
        storage.swap("job/record", b"three", first.token)
    with pytest.raises(SwapRejectedError):
        storage.swap("job/absent", b"three", first.token)
    second = storage.load_tagged("job/record")
    assert second is not None
    assert second.data == b"two"


def test_versioned_record(storage: Storage) -> None:
    record = open_record(storage, "job/pointer")
    assert record.read() is None
    current = None
    for number in range(1, 15):
        outcome = record.compare_and_set(
            current, b"%d" % number, leader_epoch=1, write_id=f"w{number}"
        )
        assert isinstance(outcome, Committed)
        stale, current = current, outcome.current
        assert (current.version, current.value) == (number, b"%d" % number)
        late = record.compare_and_set(stale, b"late", leader_epoch=1, write_id=f"late{number}")
        assert late == Rejected(current, fenced=False)
    fresh = open_record(storage, "job/pointer")
    assert fresh.read() == current
    # Old versions are not kept for ever.
    assert len(list(storage.list("job/pointer"))) <= 9


def test_concurrent_increments_are_not_lost(
    storage: Storage, row: str, request: pytest.FixtureRequest
) -> None:
    if not (storage.capabilities.atomic_create or storage.capabilities.cas):
        request.applymarker(pytest.mark.xfail(reason=NO_ATOMIC_CREATE, strict=True))
        raise AssertionError(NO_ATOMIC_CREATE)
    record = open_record(storage, "job/counter")
    ids = itertools.count()

    def add(_: int) -> None:
        outcome = record.update(
            lambda value: b"%d" % (int(value or b"0") + 1),
            leader_epoch=1,
            new_write_id=lambda: f"w{next(ids)}",
        )
        assert isinstance(outcome, Committed)

    rounds = 12 if row == "s3" else 40
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(rounds)))
    current = record.read()
    assert current is not None
    assert current.value == b"%d" % rounds
