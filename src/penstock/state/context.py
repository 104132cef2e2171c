"""Where keyed state belongs: its operator, its key groups, its files and its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.handles import FileHandle, KeyedStateVersion
from penstock.core.keygroups import key_group
from penstock.state.pickles import Pickles

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.clock import EpochClock
    from penstock.files.area import FileArea


@dataclass(frozen=True, slots=True)
class StateContext:
    """What the keyed state of one operator in one subtask is given.

    Attributes:
        first_key_group: First key group of the subtask.
        last_key_group: Last key group of the subtask, inclusive.
        max_parallelism: Number of key groups.
        area: Where the files of versions are.
        clock: Processing time, for the TTL of states.
        uid: Uid of the operator, for errors.
        open_version: Returns the `KeyedState` of a version of any range and backend, to be read.
        pickles: Whether values may be pickled, and pickles be read.
    """

    first_key_group: int
    last_key_group: int
    max_parallelism: int
    area: FileArea
    clock: EpochClock
    uid: str
    open_version: Callable[[KeyedStateVersion, StateContext], Any]
    pickles: Pickles = Pickles.ALLOW

    def owns(self, key: Any) -> bool:
        """Returns whether a key lies in this range of key groups."""
        group = key_group(key, self.max_parallelism)
        return self.first_key_group <= group <= self.last_key_group

    def is_range_of(self, version: KeyedStateVersion) -> bool:
        """Returns whether a version is of exactly this range."""
        mine = (self.first_key_group, self.last_key_group)
        return (version.first_key_group, version.last_key_group) == mine

    def version(
        self, version_id: str, backend: str, base: tuple[FileHandle, ...] = ()
    ) -> KeyedStateVersion:
        """Returns a version of this range without deltas."""
        return KeyedStateVersion(
            version_id,
            backend,
            version_id if base else "",
            base,
            (),
            (),
            self.first_key_group,
            self.last_key_group,
        )
