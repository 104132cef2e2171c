"""The election's decider, step by step; times and epochs by hand. The lease lasts 6 s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.versioned import Committed, RecordVersion, Rejected, Unknown
from penstock.jobmanager.high_availability.election import (
    Election,
    Grant,
    Lease,
    LeaseRead,
    LeaseTimes,
    LeaseUnavailable,
    LeaseWritten,
    ReadLease,
    ResignRequested,
    Revoke,
    TimePassed,
    WriteLease,
    decode_lease,
    encode_lease,
)

if TYPE_CHECKING:
    from penstock.jobmanager.high_availability.election import Instruction

TIMES = LeaseTimes(6_000)


def lease_of(
    holder: str, epoch: int, version: int = 1, *, timeout_ms: int = 6_000, released: bool = False
) -> RecordVersion:
    lease = Lease(
        holder=holder, address=f"http://{holder}", timeout_ms=timeout_ms, is_released=released
    )
    return RecordVersion(version, epoch, f"{holder}-{epoch}-{version}", encode_lease(lease))


def candidate() -> Election:
    election = Election("me", "http://me", TIMES)
    assert election.handle(TimePassed(0)) == [ReadLease()]
    return election


def the_write(instructions: list[Instruction]) -> WriteLease:
    (found,) = [each for each in instructions if isinstance(each, WriteLease)]
    return found


def written(write: WriteLease) -> RecordVersion:
    version = 1 if write.expected is None else write.expected.version + 1
    return RecordVersion(version, write.leader_epoch, write.write_id, write.value)


def leader(at_ms: int = 0) -> tuple[Election, RecordVersion]:
    """Leads in epoch 1 since `at_ms`, at which its write began."""
    election = candidate()
    write = the_write(election.handle(LeaseRead(at_ms, None)))
    assert (write.expected, write.leader_epoch) == (None, 1)
    current = written(write)
    assert election.handle(LeaseWritten(at_ms + 10, at_ms, Committed(current))) == [Grant(1)]
    return election, current


def test_spans_of_a_lease() -> None:
    assert (TIMES.step_down_ms, TIMES.renew_ms, TIMES.poll_ms) == (4_000, 1_000, 500)
    assert LeaseTimes(2_000).poll_ms == 200
    with pytest.raises(ConfigurationError, match="499 ms; it must be at least 500 ms"):
        LeaseTimes(499)


def test_the_first_candidate_leads_from_the_beginning_of_its_write() -> None:
    election, _ = leader(100)
    assert election.leading_epoch(111) == 1
    assert election.leading_epoch(4_099) == 1
    assert election.leading_epoch(4_100) is None
    assert election.leader_address(111) == "http://me"
    assert election.leader_address(4_100) is None


def test_a_living_leader_is_left_alone() -> None:
    election = candidate()
    for second in range(20):
        assert election.handle(LeaseRead(second * 1_000, lease_of("other", 1, second + 1))) == []
        assert election.leader_address(second * 1_000) == "http://other"
        assert election.handle(TimePassed(second * 1_000 + 500)) == [ReadLease()]


def test_a_silent_leader_is_followed_after_the_timeout_and_not_before() -> None:
    election = candidate()
    silent = lease_of("other", 7)
    assert election.handle(LeaseRead(50, silent)) == []
    assert election.next_wake_ms() == 550
    election.handle(TimePassed(5_800))
    assert election.handle(LeaseRead(5_810, silent)) == []
    assert election.next_wake_ms() == 6_050
    assert election.leader_address(6_049) == "http://other"
    assert election.leader_address(6_050) is None
    election.handle(TimePassed(6_050))
    write = the_write(election.handle(LeaseRead(6_050, silent)))
    assert (write.expected, write.leader_epoch) == (silent, 8)


def test_the_longer_timeout_of_the_two_counts() -> None:
    election = candidate()
    patient = lease_of("other", 1, timeout_ms=60_000)
    election.handle(LeaseRead(0, patient))
    election.handle(TimePassed(59_000))
    assert election.handle(LeaseRead(59_999, patient)) == []
    election.handle(TimePassed(60_000))
    assert the_write(election.handle(LeaseRead(60_000, patient)))


def test_a_released_lease_is_taken_at_once() -> None:
    election = candidate()
    write = the_write(election.handle(LeaseRead(1, lease_of("other", 3, released=True))))
    assert write.leader_epoch == 4


def test_another_was_quicker() -> None:
    election = candidate()
    election.handle(LeaseRead(0, None))
    found = election.handle(LeaseWritten(5, 0, Rejected(lease_of("other", 1), fenced=False)))
    assert found == [ReadLease()]
    assert election.leading_epoch(6) is None


def test_renewals_push_the_end_away() -> None:
    election, current = leader()
    assert election.next_wake_ms() == 1_000
    write = the_write(election.handle(TimePassed(1_000)))
    assert (write.expected, write.leader_epoch) == (current, 1)
    assert election.handle(LeaseWritten(1_020, 1_000, Committed(written(write)))) == []
    assert election.leading_epoch(4_999) == 1
    assert election.next_wake_ms() == 2_000


def test_a_leader_that_hears_nothing_steps_down() -> None:
    election, _ = leader()
    election.handle(TimePassed(1_000))
    # The request hangs: only the alarm is left.
    assert election.next_wake_ms() == 4_000
    assert election.handle(TimePassed(4_000)) == [
        Revoke(1, "the lease was not renewed for 4000 ms")
    ]
    assert election.leading_epoch(4_000) is None


def test_lost_connections_count_against_the_deadline() -> None:
    election, current = leader()
    election.handle(TimePassed(1_000))
    lost = Unknown(current, lease_of("me", 1, 2), "connection lost")
    assert election.handle(LeaseWritten(1_100, 1_000, lost)) == []
    assert election.problem == "connection lost"
    for now_ms in range(1_600, 4_000, 500):
        # Nothing is written before it is known what the record says.
        assert election.handle(TimePassed(now_ms)) == [ReadLease()]
        assert election.handle(LeaseUnavailable(now_ms, "no connection")) == []
    found = election.handle(TimePassed(4_000))
    assert found[0] == Revoke(1, "the lease was not renewed for 4000 ms")


def test_a_lost_reply_is_made_good_by_reading() -> None:
    election, current = leader()
    write = the_write(election.handle(TimePassed(1_000)))
    election.handle(LeaseWritten(1_100, 1_000, Unknown(current, written(write), "no reply")))
    election.handle(TimePassed(1_600))
    again = the_write(election.handle(LeaseRead(1_610, written(write))))
    assert (again.expected, again.leader_epoch) == (written(write), 1)
    election.handle(LeaseWritten(1_620, 1_610, Committed(written(again))))
    assert election.leading_epoch(5_609) == 1
    assert election.problem is None


def test_a_leader_that_slept_learns_of_its_successor() -> None:
    election, _ = leader()
    assert election.leading_epoch(60_000) is None
    found = election.handle(TimePassed(60_000))
    assert found == [Revoke(1, "the lease was not renewed for 60000 ms"), ReadLease()]
    assert election.handle(LeaseRead(60_001, lease_of("other", 2, 9))) == []
    assert election.leader_address(60_001) == "http://other"


def test_a_successor_within_the_time_ends_the_leadership() -> None:
    """Cannot happen between candidates of one timeout; a person may have edited the record."""
    election, _ = leader()
    election.handle(TimePassed(1_000))
    found = election.handle(LeaseWritten(1_010, 1_000, Rejected(lease_of("x", 2), fenced=True)))
    assert found == [Revoke(1, "http://x leads in epoch 2"), ReadLease()]


def test_a_vanished_lease_ends_the_leadership() -> None:
    election, _ = leader()
    election.handle(TimePassed(1_000))
    found = election.handle(LeaseWritten(1_010, 1_000, Rejected(None, fenced=False)))
    assert found == [Revoke(1, "the lease has vanished"), ReadLease()]


def test_an_own_lease_that_ran_out_is_taken_again_in_a_new_epoch() -> None:
    election, current = leader()
    election.handle(TimePassed(5_000))
    write = the_write(election.handle(LeaseRead(5_010, current)))
    assert write.leader_epoch == 2
    committed = Committed(written(write))
    assert election.handle(LeaseWritten(5_020, 5_010, committed)) == [Grant(2)]


def test_a_claim_that_is_confirmed_too_late_grants_nothing() -> None:
    election = candidate()
    write = the_write(election.handle(LeaseRead(0, None)))
    found = election.handle(LeaseWritten(4_000, 0, Committed(written(write))))
    assert found == [ReadLease()]
    again = the_write(election.handle(LeaseRead(4_010, written(write))))
    assert again.leader_epoch == 2


def test_a_leader_that_stops_gives_the_lease_up() -> None:
    election, current = leader()
    found = election.handle(ResignRequested(500))
    assert found == [Revoke(1, "this job manager is stopping"), ReadLease()]
    write = the_write(election.handle(LeaseRead(510, current)))
    lease = decode_lease(written(write))
    assert (write.leader_epoch, lease.is_released) == (1, True)
    assert not election.is_stopped
    assert election.handle(LeaseWritten(520, 510, Committed(written(write)))) == []
    assert election.is_stopped
    assert election.next_wake_ms() is None


def test_stopping_in_the_middle_of_a_renewal_still_gives_it_up() -> None:
    election, _ = leader()
    renewal = the_write(election.handle(TimePassed(1_000)))
    assert election.handle(ResignRequested(1_005))[0] == Revoke(1, "this job manager is stopping")
    found = election.handle(LeaseWritten(1_010, 1_000, Committed(written(renewal))))
    assert found == [ReadLease()]
    write = the_write(election.handle(LeaseRead(1_020, written(renewal))))
    assert decode_lease(written(write)).is_released


def test_a_standby_that_stops_touches_nothing() -> None:
    election = candidate()
    election.handle(LeaseRead(0, lease_of("other", 1)))
    assert election.handle(ResignRequested(100)) == [ReadLease()]
    assert election.handle(LeaseRead(110, lease_of("other", 1))) == []
    assert election.is_stopped
