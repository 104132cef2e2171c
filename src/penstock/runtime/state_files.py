"""Local state files: where a worker keeps them, and when the driver removes them.

A file goes once no version names it any more and nobody reads it. A checkpoint that is being
uploaded reads files of versions that the job has left behind; it pins them. What is let go while
pinned is removed when the last pin goes.

Some files are in no version ever: a failed task leaves them, or a delta that was folded into a base
at once. Now and then the directory is looked through for such files; a file goes when it was there
the time before already, so that one that is being written is safe.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.files.area import FileArea, MirroredFileArea
from penstock.files.private import make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.runtime.records import StateSettings, SubtaskVersion

_CALLS_PER_LOOK: Final = 50


class StateFiles:
    """The job's local state directory, as the driver sees it.

    Attributes:
        on_new: Is told the names of files that the job's state has begun to name.
    """

    def __init__(self, directory: str) -> None:
        self.on_new: Callable[[set[str]], None] | None = None
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._released: set[str] = set()
        self._calls = 0
        self._unnamed: set[str] = set()

    def released(self, before: Iterable[SubtaskVersion], after: Iterable[SubtaskVersion]) -> None:
        """Deletes files that only the earlier versions name, now or when they are unpinned."""
        with self._lock:
            named, earlier = file_names(after), file_names(before)
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
        """Pins files that are pinned already once more."""
        with self._lock:
            self._pins.update(names)
        return names

    def keep_only(self, versions: Iterable[SubtaskVersion]) -> None:
        """An attempt starts: deletes what failed ones left, except what is pinned."""
        kept = file_names(versions)
        with self._lock:
            self._released = self._on_disk() - kept
            self._unnamed = set()
            self._sweep()

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


def file_names(versions: Iterable[SubtaskVersion]) -> set[str]:
    """Returns names of all files of some versions; what is inline has none."""
    return {
        handle.name for version in versions for handle in version.files if handle.inline is None
    }


def open_area(state: StateSettings) -> FileArea:
    """Opens the directory in which a worker keeps state files."""
    threshold = state.inline_threshold_bytes
    if state.local_directory is None:
        return FileArea(state.directory, threshold)
    # Spark gives each executor directories of its own, and removes them when it ends.
    above = os.environ.get("SPARK_LOCAL_DIRS", state.local_directory).split(",")[0]
    own = Path(above) / f"penstock-{os.getuid()}"
    local = own / Path(state.directory).parent.name
    make_private(local, own)
    return MirroredFileArea(local, state.directory, threshold)
