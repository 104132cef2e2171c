"""The state backends by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.errors import ConfigurationError
from penstock.state.context import StateContext
from penstock.state.hashmap.backend import HASHMAP, HeapKeyedState
from penstock.state.pickles import Pickles
from penstock.state.rocksdb.backend import ROCKSDB, RocksKeyedState
from penstock.state.rocksdb.base import require_rocksdict
from penstock.state.rocksdb.settings import RocksLimits, RocksSettings
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


@dataclass(frozen=True, slots=True)
class HashMapBackend:
    """State in memory."""

    policy: FoldPolicy
    pickles: Pickles

    def create_state(  # noqa: PLR0913, PLR0917
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        context = StateContext(
            first_key_group, last_key_group, max_parallelism, area, clock, uid, self.pickles
        )
        return HeapKeyedState(context, self.policy)


@dataclass(frozen=True, slots=True)
class RocksDbBackend:
    """State larger than memory."""

    policy: FoldPolicy
    limits: RocksLimits
    database: RocksSettings
    pickles: Pickles

    def create_state(  # noqa: PLR0913, PLR0917
        self,
        first_key_group: int,
        last_key_group: int,
        max_parallelism: int,
        area: FileArea,
        clock: EpochClock,
        uid: str,
    ) -> KeyedState:
        context = StateContext(
            first_key_group, last_key_group, max_parallelism, area, clock, uid, self.pickles
        )
        return RocksKeyedState(context, self.policy, self.limits, self.database)


def create_backend(name: str, *, pickles: Pickles = Pickles.ALLOW, **settings: Any) -> StateBackend:
    """Returns the backend of that name.

    Args:
        name: `hashmap` or `rocksdb`.
        pickles: What to do about state that is pickled.
        settings: Fields of `FoldPolicy`; for `rocksdb` also of `RocksLimits` and `RocksSettings`.

    Raises:
        ConfigurationError: There is no such backend or setting, or its library is missing.
    """
    if name == HASHMAP:
        (policy,) = _take_settings(name, settings, FoldPolicy)
        return HashMapBackend(policy, pickles)
    if name == ROCKSDB:
        require_rocksdict()
        # Deltas over a base in RocksDB are bounded by themselves, however large it is.
        policy, limits, database = _take_settings(
            name, {"full_share": 0.0, **settings}, FoldPolicy, RocksLimits, RocksSettings
        )
        return RocksDbBackend(policy, limits, database, pickles)
    raise ConfigurationError(f"state.backend.type is {name!r}; it must be 'hashmap' or 'rocksdb'.")


def _take_settings(name: str, settings: dict[str, Any], *parts: type[Any]) -> list[Any]:
    """Deals flat settings out to the dataclasses that have them as fields."""
    names = [{field.name for field in fields(part)} for part in parts]
    known = sorted(set().union(*names))
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: no setting of the {name!r} state backend, which has "
            f"{', '.join(known)}."
        )
    return [
        part(**{key: value for key, value in settings.items() if key in own})
        for part, own in zip(parts, names, strict=True)
    ]
