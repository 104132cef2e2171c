"""Trying again: which failures are repeated, and what is reported in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.files.contract import Content, Entry
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.memory import MemoryStorage
from penstock.files.wrappers import RetryingStorage

CONTENT = Content.of_bytes(b"mine")
Step = Callable[[], None]


class Scripted(MemoryStorage):
    """Goes wrong as told: one word for each put."""

    def __init__(self, *script: str) -> None:
        super().__init__()
        self.script = list(script)
        self.flushed: list[str] = []

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        word = self.script.pop(0) if self.script else ""
        if word == "fail":
            raise StorageError("failed")
        if word == "deny":
            raise StorageError("denied", retryable=False)
        if word == "lost":
            raise UnknownOutcomeError("lost")
        super().put_if_absent(key, content)
        if word == "reply lost":
            raise UnknownOutcomeError("reply lost")

    def flush(self, directory: str) -> None:
        self.flushed.append(directory)


def outcome(*script: str) -> tuple[Scripted, Exception | None, list[float]]:
    inner, pauses = Scripted(*script), list[float]()
    storage = RetryingStorage(inner, tries=3, sleep=pauses.append)
    try:
        storage.put_if_absent("dir/a", CONTENT)
    except (StorageError, UnknownOutcomeError) as error:
        return inner, error, pauses
    return inner, None, pauses


@pytest.mark.parametrize(
    ("script", "error", "stored"),
    [
        ((), None, True),
        (("fail",), None, True),
        (("fail", "fail"), None, True),
        (("fail", "fail", "fail"), StorageError, False),
        (("lost", "fail"), None, True),
        (("reply lost",), None, True),
        (("reply lost", "fail", "fail"), UnknownOutcomeError, True),
        (("lost", "fail", "fail"), UnknownOutcomeError, False),
        (("lost", "deny", "deny"), UnknownOutcomeError, False),
        (("fail", "lost", "fail"), UnknownOutcomeError, False),
        (("deny",), StorageError, False),
    ],
)
def test_outcomes(script: tuple[str, ...], error: type[Exception] | None, stored: bool) -> None:
    inner, found, _ = outcome(*script)
    assert type(found) is (error or type(None))
    assert inner.exists("dir/a") == stored


def test_pauses_grow_and_differ() -> None:
    """Many that failed together must not come again together."""
    seen = [outcome("fail", "fail", "fail")[2] for _ in range(20)]
    for first, second in seen:
        assert 0.05 <= first <= 0.1
        assert 0.2 <= second <= 0.4
    assert len({first for first, _ in seen}) > 1
    _, _, pauses = outcome("deny")
    assert pauses == []


def test_our_own_file_is_made_durable_when_it_is_recognised() -> None:
    inner, error, _ = outcome("reply lost")
    assert error is None
    assert inner.flushed == ["dir"]


def test_a_file_of_somebody_else_is_not_ours() -> None:
    inner = MemoryStorage()
    inner.put_if_absent("a", Content.of_bytes(b"diff"))
    storage = RetryingStorage(inner, sleep=lambda seconds: None)
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("a", CONTENT)
    assert inner.read("a") == b"diff"


def test_reading_is_repeated_but_not_for_what_is_missing() -> None:
    class Flaky(MemoryStorage):
        calls = 0

        def entry(self, key: str) -> Entry | None:
            self.calls += 1
            if self.calls < 3:
                raise StorageError("later")
            return super().entry(key)

    inner = Flaky()
    inner.put_if_absent("a", CONTENT)
    pauses: list[float] = []
    storage = RetryingStorage(inner, sleep=pauses.append)
    assert storage.size("a") == 4
    assert inner.calls == 3
    pauses.clear()
    with pytest.raises(ObjectMissingError):
        storage.read("none")
    assert pauses == []


def test_writers_that_failed_together_come_back_apart() -> None:
    class Down(MemoryStorage):
        def entry(self, key: str) -> Entry | None:
            raise StorageError("throttled")

    pauses: list[float] = []
    for _ in range(20):
        with pytest.raises(StorageError):
            RetryingStorage(Down(), sleep=pauses.append).size("a")
    first, second = pauses[::2], pauses[1::2]
    assert all(0.05 <= pause <= 0.1 for pause in first)
    assert all(0.2 <= pause <= 0.4 for pause in second)
    assert len(set(first)) > 10


def test_a_rename_whose_reply_was_lost_is_recognised() -> None:
    class Lossy(MemoryStorage):
        lost = True

        def rename(self, key: str, new: str) -> None:
            super().rename(key, new)
            if self.lost:
                self.lost = False
                raise UnknownOutcomeError("reply lost")

    inner = Lossy()
    inner.put_if_absent("a", CONTENT)
    storage = RetryingStorage(inner, sleep=lambda seconds: None)
    storage.rename("a", "b")
    assert [entry.key for entry in inner.list("")] == ["b"]
    with pytest.raises(ObjectMissingError):
        storage.rename("a", "b")
