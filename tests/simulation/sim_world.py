"""Time, chance and trouble: one thread, one seed.

1. Trouble: calls fail, drivers crash or sleep and wake up as former leaders, attempts fail, people
   ask for snapshots. Options are drawn anew at every start of a driver.
2. Healed: within two intervals and a timeout a new checkpoint must be published (I8).
3. The end: the job stops, finishes or is cancelled; output and state are compared with the input.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim_checks import Checks, ViolatedError
from sim_driver import EPOCH_MS, SimDriver
from sim_job import File, Handle, Manifest, Snapshot
from sim_store import RANDOM_FAULTS, CrashedError, Fault, SimStore

from penstock.checkpoint.coordination.checkpoints import SnapshotKind, TriggerRequest
from penstock.checkpoint.coordination.events import TriggerRequested
from penstock.checkpoint.paths import created_by
from penstock.checkpoint.settings import CheckpointSettings, ClaimMode, RetentionPolicy, is_kept
from penstock.core.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.checkpoint.coordination.instructions import CompleteRequest

INTERVAL_MS = 200
TIMEOUT_MS = 600
TAKEOVER_MS = 300
LONGEST_BACKOFF_MS = 5_000
STEP_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely trouble is: per call, per step, per epoch, per 100 ms."""

    call_fails: float = 0.0
    crashes: float = 0.0
    sleeps: float = 0.0
    attempt_fails: float = 0.0
    requests: float = 0.0
    slow: float = 0.0
    outages: float = 0.0

    @classmethod
    def drawn(cls, dice: random.Random) -> Odds:
        return cls(
            call_fails=dice.choice((0, 0.01, 0.05, 0.3)),
            crashes=dice.choice((0, 0, 0.005, 0.03)),
            sleeps=dice.choice((0, 0, 0.01)),
            attempt_fails=dice.choice((0, 0, 0.03, 0.1)),
            requests=dice.choice((0, 0.1, 0.5)),
            slow=dice.choice((0, 0.02, 0.2)),
            outages=dice.choice((0, 0, 0.01)),
        )


def asked(name: str, kind: SnapshotKind, **details: Any) -> TriggerRequested:
    return TriggerRequested(TriggerRequest(kind=kind, request_id=name, **details))


class World:
    """Runs one schedule."""

    def __init__(
        self,
        seed: int = 0,
        odds: Odds | None = None,
        faults: Mapping[int, Fault] | None = None,
        crash_after_step: int | None = None,
        how: str = "",
        incremental: bool = True,
    ) -> None:
        self.random = random.Random(seed)
        self.odds = Odds.drawn(self.random) if odds is None else odds
        self.varies = odds is None
        self.faults = faults or {}
        self.crash_after_step = crash_after_step
        self.trouble_ms = 1_500 if odds is None else 700
        self.how = how or self.random.choice(("stop", "finish", "cancel"))
        self.incremental = incremental
        self.troubled = False
        self.outage_until = 0
        self.seen: Counter[object] = Counter()
        self.final_offset: int | None = None
        self.checks = Checks()
        self.store = SimStore(self.checks, self._fault, self._later, lambda: self.now_ms)
        self.checks.store = self.store
        self.now_ms = 0
        self.steps = 0
        self.leader_epoch = 0
        self.healed = False
        self.input_ended = False
        self.ending: JobStatus | None = None
        self.driver: SimDriver | None = None
        self.foreign = self._draw_foreign()
        self._requests = 0
        self._number = 0
        self._heap: list[tuple[int, int, SimDriver | None, Callable[[], None]]] = []

    # -- dice ---------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def latency(self) -> int:
        if not self.healed and self.chance(self.odds.slow):
            return self.random.randint(1, 2 * TIMEOUT_MS)
        return self.random.randint(1, 9)

    def _fault(self, call: int, weight: float) -> Fault | None:
        fault = self.faults.get(call)
        is_bad = self.now_ms < self.outage_until or self.chance(self.odds.call_fails * weight)
        if fault is None and not self.healed and is_bad:
            fault = self.random.choice(RANDOM_FAULTS)
        if fault is not None:
            self.seen[fault] += 1
            self.troubled = True
        return fault

    def draw_settings(self) -> CheckpointSettings:
        dice = self.random
        pick = dice.choice if self.varies else lambda values: values[0]
        return CheckpointSettings(
            interval_ms=INTERVAL_MS,
            timeout_ms=TIMEOUT_MS,
            min_pause_ms=pick((0, 0, 50)),
            max_concurrent=pick((1, 1, 3)),
            tolerable_failures=pick((2, 0, 1_000)),
            num_retained=pick((2, 1, 3)),
            retention=pick(tuple(RetentionPolicy)),
            incremental=pick((self.incremental, True, False)),
        )

    def _draw_foreign(self) -> tuple[Manifest, ClaimMode] | None:
        """Sometimes the job starts from a checkpoint of another one."""
        if not self.varies or self.chance(0.7):
            return None
        file = File("foreign", 0, 5)
        handle = Handle(file, 860)
        manifest = Manifest(
            860, "other/chk-860", False, Snapshot(5, (file,), ()), {"other/shared/f": handle}
        )
        self.store.objects |= {manifest.metadata: manifest, "other/shared/f": file}
        self.checks.last_id = 860
        self.checks._records.update(range(5))
        mode = self.random.choice(tuple(ClaimMode))
        if mode is not ClaimMode.CLAIM:
            self.checks.belongs_to_user(manifest)
        return manifest, mode

    # -- time ---------------------------------------------------------------------------------

    def at(self, delay_ms: int, driver: SimDriver | None, step: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now_ms + max(delay_ms, 0), self._number, driver, step))

    def _later(self, effect: Callable[[], object]) -> None:
        """A lost call that arrives in the end, or finds that it is too late."""

        def arrive() -> None:
            try:
                effect()
            except ViolatedError:
                raise
            except Exception:
                pass

        self.at(self.random.randint(1, 2 * TIMEOUT_MS), None, arrive)

    def _run_until(self, end_ms: int, done: Callable[[], bool]) -> None:
        while self._heap and self._heap[0][0] <= end_ms and not done():
            time_ms, _, driver, step = heapq.heappop(self._heap)
            self.now_ms = time_ms
            if driver is not None and not driver.alive:
                continue
            if driver is not None and driver.paused_until > time_ms:
                self.at(driver.paused_until - time_ms, driver, step)
                continue
            self.steps += 1
            if self.steps > STEP_LIMIT:
                raise ViolatedError("I8: the schedule does not end")
            try:
                step()
            except CrashedError:
                assert driver is not None
                driver.alive = False
                if driver is self.driver:
                    self.new_leader(self.random.randint(1, TAKEOVER_MS))
            if not self.healed:
                self._trouble()
        if not done():
            self.now_ms = max(self.now_ms, end_ms)

    def _trouble(self) -> None:
        driver = self.driver
        if driver is None or not driver.alive or self.ending is not None:
            return
        if self.chance(self.odds.outages):
            self.outage_until = self.now_ms + self.random.randint(1, 2 * TIMEOUT_MS)
        if self.steps == self.crash_after_step or self.chance(self.odds.crashes):
            driver.alive = False
            self.new_leader(self.random.randint(1, TAKEOVER_MS))
        elif self.chance(self.odds.sleeps):
            # The lease runs out, another one leads; later this one goes on as if nothing was.
            driver.paused_until = self.now_ms + self.random.randint(TAKEOVER_MS, 3 * TAKEOVER_MS)
            self.new_leader(TAKEOVER_MS // 2)

    def new_leader(self, delay_ms: int) -> None:
        self.troubled = self.troubled or self.leader_epoch > 0
        self.leader_epoch += 1
        self.driver = SimDriver(self, self.leader_epoch)
        self.at(delay_ms, self.driver, self.driver.boot)

    # -- the schedule -------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the schedule; raises on the first violation."""
        self.new_leader(0)
        if self.odds.requests:
            self.at(100, None, self._ask)
        if not self.varies:
            self.at(450, None, self._ask_for_savepoint)
        self._run_until(self.trouble_ms, lambda: False)
        self._heal()
        self._end()

    def _ask(self) -> None:
        driver = self.driver
        if driver is not None and driver.alive and driver.job and self.chance(self.odds.requests):
            driver.request(self._draw_request())
        if not self.healed:
            self.at(100, None, self._ask)

    def _ask_for_savepoint(self) -> None:
        if self.driver is not None and self.driver.alive and self.driver.job:
            self.driver.request(asked("sp", SnapshotKind.SAVEPOINT, target="target"))

    def _draw_request(self) -> TriggerRequested:
        self._requests += 1
        name = f"request-{self._requests}"
        if self.chance(0.1):
            return asked(name, SnapshotKind.SAVEPOINT, target="target", stop=True)
        if self.chance(0.5):
            return asked(name, SnapshotKind.SAVEPOINT, target="target")
        return asked(name, SnapshotKind.CHECKPOINT, full=self.chance(0.3))

    def _heal(self) -> None:
        """A new checkpoint within two intervals and a timeout, after the last reply is in."""
        self.healed = True
        before = max(self.checks.published, default=0)
        grace_ms = 3 * TAKEOVER_MS + 6 * TIMEOUT_MS + 2 * INTERVAL_MS + 2 * LONGEST_BACKOFF_MS
        self._run_until(
            self.now_ms + grace_ms,
            lambda: self.ending is not None or max(self.checks.published, default=0) > before,
        )
        if self.ending is None and max(self.checks.published, default=0) <= before:
            raise ViolatedError(f"I8: no checkpoint after {before} within {grace_ms} ms")

    def _end(self) -> None:
        """Ends the job, asking again when a crash or an error has swallowed the wish."""
        self.input_ended = True
        give_up_ms = self.now_ms + 60_000
        while self.now_ms < give_up_ms and not self._closed():
            self._wish_end()
            self._run_until(self.now_ms + 2 * EPOCH_MS, self._closed)
        if not self._closed():
            raise ViolatedError("I8: the job never ended")
        self._check_end()

    def _closed(self) -> bool:
        return self.driver is not None and self.driver.closed

    def _wish_end(self) -> None:
        driver = self.driver
        assert driver is not None
        if self.ending is not None or driver.job is None or driver.stopped or driver.requests:
            return
        self._requests += 1
        name = f"last-{self._requests}"
        if self.how == "cancel":
            driver.end(JobStatus.CANCELED)
        elif self.how == "stop":
            kind = SnapshotKind.SAVEPOINT
            driver.request(asked(name, kind, target="target", stop=True))
        else:
            driver.request(asked(name, SnapshotKind.CHECKPOINT))

    def answered(self, driver: SimDriver, order: CompleteRequest) -> None:
        """The checkpoint after the end of the input is the last one."""
        is_last = order.request_id.startswith("last") and self.how == "finish"
        if is_last and order.checkpoint is not None:
            self.at(1, driver, lambda: driver.end(JobStatus.FINISHED))

    def _check_end(self) -> None:
        driver = self.driver
        assert driver is not None
        assert self.ending is not None
        last = self.checks.last_published
        if last is not None:
            self.checks.finished(last.snapshot)
        if self.ending is JobStatus.FINISHED and self.final_offset is not None:
            found = None if last is None else last.snapshot.offset
            if found != self.final_offset:
                raise ViolatedError(f"I1: finished at {found}, but read {self.final_offset}")
        left = [entry for entry in self.checks.pointer.completed if entry.is_owned]
        if left and not is_kept(driver.settings.retention, self.ending):
            raise ViolatedError(f"{left} is still named after {self.ending}")
        if not self.troubled:
            self._check_no_orphan()

    def _check_no_orphan(self) -> None:
        """Without faults only shared files of aborted checkpoints are left to the sweep."""
        orphans = sorted(
            path
            for path in self.store.objects
            if path not in self.checks.promised
            and not (
                path.startswith("shared/") and created_by(path[7:]) not in self.checks.published
            )
        )
        if orphans:
            raise ViolatedError(f"I7: {orphans} are named by nobody")
