"""Where subtasks run on a cluster: each has a home, an executor and one of its slots.

A worker keeps the state of the subtasks that it ran last; a subtask that runs elsewhere reads its
state from files first. Spark places tasks by chance: with two executors half of the subtasks run
elsewhere, with ten nine tenths (`docs/decisions/0020`).

1. `Executors` asks Spark which executors there are; one short call an epoch tells whether that has
   changed.
2. `assigned` decides, for one level, which subtask has which home. It is pure.
3. `slots.SlottedLineage` gives the tasks of each home its executor as preferred location.

Invariants of `assigned`, as long as there is a home: each subtask has exactly one; homes of a level
differ by at most one subtask; with the same homes nothing moves; when homes go, only their subtasks
move; when homes come, no more move than the balance needs.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyspark import SparkContext

    from penstock.runtime.records import SubtaskKey

_log = logging.getLogger("penstock.job")
_LOOK_S: Final = 0.05
_QUIET_S: Final = 2.0
"""Executors of one application start together, some a second after others."""
_COMING_S: Final = 30.0
"""How long the next executor may take where it is known that there will be one."""
_BACK_S: Final = 10.0
"""The same for one in place of a lost one, whose host may have gone for good."""
_PATIENCE_S: Final = 60.0
"""Then tasks wait for executors themselves, and Spark says so."""


class Home(NamedTuple):
    """One of the tasks that an executor runs at a time."""

    executor: str  # Spark's id; "" where Penstock has no say.
    slot: int

    def __str__(self) -> str:
        return f"{self.executor}/{self.slot}" if self.executor else ""


class Executor(NamedTuple):
    """An executor that takes tasks."""

    id: str
    host: str
    slots: int

    @property
    def location(self) -> str:
        """Names it as a preferred location, as Spark's `TaskLocation` reads it.

        Spark finds the executor by its id alone, but takes what follows the first underscore of a
        host's name for it.
        """
        return f"executor_{self.host.replace('_', '-')}_{self.id}"


class Wanted(NamedTuple):
    """What the settings of an application say about the executors that it will have."""

    number: int  # 0 if they say nothing.
    unit: str  # "executors", or "cores" where Spark chooses how many executors have them.
    setting: str

    def found(self, executors: Collection[Executor]) -> int:
        """Returns how much of it is there."""
        return sum(each.slots for each in executors) if self.unit == "cores" else len(executors)


def wanted_executors(master: str, settings: Mapping[str, str]) -> Wanted:
    """Returns what an application will have if its cluster has room."""

    def number(name: str, default: int = 0) -> int:
        text = settings.get(name, "")
        return int(text) if text.isdecimal() else default

    if match := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,.*\]", master):
        return Wanted(int(match[1]), "executors", master)
    if settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return Wanted(0, "", "")
    if master.startswith("spark:"):
        cores, each = number("spark.cores.max"), number("spark.executor.cores")
        if each:
            return Wanted(cores // each, "executors", "spark.cores.max / spark.executor.cores")
        return Wanted(cores // number("spark.task.cpus", 1), "cores", "spark.cores.max")
    if master.startswith(("yarn", "k8s:")):
        # Spark's own default is 2.
        name = "spark.executor.instances"
        return Wanted(number(name, 2), "executors", name)
    return Wanted(0, "", "")


def homes_of(executors: Iterable[Executor]) -> list[Home]:
    """Returns the homes of executors; the first slots of all come first, so few tasks spread."""
    return sorted(
        (Home(each.id, slot) for each in executors for slot in range(each.slots)),
        key=lambda home: (home.slot, len(home.executor), home.executor),
    )


def assigned(
    keys: Sequence[SubtaskKey],
    homes: Sequence[Home],
    before: Mapping[SubtaskKey, Home],
    sizes: Mapping[SubtaskKey, int],
) -> dict[SubtaskKey, Home]:
    """Gives each subtask of a level a home.

    Levels run one after the other, so each is balanced for itself: by the number of subtasks, since
    keys are spread over them evenly, then by those of each stage, then by bytes of state.

    Args:
        keys: The subtasks of a level.
        homes: Where they may run; at least one.
        before: Homes so far; some of them may be gone.
        sizes: Bytes of state: the largest are placed first, the smallest move first.
    """
    held: dict[Home, list[SubtaskKey]] = {home: [] for home in homes}
    homeless: list[SubtaskKey] = []
    for key in sorted(keys, key=lambda key: (-sizes.get(key, 0), key)):
        found = before.get(key)
        (homeless if found is None else held.get(found, homeless)).append(key)
    share, over = divmod(len(keys), len(homes))
    # Those that hold most may keep one more.
    for rank, home in enumerate(sorted(homes, key=lambda home: -len(held[home]))):
        while len(held[home]) > share + (rank < over):
            homeless.append(_least_missed(held[home]))
    stages = {home: Counter(stage for stage, _ in held[home]) for home in homes}
    load = {home: sum(sizes.get(key, 0) for key in held[home]) for home in homes}
    for key in sorted(homeless, key=lambda key: (-sizes.get(key, 0), key)):
        home = min(homes, key=lambda home: (len(held[home]), stages[home][key[0]], load[home]))
        held[home].append(key)
        stages[home][key[0]] += 1
        load[home] += sizes.get(key, 0)
    return {key: home for home in homes for key in held[home]}


def _least_missed(held: list[SubtaskKey]) -> SubtaskKey:
    """Takes out the smallest subtask of the stage that has most here; the largest come first."""
    stages = Counter(stage for stage, _ in held)
    position = max(range(len(held)), key=lambda index: (stages[held[index][0]], index))
    return held.pop(position)


class Executors:
    """The executors of an application on a cluster.

    Reading about an executor takes several calls into the JVM, so it is done only when the ids that
    the scheduler knows have changed.

    Args:
        context: The application.
        now_s: A clock.
    """

    def __init__(self, context: SparkContext, now_s: Callable[[], float] = time.monotonic) -> None:
        jsc: Any = context._jsc
        self._wanted = wanted_executors(context.master or "", dict(context.getConf().getAll()))
        self._now_s = now_s
        self._spark: Any = jsc.sc()
        self._ids: str | None = None
        self.known: dict[str, Executor] = {}

    def wait(
        self, subtasks: int, before: Collection[str], is_over: threading.Event, enough: int = 0
    ) -> None:
        """Waits for the executors of an attempt, since state does not move while it runs.

        These are all once there is a core for each subtask, or all executors of the attempt before
        (`before`) are there, or all that the settings promise, or no more have come for a while,
        which is short where there are as many slots as the job had in another application
        (`enough`).
        """
        changed_s = started_s = self._now_s()
        is_told = False
        while not is_over.wait(_LOOK_S):
            now_s = self._now_s()
            if self.have_changed():
                changed_s = now_s
            slots = sum(each.slots for each in self.known.values())
            if slots >= subtasks:
                return
            if before and self.known.keys() >= set(before):
                return
            found = self._wanted.found(self.known.values())
            if self._wanted.number and found >= self._wanted.number:
                return
            has_enough = 0 < enough <= slots
            is_short = found < self._wanted.number and not has_enough
            patience_s = (_BACK_S if before else _COMING_S) if is_short else _QUIET_S
            if not self.known:
                patience_s = _PATIENCE_S
            if now_s - changed_s > patience_s or now_s - started_s > _PATIENCE_S:
                if is_short and self.known:
                    self._say(
                        logging.WARNING,
                        "and no other has come in %g s; the job runs on what is here, until an "
                        "attempt or `penstock rescale` deals subtasks out again.",
                        now_s - changed_s,
                    )
                elif self._wanted.number and has_enough:
                    self._say(
                        logging.INFO,
                        "the job had no more when it ran last, and goes on after %g s without "
                        "others.",
                        now_s - changed_s,
                    )
                return
            if is_short and not is_told and now_s - started_s > _QUIET_S:
                is_told = True
                self._say(logging.INFO, "the job waits up to %g s for the next.", patience_s)

    def _say(self, level: int, text: str, seconds: float) -> None:
        number, unit, setting = self._wanted
        found = self._wanted.found(self.known.values())
        text = f"%d of %d {unit} are here (%s): {text}"
        _log.log(level, text, found, number, setting, round(seconds))

    def gone(self, ids: Collection[str]) -> set[str]:
        """Returns those of some executors that are lost; safe from any thread."""
        return set(ids).difference(self._spark.getExecutorIds().mkString(" ").split())

    def why_gone(self, executor: str) -> str:
        """Returns what Spark says about the end of an executor."""
        summaries = self._spark.statusStore().executorList(False)
        for index in range(summaries.size()):
            each = summaries.apply(index)
            if each.id() == executor and each.removeReason().isDefined():
                return f" ({each.removeReason().get()})"
        return ""

    def have_changed(self) -> bool:
        """Looks for executors that came or went since the last call."""
        ids = self._spark.getExecutorIds().mkString(" ")
        if ids == self._ids:
            return False
        alive = set(ids.split())
        found = {each.id: each for each in self._read() if each.id in alive}
        # The scheduler may know an executor before Spark's status does; it is looked for again.
        self._ids = ids if found.keys() == alive else None
        has_changed = found != self.known
        self.known = found
        return has_changed

    def _read(self) -> list[Executor]:
        summaries = self._spark.statusStore().executorList(True)
        found = []
        for index in range(summaries.size()):
            each = summaries.apply(index)
            if each.id() != "driver" and each.maxTasks() > 0:
                # It has no port as long as the executor's blocks are not known.
                host = re.sub(r":\d+$", "", each.hostPort())
                found.append(Executor(each.id(), host, each.maxTasks()))
        return found


def warn_of_settings(context: SparkContext) -> None:
    """Says which settings of a session that Penstock did not make keep state from having a home."""
    settings = context.getConf()
    if settings.get("spark.shuffle.reduceLocality.enabled", "true") != "false":
        _log.warning(
            "spark.shuffle.reduceLocality.enabled is true in this Spark session, so Spark may run "
            "subtasks away from their state, which is then read from files. Set it to false."
        )
    if (settings.get("spark.locality.wait", "3s") or "").startswith("0"):
        _log.warning(
            "spark.locality.wait is 0 in this Spark session, so Spark may run subtasks away from "
            "their state, which is then read from files. Set it to 3s."
        )
    if (settings.get("spark.speculation", "false") or "").lower() == "true":
        _log.warning(
            "spark.speculation is true in this Spark session, so Spark may run a slow subtask a "
            "second time, away from its state; only one of the two counts. Set it to false."
        )


def has_fixed_executors(context: SparkContext) -> bool:
    """Whether the number of executors does not depend on the number of waiting tasks."""
    settings = context.getConf()
    if (settings.get("spark.dynamicAllocation.enabled", "false") or "").lower() != "true":
        return True
    _log.warning(
        "spark.dynamicAllocation.enabled is true, so executors come and go with the number of "
        "waiting tasks, and subtasks read their state from files whenever Spark runs them "
        "elsewhere. For jobs with state set it to false, with spark.executor.instances."
    )
    return False
