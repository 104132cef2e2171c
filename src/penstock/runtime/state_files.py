"""Local state files: where a worker keeps them, and when they are removed.

A file goes once no version names it any more and nothing reads it. A checkpoint that is being
uploaded reads files of versions that the job has left behind; it pins them. What is let go while
pinned is removed when the last pin goes.

Some files are in no version ever: a failed task leaves them, or a delta that was folded into a base
at once. Now and then the directory is looked through for such files; a file goes when it was there
the time before already, so that one that is being written is safe.

On a cluster files stay with the executor that wrote them (`HeldFiles`). The driver never sees them:
it tells subtasks, in their plans, which files to upload and which to remove.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.files.area import FileArea, HomeArea
from penstock.files.errors import StorageError
from penstock.files.private import make_private
from penstock.runtime.records import Delivery, Errand, Order, SubtaskKey, SubtaskVersion

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle
    from penstock.runtime.records import JobProgram, StateSettings

Versions = Mapping[SubtaskKey, SubtaskVersion]

_CALLS_PER_LOOK: Final = 50
_MOST_ORDERS: Final = 64
"""Of a subtask at a time: they are in its plan."""
_LOOK_S: Final = 0.2
"""How often a checkpoint that waits for executors looks whether it was aborted."""
_numbers: Final = itertools.count(1)
"""Of orders; jobs of one process share workers."""


class StateFiles:
    """The job's local state directory, as the driver sees it.

    Attributes:
        on_new: Is told the names of files that the job's state has begun to name.
        area: The directory, to read from.
    """

    def __init__(self, directory: str) -> None:
        self.on_new: Callable[[set[str]], None] | None = None
        self._directory = Path(directory)
        self.area = FileArea(directory) if directory else None
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._released: set[str] = set()
        self._calls = 0
        self._unnamed: set[str] = set()

    def released(self, before: Versions, after: Versions) -> None:
        """Deletes files that only the earlier versions name, now or when they are unpinned."""
        with self._lock:
            named, earlier = file_names(after.values()), file_names(before.values())
            self._released |= earlier - named
            if self.on_new is not None:
                self.on_new(named - earlier)
            self._calls += 1
            if self._calls % _CALLS_PER_LOOK == 0:
                self._look(named)
            self._sweep()

    def pin(self, versions: Iterable[SubtaskVersion]) -> frozenset[str]:
        """Keeps the files of some versions until `unpin`, which takes what this returns."""
        names = frozenset(file_names(versions))
        with self._lock:
            self._pins.update(names)
        return names

    def pin_again(self, names: frozenset[str]) -> frozenset[str]:
        """Pins files once more that are pinned or held already."""
        with self._lock:
            self._pins.update(names)
        return names

    def keep_only(self, versions: Versions) -> frozenset[str]:
        """An attempt starts: deletes what failed ones left, except what is pinned.

        Returns:
            The files that workers must keep, too; empty where only the driver removes files.
        """
        kept = file_names(versions.values())
        with self._lock:
            self._released = self._on_disk() - kept
            self._unnamed = set()
            self._sweep()
        return frozenset()

    def errands(self) -> dict[SubtaskKey, Errand]:
        """Returns what subtasks do about their files in the next epoch."""
        return {}

    def settle(self, answers: Iterable[Delivery]) -> None:
        """An epoch counts, or errands were done without one."""

    @property
    def has_orders(self) -> bool:
        """Whether a checkpoint waits for files of executors."""
        return False

    def abandon(self, reason: str) -> None:
        """No executor will answer any more."""

    def hold(self, names: set[str]) -> None:
        """Keeps files that no version names, as prepared output does, until `let_go`."""
        with self._lock:
            self._pins.update(names)
            if self.on_new is not None and names:
                self.on_new(names)

    def let_go(self, names: set[str], *, held: bool = True) -> None:
        """Removes files that nothing needs but, perhaps, a checkpoint that is being uploaded."""
        with self._lock:
            self._released |= names
        self.unpin(frozenset(names) if held else frozenset())

    def unpin(self, names: frozenset[str]) -> None:
        """Lets go of files."""
        with self._lock:
            self._pins.subtract(names)
            self._pins += Counter()
            self._sweep()

    def _look(self, named: set[str]) -> None:
        unnamed = self._on_disk() - named
        self._released |= unnamed & self._unnamed
        self._unnamed = unnamed

    def _on_disk(self) -> set[str]:
        return {path.name for path in self._directory.iterdir() if path.is_file()}

    def _sweep(self) -> None:
        gone = {name for name in self._released if name not in self._pins}
        self._released -= gone
        for name in gone:
            (self._directory / name).unlink(missing_ok=True)


class HeldFiles(StateFiles):
    """State files that stay with the executors that wrote them."""

    def __init__(self, directory: str = "") -> None:
        super().__init__(directory)
        self._names: dict[SubtaskKey, frozenset[str]] = {}
        self._holders: dict[str, set[SubtaskKey]] = {}
        """The subtasks that had a file in their version; one of them uploads it."""
        self._gone: dict[SubtaskKey, set[str]] = {}
        self._told: dict[SubtaskKey, set[str]] = {}
        """What the last errands said is gone."""
        self._orders: dict[int, tuple[SubtaskKey, Order]] = {}
        self._answers: dict[int, Delivery] = {}
        self._changed = threading.Condition(self._lock)

    # -- the driver's thread --------------------------------------------------------------------

    def released(self, before: Versions, after: Versions) -> None:
        """Notes who holds what; files that nothing names go once they are unpinned."""
        with self._lock:
            self._hold(after)

    def keep_only(self, versions: Versions) -> frozenset[str]:
        """An attempt starts; the answers to what was asked before will not come."""
        self.abandon("the attempt that held the files has failed.")
        with self._lock:
            self._holders.clear()
            self._names.clear()
            self._gone.clear()
            self._told.clear()
            self._released.clear()
            self._hold(versions)
            return frozenset(self._holders)

    def _hold(self, versions: Versions) -> None:
        left: set[str] = set()
        for key, version in versions.items():
            names = frozenset(file_names((version,)))
            before = self._names.get(key, frozenset())
            for name in names - before:
                self._holders.setdefault(name, set()).add(key)
            left |= before - names
            self._names[key] = names
        if left:
            self._released |= left.difference(*self._names.values())
            self._sweep()

    def _sweep(self) -> None:
        gone = {name for name in self._released if name not in self._pins}
        self._released -= gone
        for name in gone:
            for key in self._holders.pop(name, ()):
                self._gone.setdefault(key, set()).add(name)

    def errands(self) -> dict[SubtaskKey, Errand]:
        """Returns open orders, and what may go, for the subtasks that hold the files."""
        with self._lock:
            orders: dict[SubtaskKey, list[Order]] = {}
            for key, order in self._orders.values():
                mine = orders.setdefault(key, [])
                if len(mine) < _MOST_ORDERS:
                    mine.append(order)
            self._told = {key: set(names) for key, names in self._gone.items()}
            return {
                key: Errand(tuple(orders.get(key, ())), tuple(self._told.get(key, ())))
                for key in orders.keys() | self._told.keys()
            }

    def settle(self, answers: Iterable[Delivery]) -> None:
        """Takes the answers of an epoch that counts; files that were said to be gone are."""
        with self._changed:
            for key, names in self._told.items():
                self._gone[key] -= names
                if not self._gone[key]:
                    del self._gone[key]
            self._told = {}
            for answer in answers:
                if self._orders.pop(answer.number, None) is not None:
                    self._answers[answer.number] = answer
            self._changed.notify_all()

    @property
    def has_orders(self) -> bool:
        return bool(self._orders)

    def abandon(self, reason: str) -> None:
        """Answers all open orders with an error."""
        with self._changed:
            for number in self._orders:
                self._answers[number] = Delivery(number, reason)
            self._orders.clear()
            self._changed.notify_all()

    # -- the thread of a checkpoint ---------------------------------------------------------------

    def upload(self, puts: Mapping[str, FileHandle], is_cancelled: Callable[[], bool]) -> bool:
        """Has executors bring their files to URLs; returns whether that was not cancelled.

        Raises:
            StorageError: A file is not durable, or no executor has it.
        """
        return self._ordered([(file, url) for url, file in puts.items()], is_cancelled) is not None

    def read(self, files: Sequence[FileHandle]) -> list[bytes]:
        """Returns the bytes of small files of executors.

        Raises:
            StorageError: One cannot be read.
        """
        answers = self._ordered([(file, "") for file in files], lambda: False)
        assert answers is not None
        return [each.data for each in answers]

    def _ordered(
        self, wanted: Sequence[tuple[FileHandle, str]], is_cancelled: Callable[[], bool]
    ) -> list[Delivery] | None:
        numbers: list[int] = []
        with self._changed:
            missing = [file.name for file, _ in wanted if not self._holders.get(file.name)]
            if missing:
                raise StorageError(f"no executor holds the state file {missing[0]!r} any more.")
            for file, url in wanted:
                order = Order(next(_numbers), file, url)
                self._orders[order.number] = (min(self._holders[file.name]), order)
                numbers.append(order.number)
        found: dict[int, Delivery] = {}
        try:
            while len(found) < len(numbers):
                if is_cancelled():
                    return None
                with self._changed:
                    self._changed.wait_for(
                        lambda: not self._answers.keys().isdisjoint(numbers), _LOOK_S
                    )
                    for number in self._answers.keys() & set(numbers):
                        found[number] = answer = self._answers.pop(number)
                        if answer.error:
                            raise StorageError(answer.error)
        finally:
            with self._changed:
                for number in numbers:
                    self._orders.pop(number, None)
                    self._answers.pop(number, None)
        return [found[number] for number in numbers]


def file_names(versions: Iterable[SubtaskVersion]) -> set[str]:
    """Returns names of all files of some versions; what is inline has none."""
    return {
        handle.name for version in versions for handle in version.files if handle.inline is None
    }


def open_area(program: JobProgram) -> FileArea:
    """Opens the directory in which a worker keeps state files."""
    state = program.state
    threshold = state.inline_threshold_bytes
    if not state.stays:
        return FileArea(state.directory, threshold)
    local = _home(state)
    make_private(local, local.parent)
    area = HomeArea(local, threshold)
    if _swept.get(program.job_id) != program.attempt:
        _swept[program.job_id] = program.attempt
        area.sweep(program.kept, program.run_name)
    return area


def remove_home(state: StateSettings) -> None:
    """Removes the files that this executor keeps for a job."""
    shutil.rmtree(_home(state), ignore_errors=True)


def _home(state: StateSettings) -> Path:
    # Spark gives each executor directories of its own, and removes them when it ends.
    above = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    return Path(above) / f"penstock-{os.getuid()}" / Path(state.directory).parent.name


_swept: dict[str, int] = {}
"""The attempt of each job for which this process has removed what earlier ones left."""
