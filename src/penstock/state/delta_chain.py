"""The deltas of versions as files: written one a commit, merged when they are many, caught up with.

A version on top of another keeps its base and its deltas and adds one. Who holds an ancestor needs
only what was added since; ancestors are recognised by id *and* content, because a zombie attempt
may have written a version of the same id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.state.delta_merge import first_to_merge, merge
from penstock.state.payload import Payload, decode_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.state.context import StateContext
    from penstock.state.versions import FoldPolicy

_MERGED: Final = ".merged"


def is_same(a: KeyedStateVersion, b: KeyedStateVersion) -> bool:
    """Returns whether two versions are one."""
    return a.version_id == b.version_id and _digests(a.files) == _digests(b.files)


class DeltaChain:
    """Reads and writes the deltas of one operator's state.

    Attributes:
        frozen: Number of deltas that a fold under way replaces; no later one is merged with them.
    """

    def __init__(self, context: StateContext, policy: FoldPolicy) -> None:
        self._area = context.area
        self._uid = context.uid
        self._pickles = context.pickles
        self._policy = policy
        self.frozen = 0

    def append(
        self, payload: Payload, held: KeyedStateVersion, version_id: str
    ) -> tuple[KeyedStateVersion, int]:
        """Writes a delta; returns the version that it makes of `held`, and the delta's size."""
        handle = self._area.write(f"{version_id}.delta", payload.encode(self._uid, self._pickles))
        version = replace(
            held,
            version_id=version_id,
            deltas=(*held.deltas, handle),
            delta_ids=(*held.delta_ids, version_id),
        )
        mergeable = replace(version, deltas=version.deltas[self.frozen :])
        small = self._policy.small_deltas(mergeable)
        if len(small) > 1 and self._policy.are_many(mergeable):
            first = len(version.deltas) - len(small) + first_to_merge(small)
            version = self._merged(version, payload, first)
        return version, handle.size_bytes

    def _merged(self, version: KeyedStateVersion, newest: Payload, first: int) -> KeyedStateVersion:
        """Returns the same version with its deltas from `first` on in one file."""
        older = [self.read(handle) for handle in version.deltas[first:-1]]
        reached = [
            _mark(version_id, handle)
            for version_id, handle in zip(version.delta_ids, version.deltas, strict=True)
        ]
        merged = merge([*older, newest], reached[first:], self._policy.max_covered)
        handle = self._area.write(
            f"{version.version_id}{_MERGED}", merged.encode(self._uid, self._pickles)
        )
        return replace(
            version,
            deltas=(*version.deltas[:first], handle),
            delta_ids=(*version.delta_ids[:first], version.version_id),
        )

    def missing(
        self, held: KeyedStateVersion, version: KeyedStateVersion
    ) -> Sequence[FileHandle] | None:
        """Returns the deltas that lead from the held version to another, None if there are none.

        None too while a fold is under way, which knows nothing of what others wrote.
        """
        if self.frozen or _digests(held.base) != _digests(version.base):
            return None
        if not held.deltas:
            return version.deltas if held.version_id == version.base_id else None
        mark = _mark(held.version_id, held.deltas[-1])
        for position, handle in enumerate(version.deltas):
            if _mark(version.delta_ids[position], handle) == mark:
                return version.deltas[position + 1 :]
            if _MERGED in handle.name and mark in self.read(handle).covers:
                return version.deltas[position:]
        return None

    def read(self, handle: FileHandle) -> Payload:
        """Returns the content of a delta, or of a base in the same form."""
        return decode_payload(self._area.read(handle), handle.name, self._pickles)


def _digests(files: Sequence[FileHandle]) -> list[str]:
    return [handle.sha256 for handle in files]


def _mark(version_id: str, delta: FileHandle) -> str:
    """Returns what identifies a version by the delta that reaches it."""
    return f"{version_id} {delta.sha256}"
