"""Removes local state files that no version names any more, once nobody reads them.

A checkpoint that is being uploaded reads files of versions that the job has left behind; it pins
them. What is let go while pinned is removed when the last pin goes.
"""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.runtime.records import SubtaskVersion


class StateFiles:
    """The job's local state directory, as the driver sees it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._pins: Counter[str] = Counter()
        self._released: set[str] = set()

    def released(self, before: Iterable[SubtaskVersion], after: Iterable[SubtaskVersion]) -> None:
        """Deletes files that only the earlier versions name, now or when they are unpinned."""
        with self._lock:
            self._released |= file_names(before) - file_names(after)
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
            self._released = {
                path.name for path in self._directory.iterdir() if path.name not in kept
            }
            self._sweep()

    def unpin(self, names: frozenset[str]) -> None:
        """Lets go of files."""
        with self._lock:
            self._pins.subtract(names)
            self._pins += Counter()
            self._sweep()

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
