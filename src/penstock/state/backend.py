"""The state backends by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.core.errors import ConfigurationError
from penstock.state.heap import HASHMAP, HeapKeyedState
from penstock.state.rocks import ROCKSDB, RocksKeyedState, RocksLimits
from penstock.state.rocks_base import require_rocksdict
from penstock.state.versions import FoldPolicy

if TYPE_CHECKING:
    from penstock.core.clock import EpochClock
    from penstock.core.file_area import FileArea
    from penstock.state.keyed import KeyedState


class StateBackend(Protocol):
    """Makes keyed state; everything else is the contract of `KeyedState`."""

    def create_state(  # noqa: PLR0913, PLR0917 - the range is two numbers everywhere
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

    def create_state(  # noqa: PLR0913, PLR0917
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


class RocksDbBackend:
    """State larger than memory."""

    def __init__(
        self, policy: FoldPolicy | None = None, limits: RocksLimits | None = None
    ) -> None:
        require_rocksdict()
        self._policy = policy or FoldPolicy()
        self._limits = limits or RocksLimits()

    def create_state(  # noqa: PLR0913, PLR0917
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        return RocksKeyedState(
            first_key_group,
            last_key_group,
            max_parallelism,
            area,
            clock,
            uid,
            self._policy,
            self._limits,
        )


_BACKENDS: Final = {HASHMAP: HashMapBackend, ROCKSDB: RocksDbBackend}


def create_backend(name: str, **settings: Any) -> StateBackend:
    """Returns the backend of that name.

    Args:
        name: `hashmap` or `rocksdb`.
        settings: Both take `policy` (`FoldPolicy`), `rocksdb` also `limits` (`RocksLimits`).

    Raises:
        ConfigurationError: There is no such backend or setting, or its library is missing.
    """
    backend: Any = _BACKENDS.get(name)
    if backend is None:
        raise ConfigurationError(
            f"state.backend.type is {name!r}; it must be 'hashmap' or 'rocksdb'."
        )
    try:
        made: StateBackend = backend(**settings)
    except TypeError as error:
        raise ConfigurationError(
            f"the settings {sorted(settings)} are not all settings of the {name!r} backend: {error}"
        ) from error
    return made
