"""Local state files that checkpoints under way still read: pinned until they are through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import events
    from penstock.runtime.records import SubtaskVersion
    from penstock.runtime.state_files import StateFiles


@dataclass(frozen=True, slots=True)
class Offer:
    """The state at the end of an epoch, with the names of its files, which are pinned."""

    event: events.EpochCompleted
    pinned: frozenset[str]


class PinnedStates:
    """Pins by checkpoint; `offered` is called by the driver, the rest by one other thread."""

    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._pins: dict[int, frozenset[str]] = {}

    def offered(self, versions: Iterable[SubtaskVersion]) -> frozenset[str]:
        """A state is at hand: its files stay until `assign` has said for whom."""
        return self._files.pin(versions)

    def assign(self, offered: frozenset[str], checkpoint_ids: Iterable[int]) -> None:
        """These checkpoints take the state; without any its files are free again."""
        for number in checkpoint_ids:
            self._pins[number] = self._files.pin_again(offered)
        self._files.unpin(offered)

    def release(self, checkpoint_id: int) -> None:
        """A checkpoint is through, or given up."""
        if (pinned := self._pins.pop(checkpoint_id, None)) is not None:
            self._files.unpin(pinned)
