"""A world in one thread: candidates, their clocks, one store that is slow, deaf or lies low.

Requests take time on the way in and out, get lost on either, and may arrive long after their
sender has given them up. Candidates sleep (as under SIGSTOP), die and come back as new ones. Their
clocks run up to a tenth faster or slower and start anywhere.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING

from sim_cell import QuickRecord, SimCell

from penstock.core.versioned import Committed, Rejected
from penstock.jobmanager.high_availability.election import (
    Election,
    Event,
    Grant,
    Instruction,
    LeaseRead,
    LeaseTimes,
    LeaseUnavailable,
    LeaseWritten,
    ReadLease,
    ResignRequested,
    Revoke,
    TimePassed,
    WriteLease,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = LeaseTimes(4_500)
HEALED_MS = 18_000
END_MS = 36_000
FAULTS = ("lost", "unknown", "late", "slow", "stale", "sleep", "death", "outage", "stop")


class Refused(Exception):
    """The request failed and changed nothing."""


class Process:
    """A job manager: the decider, a clock of its own, and work that it writes as leader."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"m{number}"
        self.speed = world.chance.uniform(0.92, 1.08)
        self.offset = world.chance.randrange(10_000_000)
        self.election = Election(self.name, f"http://{self.name}", TIMES)
        self.is_dead = False
        self.wakes_ms = 0
        self.alarm_ms = 0
        self.waiting: list[Callable[[], None]] = []
        self.tick()

    def clock(self) -> int:
        return self.offset + int(self.world.now_ms * self.speed)

    def leads(self) -> int | None:
        return None if self.is_dead else self.election.leading_epoch(self.clock())

    def run(self, step: Callable[[], None]) -> None:
        """Does something now, or when the process has woken up; never when it is dead."""
        if self.is_dead:
            return
        if self.wakes_ms > self.world.now_ms:
            self.waiting.append(step)
            return
        step()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.world.chance.shuffle(waiting)
        for step in waiting:
            self.run(step)

    def tick(self) -> None:
        self.handle(TimePassed(self.clock()))

    def handle(self, event: Event) -> None:
        before = self.election.leading_epoch(event.now_ms)
        for instruction in self.election.handle(event):
            self.obey(instruction)
        self.world.check_answer(self, before)
        self.set_alarm()

    def set_alarm(self) -> None:
        wake = self.election.next_wake_ms()
        if wake is None:
            return
        at_ms = self.world.now_ms + max(1, int((wake - self.clock()) / self.speed) + 1)
        if self.world.now_ms < self.alarm_ms <= at_ms:
            return
        self.alarm_ms = at_ms
        self.world.after(at_ms - self.world.now_ms, lambda: self.run(self.ring))

    def ring(self) -> None:
        wake = self.election.next_wake_ms()
        if wake is not None and self.clock() >= wake:
            self.tick()
        else:
            self.set_alarm()

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case Grant(epoch):
                self.world.granted(self, epoch)
            case Revoke(epoch, _):
                self.world.revoked(self, epoch)
            case ReadLease():
                self.request(lambda _: LeaseRead(self.clock(), self.world.lease.read()))
            case WriteLease(expected, value, epoch, write_id):
                record = self.world.lease
                self.request(
                    lambda started: LeaseWritten(
                        self.clock(),
                        started,
                        record.compare_and_set(
                            expected, value, leader_epoch=epoch, write_id=write_id
                        ),
                    )
                )

    def request(self, effect: Callable[[int], Event]) -> None:
        """Sends a request; it takes effect later, and the answer comes later still."""
        started = self.clock()

        def arrive() -> None:
            try:
                if self.world.is_out():
                    raise Refused("no connection")
                answer = effect(started)
            except Refused as error:
                answer = LeaseUnavailable(0, str(error))
            self.world.after(self.world.latency(), lambda: self.run(lambda: deliver(answer)))

        def deliver(answer: Event) -> None:
            now = self.clock()
            match answer:
                case LeaseRead(_, current):
                    self.handle(LeaseRead(now, current))
                case LeaseWritten(_, _, outcome):
                    self.handle(LeaseWritten(now, started, outcome))
                case LeaseUnavailable(_, reason):
                    self.handle(LeaseUnavailable(now, reason))

        self.world.after(self.world.latency(), arrive)

    def work(self) -> None:
        """Writes as a leader does, with the epoch that it believed in when it began."""
        epoch = self.leads()
        if epoch is None:
            return

        def arrive() -> None:
            current = self.world.data.read()
            value = f"{epoch}:{self.name}".encode()
            write_id = f"work-{next(self.world.numbers)}"
            outcome = self.world.data.compare_and_set(
                current, value, leader_epoch=epoch, write_id=write_id
            )
            self.world.check_work(epoch, outcome)

        delay = 6_000 if self.world.happens("late", 0.05) else self.world.latency()
        self.world.after(delay, arrive)


class World:
    """Everything, from one seed.

    Args:
        seed: Of all chance.
        has_faults: Without, only deaths and stops happen.
    """

    def __init__(self, seed: int, *, candidates: int = 3, has_faults: bool = True) -> None:
        self.chance = random.Random(seed)
        self.has_faults = has_faults
        self.now_ms = 0
        self.seen: Counter[str] = Counter()
        self.numbers = itertools.count()
        self.order = itertools.count()
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.lease = QuickRecord(SimCell(self))
        self.data = QuickRecord(SimCell(self))
        self.epochs: dict[int, str] = {}
        self.vacant_since_ms: int | None = 0
        self.outage_until_ms = 0
        self.slow_until_ms = 0
        self.highest_work = 0
        self.processes = [Process(self, number) for number in range(candidates)]
        self.born = itertools.count(candidates)
        self.after(100, self.strike)
        self.after(37, self.work)

    # -- time and chance ----------------------------------------------------------------------

    def after(self, delay_ms: int, step: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (self.now_ms + delay_ms, next(self.order), step))

    def happens(self, fault: str, odds: float) -> bool:
        if not self.has_faults or self.now_ms >= HEALED_MS or self.chance.random() >= odds:
            return False
        self.seen[fault] += 1
        return True

    def latency(self) -> int:
        usual = 1 + int(self.chance.random() * 19)
        if self.now_ms < self.slow_until_ms:
            return usual * self.chance.choice([1, 20, 200])
        return usual

    def is_out(self) -> bool:
        return self.now_ms < self.outage_until_ms

    def run(self, until_ms: int = END_MS) -> None:
        while self.agenda and self.agenda[0][0] <= until_ms:
            self.now_ms, _, step = heapq.heappop(self.agenda)
            step()
        self.now_ms = until_ms
        if until_ms == END_MS:
            assert self.leaders(), "nobody leads long after everything has healed"

    # -- what befalls -------------------------------------------------------------------------

    def strike(self) -> None:
        self.after(self.chance.randrange(200, 1_500), self.strike)
        if self.now_ms >= HEALED_MS or not self.processes:
            return
        if self.happens("outage", 0.08):
            self.outage_until_ms = self.now_ms + self.chance.choice([400, 3_500, 8_000])
        if self.happens("slow", 0.08):
            self.slow_until_ms = self.now_ms + self.chance.choice([500, 4_000])
        leaders = self.leaders()
        target = leaders[0] if leaders and self.chance.random() < 0.6 else self.some()
        if self.happens("sleep", 0.15):
            self.put_to_sleep(target, self.chance.choice([700, 2_900, 5_000, 10_000]))
        elif self.happens("death", 0.06):
            self.kill(target)
        elif self.happens("stop", 0.05):
            target.run(lambda: target.handle(ResignRequested(target.clock())))
            self.after(5_000, lambda: self.kill(target))

    def some(self) -> Process:
        return self.chance.choice(self.processes)

    def put_to_sleep(self, process: Process, span_ms: int) -> None:
        process.wakes_ms = self.now_ms + span_ms
        self.after(span_ms, process.wake)

    def kill(self, process: Process) -> None:
        if process.is_dead:
            return
        process.is_dead = True
        self.processes.remove(process)

        def reborn() -> None:
            self.processes.append(Process(self, next(self.born)))

        self.after(self.chance.choice([100, 2_000, 9_000]), reborn)

    def work(self) -> None:
        self.after(50 + int(self.chance.random() * 350), self.work)
        if self.processes:
            process = self.some()
            process.run(process.work)

    # -- what must hold -----------------------------------------------------------------------

    def leaders(self) -> list[Process]:
        return [process for process in self.processes if process.leads() is not None]

    def granted(self, process: Process, epoch: int) -> None:
        self.seen["granted"] += 1
        assert epoch not in self.epochs, f"epoch {epoch} was granted twice"
        assert epoch > max(self.epochs, default=0), f"epoch {epoch} after {max(self.epochs)}"
        self.epochs[epoch] = process.name
        # Two can only begin to lead at once when the second of them is granted an epoch. Whoever
        # sleeps does nothing; when it wakes, its own clock tells it at once.
        leaders = [other.name for other in self.leaders() if other is not process]
        assert not leaders, f"{leaders} still leads when {process.name} begins, {self.now_ms} ms"

    def revoked(self, process: Process, epoch: int) -> None:
        self.seen["revoked"] += 1
        assert self.epochs[epoch] == process.name

    def check_answer(self, process: Process, before: int | None) -> None:
        now = process.leads()
        assert now is None or self.epochs[now] == process.name, "leads without having been granted"
        assert before is None or now is None or before == now or now > before

    def check_work(self, epoch: int, outcome: object) -> None:
        if isinstance(outcome, Committed):
            assert epoch >= self.highest_work, f"epoch {epoch} wrote after {self.highest_work}"
            self.highest_work = max(self.highest_work, outcome.current.leader_epoch)
            self.seen["worked"] += 1
        elif isinstance(outcome, Rejected) and outcome.fenced:
            self.seen["fenced"] += 1
