"""A storage that fails: objects and compare-and-set cells in memory, one call at a time."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError
from penstock.files.contract import Entry
from penstock.files.errors import ObjectExistsError, StorageError, UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_checks import Checks


class Fault(Enum):
    """What happens to one call."""

    FAILED = "an error, and nothing was done"
    LOST_REQUEST = "no reply, and nothing was done"
    LOST_REPLY = "no reply, but it was done"
    LATE = "no reply, and it is done later"
    CRASH_BEFORE = "the caller dies, and nothing was done"
    CRASH_AFTER = "the caller dies, but it was done"


RANDOM_FAULTS = (Fault.FAILED, Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.LATE)


class CrashedError(Exception):
    """The calling driver is dead; only the world catches it."""


class SimStore:
    """Every call asks `fault` first; a late one is handed to `later`."""

    def __init__(
        self,
        checks: Checks,
        fault: Callable[[int, float], Fault | None],
        later: Callable[[Callable[[], None]], None],
        clock: Callable[[], int],
    ) -> None:
        self.checks = checks
        self.objects: dict[str, Any] = {}
        self._written_ms: dict[str, int] = {}
        self._clock = clock
        self.cells: dict[str, Cell] = {}
        self.calls = 0
        self._fault = fault
        self._later = later

    def call(self, effect: Callable[[], Any], unknown: type[Exception], weight: float = 1.0) -> Any:
        """Does `effect`, unless the dice say otherwise; `weight` makes rare points likelier."""
        self.calls += 1
        fault = self._fault(self.calls, weight)
        if fault is None:
            return effect()
        if fault is Fault.FAILED:
            raise StorageError("failed")
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            if fault is Fault.CRASH_AFTER:
                effect()
            raise CrashedError
        if fault is Fault.LATE:
            self._later(effect)
        elif fault is Fault.LOST_REPLY:
            effect()
        raise unknown("no reply")

    def read(self, effect: Callable[[], Any]) -> Any:
        self.calls += 1
        fault = self._fault(self.calls, 0.5)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            raise CrashedError
        if fault is not None:
            raise StorageError("cannot read")
        return effect()

    def put(self, path: str, content: Any) -> None:
        def effect() -> None:
            if self.objects.setdefault(path, content) != content:
                raise ObjectExistsError(path)
            self._written_ms.setdefault(path, self._clock())

        self.call(effect, UnknownOutcomeError)

    def get(self, path: str) -> Any:
        return self.read(lambda: self.objects.get(path))

    def list(self) -> list[Entry]:
        return self.read(
            lambda: [Entry(path, 1, self._written_ms.get(path, 0), "") for path in self.objects]
        )

    def delete(self, path: str, leader_epoch: int) -> None:
        def effect() -> None:
            self.checks.deleting(path)
            self.objects.pop(path, None)
            self._written_ms.pop(path, None)

        self.checks.delete_requested(path, leader_epoch)
        self.call(effect, UnknownOutcomeError)


class SimRecord:
    """One cell; what `VersionedRecord` runs on."""

    def __init__(self, store: SimStore, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def place(self) -> str:
        return self._name

    def load(self) -> Cell | None:
        return self._store.read(lambda: self._store.cells.get(self._name))

    def swap(self, expected: Cell | None, data: bytes) -> None:
        cells = self._store.cells

        def effect() -> None:
            current = cells.get(self._name)
            if (current and current.token) != (expected and expected.token):
                raise SwapRejectedError("somebody else was first")
            cells[self._name] = Cell(data, 1 if current is None else current.token + 1)
            self._store.checks.swapped(self._name, data)

        self._store.checks.swap_requested(self._name, expected, data)
        try:
            self._store.call(effect, SwapUnknownError, 5.0 if self._name == "pointer" else 0.5)
        except (StorageError, SwapRejectedError):
            self._store.checks.swap_impossible(self._name)
            raise
