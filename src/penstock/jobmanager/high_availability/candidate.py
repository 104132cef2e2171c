"""Runs the election of this process: threads, a clock and the record, around the pure decider.

Three threads, so that nothing that blocks can keep the leader from stepping down in time:

* *control* feeds events to the decider, keeps its alarm clock, and tells the listener at once when
  the leadership ends;
* *requests* reads and writes the lease; it may hang for as long as the store does;
* *grants* tells the listener that a leadership has begun; recovering jobs may take its time there.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from penstock.core.errors import PenstockError
from penstock.core.versioned import Committed, Outcome, RecordVersion, Rejected, VersionedRecord
from penstock.jobmanager.dispatching import Leadership
from penstock.jobmanager.high_availability import election as decider
from penstock.jobmanager.high_availability.election import Election, decode_lease

_log = logging.getLogger("penstock.election")
_STOP_SECONDS: Final = 5.0


class LeadershipListener(Protocol):
    """Who is told about the leadership of this process."""

    def granted(self, epoch: int) -> None:
        """This process leads in `epoch`. May take long; `revoked` may come while it runs."""

    def revoked(self, epoch: int) -> None:
        """The leadership of `epoch` has ended: stop what acts for it and return soon."""


def lease_clock_ms() -> int:
    """Milliseconds of a clock that goes on while the machine is suspended, and never goes back.

    A plain monotonic clock stands still then: a laptop would wake up and believe that it leads.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class LeaderElection:
    """One candidate, running.

    Args:
        election: Its decider.
        record: The lease.
        before_first: Called before the record is created, when it does not exist yet; raises a
            `PenstockError` when that must not happen.
        clock_ms: A clock that never goes back.
    """

    def __init__(
        self,
        election: Election,
        record: VersionedRecord,
        before_first: Callable[[], None] = lambda: None,
        clock_ms: Callable[[], int] = lease_clock_ms,
    ) -> None:
        self._election = election
        self._record = record
        self._listener: LeadershipListener | None = None
        self._before_first = before_first
        self._clock_ms = clock_ms
        self._events: queue.Queue[decider.Event | None] = queue.Queue()
        self._requests: queue.Queue[decider.ReadLease | decider.WriteLease | None] = queue.Queue()
        self._grants: queue.Queue[int | None] = queue.Queue()
        self._ended = threading.Event()
        self._told_problem: str | None = None
        self._threads = [
            threading.Thread(target=target, name=f"penstock-election-{name}", daemon=True)
            for name, target in (
                ("control", self._control),
                ("requests", self._serve_requests),
                ("grants", self._serve_grants),
            )
        ]

    def start(self, listener: LeadershipListener, address: str) -> None:
        """Becomes a candidate.

        Args:
            listener: Is told when the leadership of this process begins and ends.
            address: URL at which others reach its REST interface.
        """
        self._listener = listener
        self._election.address = address
        for thread in self._threads:
            thread.start()
        self._events.put(decider.TimePassed(self._clock_ms()))

    def stop(self) -> None:
        """Ends the leadership, gives the lease up so that another can lead at once, and ends."""
        self._events.put(decider.ResignRequested(self._clock_ms()))
        if not self._ended.wait(_STOP_SECONDS):
            _log.warning(
                "The lease %s could not be given up; others wait until it has run out.",
                self._record.place,
            )
            self._events.put(None)
        for waiting in (self._requests, self._grants):
            waiting.put(None)

    def leadership(self) -> Leadership:
        """Says who leads, as far as this process knows now; may be asked from any thread."""
        now_ms = self._clock_ms()
        epoch = self._election.leading_epoch(now_ms)
        return Leadership(epoch is not None, epoch or 0, self._election.leader_address(now_ms))

    def is_leading(self, epoch: int) -> bool:
        return self._election.leading_epoch(self._clock_ms()) == epoch

    @property
    def problem(self) -> str | None:
        """Why the lease cannot be read or written at present; None when all is well."""
        return self._election.problem

    # -- threads ------------------------------------------------------------------------------

    def _control(self) -> None:
        while not self._election.is_stopped:
            wake_ms = self._election.next_wake_ms()
            wait = None if wake_ms is None else max(0.0, (wake_ms - self._clock_ms()) / 1000)
            try:
                event = self._events.get(timeout=wait)
            except queue.Empty:
                event = decider.TimePassed(self._clock_ms())
            if event is None:
                break
            # An answer may have waited here while the process was asleep: it is now that counts.
            for instruction in self._election.handle(replace(event, now_ms=self._clock_ms())):
                self._obey(instruction)
            self._tell_problem()
        self._ended.set()

    def _obey(self, instruction: decider.Instruction) -> None:
        match instruction:
            case decider.ReadLease() | decider.WriteLease():
                self._requests.put(instruction)
            case decider.Grant(epoch):
                _log.info("This job manager was granted leadership in epoch %d.", epoch)
                self._grants.put(epoch)
            case decider.Revoke(epoch, reason):
                _log.warning("The leadership of epoch %d has ended: %s.", epoch, reason)
                assert self._listener is not None
                try:
                    self._listener.revoked(epoch)
                except Exception:
                    _log.exception("Ending the leadership of epoch %d failed.", epoch)

    def _tell_problem(self) -> None:
        problem = self._election.problem
        if problem is not None and problem != self._told_problem:
            _log.warning("The lease %s is out of reach: %s", self._record.place, problem)
        elif problem is None and self._told_problem is not None:
            _log.info("The lease %s is within reach again.", self._record.place)
        self._told_problem = problem

    def _serve_requests(self) -> None:
        while (request := self._requests.get()) is not None:
            started_ms = self._clock_ms()
            try:
                event = self._answer(request, started_ms)
            except PenstockError as error:
                event = decider.LeaseUnavailable(self._clock_ms(), str(error))
            except Exception as error:
                _log.exception("A request to the lease %s failed.", self._record.place)
                event = decider.LeaseUnavailable(self._clock_ms(), repr(error))
            self._events.put(event)

    def _answer(
        self, request: decider.ReadLease | decider.WriteLease, started_ms: int
    ) -> decider.Event:
        if isinstance(request, decider.ReadLease):
            current = _checked(self._record.read())
            return decider.LeaseRead(self._clock_ms(), current)
        if request.expected is None:
            self._before_first()
        outcome = self._record.compare_and_set(
            request.expected,
            request.value,
            leader_epoch=request.leader_epoch,
            write_id=request.write_id,
        )
        _check_outcome(outcome)
        return decider.LeaseWritten(self._clock_ms(), started_ms, outcome)

    def _serve_grants(self) -> None:
        while (epoch := self._grants.get()) is not None:
            if not self.is_leading(epoch):
                continue
            assert self._listener is not None
            try:
                self._listener.granted(epoch)
            except Exception:
                _log.exception("Beginning the leadership of epoch %d failed.", epoch)


def _checked(version: RecordVersion | None) -> RecordVersion | None:
    """Returns a version whose lease can be read; the decider may rely on that."""
    if version is not None:
        decode_lease(version)
    return version


def _check_outcome(outcome: Outcome) -> None:
    if isinstance(outcome, Committed | Rejected):
        _checked(outcome.current)
