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
    return {
        handle.name
        for version in versions
        for handle in version.files
        if handle.inline is None
    }
