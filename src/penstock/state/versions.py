"""When the deltas of a version are merged, and when they become a base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle, KeyedStateVersion


@dataclass(frozen=True, slots=True)
class FoldPolicy:
    """When deltas are merged, and when they are replaced by a new base.

    A base costs as much as the state is large, a delta as much as changed. Folding once the deltas
    outweigh the base keeps both the bytes written and the bytes to restore within a factor of two.
    Many deltas that are small beside the base are merged instead. What is merged is bounded, since
    the epoch waits for it.

    Attributes:
        max_deltas: Most small deltas of a version.
        max_inline_bytes: Most bytes of deltas that travel in their handles, since a version's
            handles go to the worker and back in each epoch.
        min_bytes: Deltas together below this never fold because of their size.
        base_share: Deltas fold once they are this share of the base.
        full_bytes: Deltas from this size on, or from `full_share` of the base, are merged no more.
        full_share: See `full_bytes`; it bounds their number.
        max_covered: Versions that a merged delta still leads on from; a worker that is further
            behind reads the base.
    """

    max_deltas: int = 32
    max_inline_bytes: int = 64 << 10
    min_bytes: int = 4 << 20
    base_share: float = 1.0
    full_bytes: int = 256 << 10
    full_share: float = 1 / 64
    max_covered: int = 64

    def is_due(self, version: KeyedStateVersion) -> bool:
        """Returns whether the next commit on top of `version` writes a base."""
        base = sum(handle.size_bytes for handle in version.base)
        deltas = sum(handle.size_bytes for handle in version.deltas)
        if deltas >= max(self.min_bytes, base * self.base_share):
            return True
        return base <= deltas and self.are_many(version)

    def are_many(self, version: KeyedStateVersion) -> bool:
        """Returns whether the small deltas of a version are to become fewer."""
        small = self.small_deltas(version)
        inline = sum(handle.size_bytes for handle in small if handle.inline is not None)
        return len(small) >= self.max_deltas or inline > self.max_inline_bytes

    def small_deltas(self, version: KeyedStateVersion) -> tuple[FileHandle, ...]:
        """Returns the newest deltas, behind the last one that is full."""
        base = sum(handle.size_bytes for handle in version.base)
        full = max(self.full_bytes, base * self.full_share)
        first = len(version.deltas)
        while first > 0 and version.deltas[first - 1].size_bytes < full:
            first -= 1
        return version.deltas[first:]
