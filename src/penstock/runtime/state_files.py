"""Removes local state files that no version names any more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.runtime.records import SubtaskVersion


class StateFiles:
    """The job's local state directory, as the driver sees it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def released(
        self, before: Iterable[SubtaskVersion], after: Iterable[SubtaskVersion]
    ) -> None:
        """Deletes files that only the earlier versions name."""
        for name in file_names(before) - file_names(after):
            (self._directory / name).unlink(missing_ok=True)


def file_names(versions: Iterable[SubtaskVersion]) -> set[str]:
    """Returns names of all files of some versions; what is inline has none."""
    names: set[str] = set()
    for version in versions:
        handles = [version.logic]
        for keyed in version.keyed.values():
            handles += keyed.files
        names.update(handle.name for handle in handles if handle.inline is None)
    return names
