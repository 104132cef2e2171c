"""The pointer and the counter: what counts, and which number comes next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from checkpoint_samples import ids

from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.pointer import (
    CheckpointIdCounter,
    JobPointer,
    Pointer,
    PointerEntry,
    rejection_text,
)
from penstock.core.codec import DamagedError
from penstock.core.versioned import Cell, Committed, Rejected, Unknown, decode_record
from penstock.files.errors import FilesError, UnknownOutcomeError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from simulated_disk import Fault, FaultyStorage, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable


def entry(number: int, **fields: bool) -> PointerEntry:
    return PointerEntry(
        checkpoint_id=number,
        directory=f"/ckpt/chk-{number}",
        size_bytes=10,
        sha256=f"{number:064x}",
        **fields,
    )


def numbers(entries: tuple[PointerEntry, ...]) -> list[int]:
    return [one.checkpoint_id for one in entries]


# -- the value --------------------------------------------------------------------------------


def test_a_life_of_a_pointer() -> None:
    pointer = Pointer().changed([entry(1), entry(2), entry(3)])
    pointer = pointer.subsuming([1])
    assert numbers(pointer.completed) == [2, 3]
    assert numbers(pointer.subsumed) == [1]
    pointer = pointer.changed([entry(3), entry(4)], dropped=[entry(2)], forgotten=[1])
    assert numbers(pointer.completed) == [3, 4]
    assert numbers(pointer.subsumed) == [2]


def test_what_is_not_ours_does_not_wait_for_its_deletion() -> None:
    foreign = entry(860, is_owned=False, is_savepoint=True)
    pointer = Pointer(completed=(foreign, entry(861)))
    for changed in (pointer.subsuming([860]), pointer.changed([entry(861)], dropped=[foreign])):
        assert numbers(changed.completed) == [861]
        assert changed.subsumed == ()


# -- the record -------------------------------------------------------------------------------


def record(
    storage: MemoryStorage | FaultyStorage, epoch: int = 1, writer: str = "own"
) -> JobPointer:
    return JobPointer(open_record(storage, "job/pointer"), epoch, ids(f"{writer}-e{epoch}-"))


def naming(*completed: int) -> Callable[[Pointer], Pointer]:
    return lambda known: known.changed(map(entry, completed))


def test_publishing() -> None:
    storage = MemoryStorage()
    pointer, other = record(storage), record(storage, writer="other")
    assert pointer.read() == Pointer()
    assert pointer.take_over() == other.read() == Pointer()
    first = pointer.publish(naming(1))
    assert isinstance(first, Committed)
    again = other.publish(naming(2))
    assert again == Rejected(first.current, fenced=False)
    assert "another job or process writes job/pointer too" in rejection_text(again, "job/pointer")
    assert numbers(record(storage).read().completed) == [1]


def test_changes_build_on_each_other_without_being_read_again() -> None:
    storage = FaultyStorage(MemoryStorage())
    pointer = record(storage)
    pointer.take_over()
    for number in (1, 2, 3):
        before = numbers(pointer.known.completed)
        outcome = pointer.publish(naming(*before, number))
        assert isinstance(outcome, Committed)
    assert numbers(pointer.known.completed) == [1, 2, 3]
    assert pointer.known == record(storage).read()


def test_a_publication_without_a_reply_is_settled() -> None:
    memory = MemoryStorage()
    record(memory).take_over()
    for fault in (Fault.BEFORE, Fault.AFTER, Fault.TIMEOUT):
        seen = set()
        for number in range(1, 9):
            writer = f"{fault.name}-{number}"
            pointer = record(FaultyStorage(memory, {number: fault}), writer=writer)
            try:
                outcome = pointer.publish(naming(number))
                seen.add(type(outcome))
                while isinstance(outcome, Unknown):
                    outcome = pointer.settle()
            except FilesError:
                continue
            assert isinstance(outcome, Committed)
            assert numbers(pointer.known.completed) == [number]
            assert record(memory).read() == pointer.known
        assert Committed in seen


def test_taking_over_keeps_what_was_published() -> None:
    storage = MemoryStorage()
    old = record(storage)
    old.take_over()
    old.publish(naming(1))
    new = record(storage, epoch=2)
    assert numbers(new.take_over().completed) == [1]
    late = old.publish(naming(2))
    assert isinstance(late, Rejected)
    assert late.fenced
    assert "another leader has taken over" in rejection_text(late, old.place)
    assert "in epoch 2" in rejection_text(late, old.place)
    with pytest.raises(FencedError, match="leader of epoch 2 writes"):
        old.take_over()


def test_the_end_removes_what_was_named_and_says_how_the_job_ended() -> None:
    storage = MemoryStorage()
    nothing = record(storage)
    assert nothing.end(()) is None
    pointer, stranger = record(storage), record(storage, writer="stranger")
    pointer.job_id, pointer.ending = "a" * 32, "FINISHED"
    pointer.take_over()
    pointer.publish(naming(1, 2))
    stranger.publish(naming(1, 2, 3))
    # Known from what was published last, which is not what the record says: it is read, and ends.
    assert isinstance(pointer.end((1, 2)), Rejected)
    assert isinstance(pointer.end((1, 2)), Committed)
    ended = record(storage).read()
    assert numbers(ended.completed) == [3]
    assert numbers(ended.subsumed) == [1, 2]
    assert (ended.ended_job, ended.ended_status) == ("a" * 32, "FINISHED")


def test_a_damaged_pointer_is_not_mended_by_another_checkpoint() -> None:
    storage = MemoryStorage()
    record(storage).take_over()
    cell = open_record(storage, "job/pointer")._store.load()
    assert cell is not None
    with pytest.raises(DamagedError, match=r"job/pointer .*put a copy of it back"):
        decode_record(cell.data[:-1], "job/pointer")


def test_a_record_that_holds_something_else_is_named() -> None:
    storage = MemoryStorage()
    open_record(storage, "job/pointer").compare_and_set(None, b"\xc1", leader_epoch=1, write_id="w")
    with pytest.raises(DamagedError, match="memory://main/job/pointer"):
        record(storage).read()


# -- the counter ------------------------------------------------------------------------------


def counter(
    storage: MemoryStorage | FaultyStorage | LocalStorage, epoch: int = 1
) -> CheckpointIdCounter:
    return CheckpointIdCounter(open_record(storage, "job/counter"), epoch, ids(f"e{epoch}-"))


def test_ids_start_at_one_and_go_on() -> None:
    storage = MemoryStorage()
    first = counter(storage)
    assert first.last() == 0
    assert [first.reserve() for _ in range(3)] == [1, 2, 3]
    assert counter(storage, epoch=2).reserve() == 4
    assert counter(storage, epoch=2).last() == 4


def test_ids_go_on_after_a_restored_snapshot() -> None:
    """Restored from chk-860, the next are 861, 862, 863."""
    restored = counter(MemoryStorage())
    assert restored.reserve(at_least=861) == 861
    assert restored.reserve(at_least=861) == 862
    assert restored.reserve() == 863


def test_a_counter_that_is_gone_is_no_other_leader() -> None:
    """Its storage went away between the write and reading it back; the next try may succeed."""
    storage = MemoryStorage()

    class Gone(FaultyStorage):
        is_gone = False

        def swap(self, key: str, data: bytes, tag: str | None) -> None:
            super().swap(key, data, tag)
            self.is_gone = True

        def load_tagged(self, key: str) -> Cell | None:
            if self.is_gone:
                self.is_gone = False
                storage.delete(key)
                raise UnknownOutcomeError("away")
            return super().load_tagged(key)

    first = CheckpointIdCounter(open_record(Gone(storage), "job/counter"), 1, ids("mine "))
    assert counter(storage).reserve() == 1
    with pytest.raises(UnknownOutcomeError, match="is gone meanwhile"):
        first.reserve()
    assert counter(storage).reserve(at_least=3) == 3


@pytest.mark.parametrize("kind", ["swapped", "numbered"])
def test_no_id_is_given_twice(kind: str) -> None:
    storage = MemoryStorage() if kind == "swapped" else LocalStorage("/d", SimulatedDisk())

    def reserve(number: int) -> list[int]:
        own = CheckpointIdCounter(open_record(storage, "job/counter"), 1, ids(f"writer {number} "))
        return [own.reserve() for _ in range(15)]

    with ThreadPoolExecutor(4) as pool:
        given = [number for found in pool.map(reserve, range(4)) for number in found]
    assert len(set(given)) == 60
    # A writer that slept through KEPT_VERSIONS files cannot see that its own counted: it skips one.
    assert kind == "numbered" or sorted(given) == list(range(1, 61))


def test_an_id_is_ours_even_if_others_went_on() -> None:
    """Between our write and reading it back somebody else has reserved the next one."""
    storage = MemoryStorage()
    other = counter(storage)

    class Interrupted(FaultyStorage):
        def swap(self, key: str, data: bytes, tag: str | None) -> None:
            super().swap(key, data, tag)
            assert other.reserve() == 2

    one = CheckpointIdCounter(open_record(Interrupted(storage), "job/counter"), 1, ids("mine "))
    assert one.reserve() == 1


def test_a_fenced_leader_gets_no_ids() -> None:
    storage = MemoryStorage()
    old = counter(storage)
    old.reserve()
    new = counter(storage, epoch=2)
    assert new.take_over() == 1
    with pytest.raises(FencedError, match="leader of epoch 2 has taken over from epoch 1"):
        old.reserve()
    assert new.reserve() == 2


def test_every_failing_call_may_skip_an_id_and_repeats_none() -> None:
    for fault in (Fault.BEFORE, Fault.AFTER, Fault.TIMEOUT):
        for number in range(1, 8):
            storage = MemoryStorage()
            faulty = FaultyStorage(storage, {number: fault})
            one = CheckpointIdCounter(open_record(faulty, "job/counter"), 1, ids())
            given = []
            for _ in range(4):
                try:
                    given.append(one.reserve())
                except Exception as error:
                    assert not isinstance(error, FencedError)
            assert given == sorted(set(given))
            assert len(given) >= 3
            assert counter(storage, epoch=2).reserve() > given[-1]


def test_a_counter_that_cannot_be_written_says_so() -> None:
    faulty = FaultyStorage(MemoryStorage(), dict.fromkeys(range(3, 20), Fault.TIMEOUT))
    with pytest.raises(UnknownOutcomeError, match="no checkpoint id could be reserved"):
        counter(faulty).reserve()


def test_a_counter_with_something_else_in_it() -> None:
    storage = MemoryStorage()
    open_record(storage, "job/counter").compare_and_set(
        None, b"seven", leader_epoch=1, write_id="w"
    )
    with pytest.raises(DamagedError, match="holds b'seven'"):
        counter(storage).reserve()


# -- what is not ours, and who may delete -------------------------------------------------------


def test_what_was_not_claimed_is_remembered_when_its_entry_is_gone() -> None:
    pointer = Pointer(completed=(entry(860, is_owned=False), entry(861)), unclaimed_up_to=860)
    for changed in (pointer.subsuming([860]), pointer.changed([entry(862)])):
        assert changed.unclaimed_up_to == 860


def test_only_the_leader_is_confirmed() -> None:
    record = open_record(MemoryStorage(), "job/pointer")
    new_id = ids()
    older, newer = JobPointer(record, 3, new_id), JobPointer(record, 4, new_id)
    older.confirm_lead()
    assert isinstance(older.publish(naming(1)), Committed)
    older.confirm_lead()
    newer.take_over()
    newer.confirm_lead()
    with pytest.raises(FencedError, match="epoch 4 now, and epoch 3 is over: nothing is deleted"):
        older.confirm_lead()
