"""Keyed state of both backends against plain dictionaries, in lives full of structural events.

`PENSTOCK_STATE_LIVES` sets how many lives each backend gets (16 by default). A life that fails
names itself; what it found gets a test by hand, where the mechanism is.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sim_operator_life import OperatorLife
from sim_state_life import DECLARED, StateLife

from penstock.state import delta_chain, operator_state
from penstock.state.heap import HeapMapTable
from penstock.state.rocksdb.backend import RocksKeyedState
from penstock.state.rocksdb.base import RocksBase
from penstock.state.rocksdb.fold import Fold
from penstock.state.rocksdb.lists import RocksListTable
from penstock.state.rocksdb.table import RocksTable, RocksValueTable
from penstock.state.rocksdb.timers import RocksTimerTable
from penstock.state.timers import TimerTable

if TYPE_CHECKING:
    from collections.abc import Callable

LIVES = int(os.environ.get("PENSTOCK_STATE_LIVES", "16"))
BLOCK = 8
EPOCHS = 60

# What a life meets at least, on average: a third of what it does, so that a test that no longer
# meets what it is for fails.
FLOORS = {
    "committed": 15,
    "merged": 4,
    "folded": 3,
    "file deleted": 5,
    "fresh worker": 2,
    "caught up by deltas": 0.3,
    "caught up by the base": 0.3,
    "epoch failed": 0.8,
    "commit lost": 0.8,
    "went back": 0.6,
    "rescaled": 0.8,
    "savepoint": 0.6,
    "other backend": 0.1,
    "stored version read": 3,
    "windows merged": 5,
    "windows purged": 30,
    "event_timers fired": 60,
    "event_timers deleted": 70,
    "processing_timers fired": 15,
    "processing_timers deleted": 15,
    **{f"{one.name} in {place}": 3 for one in DECLARED for place in ("a key", "a window")},
}
FLOORS_OF_ROCKSDB = {
    "evicted": 5,
    "timers read from the base": 10,
    "rows read one by one": 200,
    "rows read together": 5,
    "expired rows dropped": 3,
    "slices of folds": 15,
}


def count(
    patch: pytest.MonkeyPatch, seen: Counter[str], event: str, owner: type, method: str
) -> None:
    """Counts the calls of a method that returned something but None, or returns nothing ever."""
    called = getattr(owner, method)

    @functools.wraps(called)
    def counting(*arguments: Any, **named: Any) -> Any:
        result = called(*arguments, **named)
        seen[event] += method != "unexpired_row" or result is not None
        return result

    patch.setattr(owner, method, counting)


def live(seed: int, backend: str) -> Counter[str]:
    # In memory where there is such a place: RocksDB waits for the disk at each fold.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    life = StateLife(seed, backend, Path(tempfile.mkdtemp(prefix="penstock-life-", dir=memory)))
    try:
        return life.run(EPOCHS)
    except Exception as error:
        error.add_note(f"StateLife({seed}, {backend!r}, ...), with {life.settings}")
        raise
    finally:
        life.close()


@pytest.mark.simulation
@pytest.mark.parametrize("block", range(0, LIVES, BLOCK))
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_what_dictionaries_say(
    backend: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rocksdict")
    seen: Counter[str] = Counter()
    floors = FLOORS
    if backend == "rocksdb":
        floors = FLOORS | FLOORS_OF_ROCKSDB
        count(monkeypatch, seen, "evicted", RocksKeyedState, "_evict")
        count(monkeypatch, seen, "timers read from the base", RocksTimerTable, "_load_more")
        count(monkeypatch, seen, "rows read one by one", RocksBase, "get")
        count(monkeypatch, seen, "rows read together", RocksBase, "get_many")
        count(monkeypatch, seen, "expired rows dropped", RocksTable, "unexpired_row")
        count(monkeypatch, seen, "slices of folds", Fold, "work")
    seeds = range(block, min(block + BLOCK, LIVES))
    for seed in seeds:
        seen += live(seed, backend)
    print(f"{len(seeds)} lives of {backend}:", dict(sorted(seen.items())))
    too_rare = {
        event: (seen[event], least * len(seeds))
        for event, least in floors.items()
        if len(seeds) == BLOCK and seen[event] < least * len(seeds)
    }
    assert not too_rare, "events that were met less often than is needed to trust this test"


@pytest.mark.simulation
def test_operator_state_is_what_lists_and_dictionaries_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_state, "LEAST_BYTES", 0)
    monkeypatch.setattr(operator_state, "MOST_DELTAS", 2)
    seen: Counter[str] = Counter()
    lives = LIVES
    for seed in range(lives):
        life = OperatorLife(seed, tmp_path / str(seed))
        try:
            seen += life.run(EPOCHS)
        except Exception as error:
            error.add_note(f"OperatorLife({seed}, ...)")
            raise
    print(f"{lives} lives of operator state:", dict(sorted(seen.items())))
    floors = {
        "committed": 20,
        "written": 30,
        "left as it was": 40,
        "epoch failed": 2,
        "fresh worker": 2,
        "rescaled": 2,
        "savepoint": 2,
        "changed in place": 2,
        "changes written": 3,
        "changes read": 1,
    }
    assert not {event for event, least in floors.items() if seen[event] < least * lives}


# -- broken builds, each of which has to be caught ----------------------------------------------

Patch = pytest.MonkeyPatch


def merged_timers_are_taken_as_changes(patch: Patch) -> None:
    whole = RocksTimerTable.apply
    patch.setattr(RocksTimerTable, "apply", lambda self, columns, *, is_net: whole(self, columns))


def a_base_forgets_the_timers_that_are_not_in_memory(patch: Patch) -> None:
    patch.setattr(RocksTimerTable, "is_empty", TimerTable.is_empty)


def merged_lists_forget_that_they_were_cleared(patch: Patch) -> None:
    whole = delta_chain._add_lists

    def broken(found: dict[Any, Any], columns: list[Any]) -> None:
        whole(found, columns)
        found.update((key, (max(start, 0), items)) for key, (start, items) in found.items())

    patch.setattr(delta_chain, "_add_lists", broken)


def merged_maps_forget_what_was_removed(patch: Patch) -> None:
    whole = delta_chain._add_maps

    def broken(found: dict[Any, Any], columns: list[Any]) -> None:
        whole(found, columns)
        found.update((key, (*parts[:3], [])) for key, parts in found.items())

    patch.setattr(delta_chain, "_add_maps", broken)


def an_eviction_takes_the_running_epoch_along(patch: Patch) -> None:
    def broken(self: RocksValueTable) -> None:
        if self.in_base:
            self.is_complete = False
            self.spaces.keep_only({ns: dict(found) for ns, found in self.overlay.items()})

    patch.setattr(RocksValueTable, "evict", broken)


def a_version_is_known_by_its_id_alone(patch: Patch) -> None:
    patch.setattr(delta_chain, "_mark", lambda version_id, delta: version_id)
    patch.setattr(delta_chain, "is_same", lambda a, b: a.version_id == b.version_id)


def a_cleared_map_is_not_a_change(patch: Patch) -> None:
    def broken(self: HeapMapTable, key: Any, ns: Any = None) -> None:
        (self.spaces.read(ns) or {}).pop(key, None)

    patch.setattr(HeapMapTable, "clear", broken)


def rows_expire_before_their_time(patch: Patch) -> None:
    whole = RocksTable.unexpired_row

    def broken(self: RocksTable, row: bytes, data: bytes, deadline_ms: int) -> Any:
        return whole(self, row, data, deadline_ms + 5)

    patch.setattr(RocksTable, "unexpired_row", broken)


def a_fold_takes_what_came_after_it_began(patch: Patch) -> None:
    whole = RocksValueTable.folded

    def broken(self: RocksValueTable) -> None:
        whole(self)
        self.overlay.clear()

    patch.setattr(RocksValueTable, "folded", broken)


def a_list_that_was_folded_counts_from_its_beginning(patch: Patch) -> None:
    whole = RocksListTable.folded

    def broken(self: RocksListTable) -> None:
        whole(self)
        self.published()

    patch.setattr(RocksListTable, "folded", broken)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("backend", "break_build"),
    [
        ("rocksdb", merged_timers_are_taken_as_changes),
        ("rocksdb", a_base_forgets_the_timers_that_are_not_in_memory),
        ("rocksdb", merged_lists_forget_that_they_were_cleared),
        ("hashmap", merged_maps_forget_what_was_removed),
        ("rocksdb", an_eviction_takes_the_running_epoch_along),
        ("hashmap", a_version_is_known_by_its_id_alone),
        ("hashmap", a_cleared_map_is_not_a_change),
        ("rocksdb", rows_expire_before_their_time),
        ("rocksdb", a_fold_takes_what_came_after_it_began),
        ("rocksdb", a_list_that_was_folded_counts_from_its_beginning),
    ],
)
def test_broken_builds_are_caught(
    backend: str, break_build: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    pytest.importorskip("rocksdict")
    break_build(monkeypatch)
    with pytest.raises((AssertionError, LookupError, TypeError, ValueError)):
        for seed in range(4 * BLOCK):
            live(seed, backend)
