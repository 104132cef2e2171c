"""The threads around the election's decider, with a store that hangs, fails, or holds rubbish."""

from __future__ import annotations

import itertools
import queue
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import StateError
from penstock.core.versioned import Cell, RecordVersion as Version, VersionedRecord, encode_record
from penstock.files.errors import StorageError
from penstock.files.memory import MemoryStorage
from penstock.files.records import SwappedRecord
from penstock.jobmanager.high_availability.candidate import LeaderElection, lease_clock_ms
from penstock.jobmanager.high_availability.election import Election, LeaseTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count(1)


class Store(SwappedRecord):
    """A lease whose store hangs until it is let go, or fails."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage, "lease")
        self.answers = threading.Event()
        self.answers.set()
        self.error: Exception | None = None

    def load(self) -> Cell | None:
        self.answers.wait()
        if self.error is not None:
            raise self.error
        return super().load()


class Candidate:
    """One election, and what its listener heard."""

    def __init__(
        self,
        storage: MemoryStorage,
        before_first: Callable[[], None] = lambda: None,
        *,
        lease_ms: int = 60_000,
    ) -> None:
        self.heard: queue.Queue[tuple[str, int]] = queue.Queue()
        self.store = Store(storage)
        name = f"m{next(_numbers)}"
        self.url = f"http://{name}"
        self.election = LeaderElection(
            Election(name, "", LeaseTimes(lease_ms)), VersionedRecord(self.store), before_first
        )

    def start(self) -> Candidate:
        self.election.start(self, self.url)
        return self

    def granted(self, epoch: int) -> None:
        self.heard.put(("granted", epoch))

    def revoked(self, epoch: int) -> None:
        self.heard.put(("revoked", epoch))

    def hears(self) -> tuple[str, int]:
        return self.heard.get(timeout=200)

    def close(self) -> None:
        self.store.answers.set()
        self.store.error = None
        self.election.stop()


def wait(condition: Callable[[], object]) -> None:
    waiting = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def candidates(storage: MemoryStorage) -> Iterator[list[Candidate]]:
    made: list[Candidate] = []
    yield made
    for candidate in made:
        candidate.close()


def test_a_leader_whose_store_hangs_steps_down_all_the_same(
    storage: MemoryStorage, candidates: list[Candidate]
) -> None:
    candidates.append(Candidate(storage, lease_ms=4_000).start())
    first = candidates[0]
    assert first.hears() == ("granted", 1)
    assert first.election.is_leading(1)
    first.store.answers.clear()
    assert first.hears() == ("revoked", 1)
    assert not first.election.leadership().is_leader

    candidates.append(Candidate(storage, lease_ms=4_000).start())
    second = candidates[1]
    assert second.hears() == ("granted", 2)
    first.store.answers.set()
    wait(lambda: first.election.leadership().leader_url == second.url)
    assert first.heard.empty()


def test_who_stops_is_followed_and_told_first(
    storage: MemoryStorage, candidates: list[Candidate]
) -> None:
    candidates.extend([Candidate(storage).start(), Candidate(storage)])
    first, second = candidates
    assert first.hears() == ("granted", 1)
    second.start()
    wait(lambda: second.election.leadership().leader_url == first.url)
    first.election.stop()
    assert first.hears() == ("revoked", 1)
    assert second.hears() == ("granted", 2)


def test_a_store_that_fails_is_a_problem_until_it_works(
    storage: MemoryStorage, candidates: list[Candidate]
) -> None:
    candidates.append(Candidate(storage))
    first = candidates[0]
    first.store.error = StorageError("nobody there")
    first.start()
    wait(lambda: first.election.problem == "nobody there")
    first.store.error = RuntimeError("a bug")
    wait(lambda: "a bug" in (first.election.problem or ""))
    first.store.error = None
    assert first.hears() == ("granted", 1)
    assert first.election.problem is None


def test_a_lease_that_cannot_be_read_is_not_taken(
    storage: MemoryStorage, candidates: list[Candidate]
) -> None:
    storage.swap("lease/current", encode_record(Version(1, 7, "w", b"rubbish")), None)
    candidates.append(Candidate(storage).start())
    first = candidates[0]
    wait(lambda: "lease is whole but malformed" in (first.election.problem or ""))
    assert first.heard.empty()


def test_a_lease_that_must_not_be_missing(
    storage: MemoryStorage, candidates: list[Candidate]
) -> None:
    is_wiped = True

    def check() -> None:
        if is_wiped:
            raise StateError("it was wiped")

    candidates.append(Candidate(storage, check).start())
    first = candidates[0]
    wait(lambda: first.election.problem == "it was wiped")
    assert not storage.files
    is_wiped = False
    assert first.hears() == ("granted", 1)


def test_the_clock_of_leases_never_goes_back() -> None:
    times = [lease_clock_ms() for _ in range(1_000)]
    assert times == sorted(times)
