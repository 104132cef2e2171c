"""The state backends by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.errors import ConfigurationError
from penstock.state.heap import HASHMAP, HeapKeyedState
from penstock.state.versions import FoldPolicy

if TYPE_CHECKING:
    from penstock.core.clock import EpochClock
    from penstock.core.file_area import FileArea
    from penstock.state.keyed import KeyedState


class StateBackend(Protocol):
    """Makes keyed state; everything else is the contract of `KeyedState`."""

    def create_state(  # noqa: PLR0913 - the range is two numbers everywhere
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        """Returns the empty state of one operator in one subtask."""


class HashMapBackend:
    """State in memory."""

    def __init__(self, policy: FoldPolicy | None = None) -> None:
        self._policy = policy or FoldPolicy()

    def create_state(  # noqa: PLR0913
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        return HeapKeyedState(
            first_key_group, last_key_group, max_parallelism, area, clock, uid, self._policy
        )


def create_backend(name: str, **settings: Any) -> StateBackend:
    """Returns the backend of that name.

    Raises:
        ConfigurationError: There is no such backend or setting.
    """
    if name == HASHMAP:
        return HashMapBackend(**settings)
    raise ConfigurationError(
        f"state.backend.type is {name!r}; it must be 'hashmap' or 'rocksdb'."
    )
