"""A record's cell in a simulation: swaps get lost or arrive late, and reads lag behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.core.versioned import (
    Cell,
    RecordVersion,
    SwapRejectedError,
    SwapUnknownError,
    VersionedRecord,
    decode_record,
)

if TYPE_CHECKING:
    from sim_election import World


@dataclass
class SimCell:
    """A compare-and-set cell whose swaps can get lost or arrive late, and whose reads lag."""

    world: World
    versions: list[bytes] = field(default_factory=list)
    place: str = "the cell"

    def load(self) -> Cell | None:
        behind = 1 if self.world.happens("stale", 0.03) else 0
        token = len(self.versions) - behind
        return Cell(self.versions[token - 1], token) if token > 0 else None

    def swap(self, expected: Cell | None, data: bytes) -> None:
        token = 0 if expected is None else expected.token
        if self.world.happens("lost", 0.03):
            raise SwapUnknownError("lost on the way")
        if self.world.happens("late", 0.02):
            delay = self.world.chance.choice([50, 500, 5_000, 12_000])
            self.world.after(delay, lambda: self._put(token, data))
            raise SwapUnknownError("on its way")
        if not self._put(token, data):
            raise SwapRejectedError("changed")
        if self.world.happens("unknown", 0.03):
            raise SwapUnknownError("no reply")

    def _put(self, token: int, data: bytes) -> bool:
        if token != len(self.versions):
            return False
        self.versions.append(data)
        return True


@lru_cache(maxsize=256)
def decoded(data: bytes, place: str) -> RecordVersion:
    return decode_record(data, place)


class QuickRecord(VersionedRecord):
    """The same, without opening the same sealed bytes a hundred times."""

    def _read(self) -> tuple[RecordVersion | None, Cell | None]:
        cell = self._store.load()
        return (None if cell is None else decoded(cell.data, self.place)), cell
