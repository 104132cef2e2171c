"""The versioned record: three outcomes, a fence, and lost replies."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from penstock.core.codec import DamagedError, NewerFormatError, seal
from penstock.core.errors import PenstockError
from penstock.core.versioned import (
    RECORD_MAGIC,
    Cell,
    Committed,
    RecordVersion,
    Rejected,
    SwapRejectedError,
    SwapUnknownError,
    Unknown,
    VersionedRecord,
    decode_record,
    encode_record,
)
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.versioned import Outcome


class OneCell:
    """A store whose next requests can be made to go wrong."""

    place = "cell"

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.swaps: list[str] = []
        self.loads: list[str] = []
        self.delayed: list[Callable[[], None]] = []

    def load(self) -> Cell | None:
        if self.loads and self.loads.pop(0) == "fail":
            raise PenstockError("no answer")
        return None if self.data is None else Cell(self.data, self.data)

    def swap(self, expected: Cell | None, data: bytes) -> None:
        fault = self.swaps.pop(0) if self.swaps else ""

        def effect() -> None:
            if self.data != (None if expected is None else expected.token):
                raise SwapRejectedError("changed")
            self.data = data

        if fault == "fail":
            raise PenstockError("no connection")
        if fault == "lost":
            raise SwapUnknownError("request lost")
        if fault == "delayed":
            self.delayed.append(effect)
            raise SwapUnknownError("request delayed")
        if fault == "reject":
            raise SwapRejectedError("conflict")
        effect()
        if fault == "reply lost":
            raise SwapUnknownError("reply lost")


def write(
    record: VersionedRecord, after: RecordVersion | None, value: bytes, write_id: str
) -> Outcome:
    return record.compare_and_set(after, value, leader_epoch=1, write_id=write_id)


def started(cell: OneCell) -> tuple[VersionedRecord, RecordVersion]:
    record = VersionedRecord(cell)
    outcome = write(record, None, b"one", "w1")
    assert isinstance(outcome, Committed)
    return record, outcome.current


def left_open(
    cell: OneCell, *, swaps: tuple[str, ...] = (), loads: tuple[str, ...] = ()
) -> tuple[VersionedRecord, RecordVersion, Unknown]:
    """Returns a record, its first version, and a second write that nobody knows about."""
    record, first = started(cell)
    cell.swaps, cell.loads = [*swaps], [*loads]
    outcome = write(record, first, b"two", "w2")
    assert isinstance(outcome, Unknown)
    return record, first, outcome


SECOND = Committed(RecordVersion(2, 1, "w2", b"two", ("w1",)))


def test_committed_and_rejected() -> None:
    record, first = started(OneCell())
    assert first == RecordVersion(1, 1, "w1", b"one")
    second = write(record, first, b"two", "w2")
    assert second == Committed(RecordVersion(2, 1, "w2", b"two", ("w1",)))
    stale = write(record, first, b"three", "w3")
    assert stale == Rejected(second.current, fenced=False)
    again = write(record, None, b"three", "w4")
    assert again == Rejected(second.current, fenced=False)
    assert record.read() == second.current


def test_a_new_leader_locks_older_ones_out() -> None:
    cell = OneCell()
    record, first = started(cell)
    taken = VersionedRecord(cell).fence(leader_epoch=2, write_id="f2")
    assert taken == Committed(RecordVersion(2, 2, "f2", b"one", ("w1",)))
    late = write(record, first, b"late", "w2")
    assert late == Rejected(taken.current, fenced=True)
    # Even when the old leader reads before it writes.
    current = record.read()
    late = write(record, current, b"late", "w3")
    assert late == Rejected(taken.current, fenced=True)
    assert record.fence(leader_epoch=1, write_id="f1") == Rejected(taken.current, fenced=True)
    assert record.read() == taken.current


def test_a_lost_reply_is_recognised() -> None:
    record, _, unknown = left_open(OneCell(), swaps=("reply lost",))
    assert record.settle(unknown) == SECOND


def test_a_lost_reply_is_recognised_after_others_have_written() -> None:
    record, _, unknown = left_open(OneCell(), swaps=("reply lost",))
    for number in range(3, 10):
        write(record, record.read(), b"more", f"w{number}")
    settled = record.settle(unknown)
    assert isinstance(settled, Committed)
    assert settled.current.version == 9


def test_a_lost_request_is_repeated_not_doubled() -> None:
    record, _, unknown = left_open(OneCell(), swaps=("lost", "lost"))
    outcome = record.settle(unknown)
    assert isinstance(outcome, Unknown)
    assert record.settle(outcome) == SECOND


def test_a_delayed_request_cannot_undo_what_came_after() -> None:
    cell = OneCell()
    record, _, unknown = left_open(cell, swaps=("delayed",))
    assert isinstance(record.settle(unknown), Committed)
    later = write(record, record.read(), b"three", "w3")
    assert isinstance(later, Committed)
    with pytest.raises(SwapRejectedError):
        cell.delayed[0]()
    assert record.read() == later.current


def test_unknown_becomes_rejected_when_somebody_else_wrote() -> None:
    record, first, unknown = left_open(OneCell(), swaps=("lost",))
    other = write(record, first, b"other", "x2")
    assert isinstance(other, Committed)
    assert record.settle(unknown) == Rejected(other.current, fenced=False)


def test_nothing_is_committed_before_it_was_read_back() -> None:
    cell = OneCell()
    record, _, unknown = left_open(cell, loads=("", "fail"))
    cell.loads = ["fail"]
    assert isinstance(record.settle(unknown), Unknown)
    assert isinstance(record.settle(unknown), Committed)


def test_a_failure_without_effect_is_an_error_but_not_while_settling() -> None:
    cell = OneCell()
    record, first = started(cell)
    cell.swaps = ["fail"]
    with pytest.raises(PenstockError, match="no connection"):
        write(record, first, b"two", "w2")
    assert record.read() == first
    record, _, unknown = left_open(OneCell(), swaps=("delayed", "fail"))
    # The earlier request may still arrive, so a failing store proves nothing here.
    assert isinstance(record.settle(unknown), Unknown)


def test_a_store_that_refuses_without_reason_is_asked_again() -> None:
    record, _, unknown = left_open(OneCell(), swaps=("reject",))
    assert isinstance(record.settle(unknown), Committed)


def test_update_tries_again_until_it_sticks() -> None:
    cell = OneCell()
    record, _ = started(cell)
    ids = itertools.count()
    interfere = [True, True, False]

    def change(value: bytes | None) -> bytes:
        if interfere.pop(0):
            current = record.read()
            write(record, current, b"x", f"x{next(ids)}")
        return (value or b"") + b"!"

    outcome = record.update(change, leader_epoch=1, new_write_id=lambda: f"u{next(ids)}")
    assert isinstance(outcome, Committed)
    assert outcome.current.value == b"x!"
    assert interfere == []


def test_every_damage_of_a_record_is_found() -> None:
    data = encode_record(RecordVersion(3, 2, "w3", b"value", ("w2", "w1")))
    assert decode_record(data, "here") == RecordVersion(3, 2, "w3", b"value", ("w2", "w1"))
    for length in range(len(data)):
        with pytest.raises(DamagedError, match="here"):
            decode_record(data[:length], "here")
    for index, bit in itertools.product(range(len(data)), range(8)):
        flipped = bytearray(data)
        flipped[index] ^= 1 << bit
        with pytest.raises(DamagedError, match="here"):
            decode_record(bytes(flipped), "here")
    with pytest.raises(NewerFormatError, match="version 9"):
        decode_record(seal(RECORD_MAGIC, 9, b""), "here")
    with pytest.raises(DamagedError, match="malformed"):
        decode_record(seal(RECORD_MAGIC, 1, b"\xc0"), "here")


def test_a_damaged_record_stops_everything() -> None:
    cell = OneCell()
    record, first = started(cell)
    assert cell.data is not None
    cell.data = cell.data[:-1]
    for attempt in (
        record.read,
        lambda: write(record, first, b"x", "w2"),
        lambda: record.fence(leader_epoch=2, write_id="f2"),
    ):
        with pytest.raises(DamagedError, match="cell"):
            attempt()


@given(st.data())
@settings(max_examples=150)
def test_leaders_with_a_bad_network(data: st.DataObject) -> None:
    """Two leaders, lost and delayed messages: what was said stays true.

    Model: the sequence of values the cell really held. A committed write is in it for ever, a
    rejected one never; the old leader's writes end with the new leader's first.
    """
    cell = OneCell()
    record = VersionedRecord(cell)
    ids = (f"w{number}" for number in itertools.count())
    committed: list[str] = []
    rejected: list[str] = []
    open_questions: list[Unknown] = []
    new_leader_began = False
    for _ in range(data.draw(st.integers(1, 12))):
        fault = data.draw(st.sampled_from(["", "", "lost", "reply lost", "delayed"]))
        cell.swaps = [fault]
        epoch = data.draw(st.sampled_from([1, 2]))
        action = data.draw(st.sampled_from(["write", "fence", "settle", "arrive"]))
        write_id = next(ids)
        if action == "arrive" and cell.delayed:
            with contextlib.suppress(SwapRejectedError):
                cell.delayed.pop(0)()
            continue
        settles = action == "settle" and bool(open_questions)
        if settles:
            unknown = open_questions.pop(0)
            outcome = record.settle(unknown)
            write_id, epoch = unknown.intended.write_id, unknown.intended.leader_epoch
        elif action == "fence":
            outcome = record.fence(leader_epoch=epoch, write_id=write_id)
        else:
            outcome = record.compare_and_set(
                record.read(), b"x", leader_epoch=epoch, write_id=write_id
            )
        if isinstance(outcome, Committed):
            committed.append(write_id)
            # An old write may turn out to have worked before the new leader came.
            assert epoch == 2 or not new_leader_began or settles
            new_leader_began = new_leader_began or epoch == 2
        elif isinstance(outcome, Rejected):
            rejected.append(write_id)
        else:
            open_questions.append(outcome)
        current = record.read()
        if current is not None:
            assert all(current.holds(write) for write in committed)
            assert not any(current.holds(write) for write in rejected)
            assert current.version == 1 + len(current.lineage)
    for effect in cell.delayed:
        with contextlib.suppress(SwapRejectedError):
            effect()
    current = record.read()
    assert current is not None or not committed
    if current is not None:
        assert all(current.holds(write) for write in committed)
        assert not any(current.holds(write) for write in rejected)


# -- numbered files ---------------------------------------------------------------------------


def test_a_sleeper_below_the_current_number_does_not_count() -> None:
    """Old numbers are removed; one written again by a late writer must not be believed."""
    disk = SimulatedDisk()
    record = open_record(LocalStorage("/data", disk), "pointer")
    sleeper = write(record, None, b"1", "w1")
    assert isinstance(sleeper, Committed)
    current = sleeper.current
    for number in range(2, 40):
        outcome = write(record, current, b"%d" % number, f"w{number}")
        assert isinstance(outcome, Committed)
        current = outcome.current
    store = record._store
    store.swap(Cell(b"", 2), encode_record(RecordVersion(3, 1, "late", b"late")))
    assert record.read() == current
    late = write(record, sleeper.current, b"late", "late2")
    assert late == Rejected(current, fenced=False)


def test_the_record_of_a_storage_is_chosen_by_its_capabilities(tmp_path: object) -> None:
    swapped = open_record(MemoryStorage(), "pointer")
    numbered = open_record(LocalStorage("/data", SimulatedDisk()), "pointer")
    assert swapped.place == "memory://main/pointer/current"
    assert numbered.place == "/data/pointer"
