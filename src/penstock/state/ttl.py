"""Time to live of state, as PyFlink's builder spells it, and how entries with one are stored.

They are stored as (value, last access). A state may gain or lose its TTL between two runs: what was
stored without one counts as accessed when it is first seen with it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.times import to_millis

if TYPE_CHECKING:
    from penstock.state.tables import Columns, Conversion


class _UpdateType(Enum):
    """Which accesses prolong the life of an entry."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(Enum):
    """Whether an expired entry that still exists may be returned."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """The clock of expiry."""

    ProcessingTime = 0


class _CleanupStrategies:
    """When expired entries are removed besides on access."""

    class Strategies(Enum):
        """Names of the strategies."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class IncrementalCleanupStrategy:
        """A few entries are looked at upon each access."""

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            if cleanup_size <= 0:
                raise ProgramError(
                    f"cleanup_incrementally looks at {cleanup_size} entries; it needs at least 1."
                )
            self._cleanup_size = cleanup_size
            self._run_cleanup_for_every_record = run_cleanup_for_every_record

        def get_cleanup_size(self) -> int:
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy:
        """Entries are dropped when the database rewrites them."""

        def __init__(
            self, query_time_after_num_entries: int, periodic_compaction_time: Any = None
        ) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time

        def get_query_time_after_num_entries(self) -> int:
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Any:
            return self._periodic_compaction_time

    def __init__(self, strategies: dict[Strategies, Any], is_cleanup_in_background: bool) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Returns the strategy; without a choice, 5 entries an access unless switched off."""
        in_background = self._is_cleanup_in_background
        default = self.IncrementalCleanupStrategy(5, False) if in_background else None
        return self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> RocksdbCompactFilterCleanupStrategy | None:
        """Returns the strategy; without a choice, 1000 entries a time unless switched off."""
        default = (
            self.RocksdbCompactFilterCleanupStrategy(1000)
            if self._is_cleanup_in_background
            else None
        )
        return self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)


class StateTtlConfig:
    """How long an entry of a state lives after it was last touched."""

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: Any,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies
        self.ttl_ms = to_millis(ttl, "the time to live")
        if self.ttl_ms <= 0:
            raise ProgramError(f"a state TTL of {self.ttl_ms} ms; it must be above 0.")

    @staticmethod
    def new_builder(ttl: Any) -> StateTtlConfig.Builder:
        """Starts a configuration; `ttl` is a `Time`, a `timedelta` or milliseconds."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Any:
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, "
            f"state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )

    class Builder:
        """Builds a `StateTtlConfig`."""

        def __init__(self, ttl: Any) -> None:
            self._ttl = ttl
            self._update_type = _UpdateType.OnCreateAndWrite
            self._state_visibility = _StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = _TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[_CleanupStrategies.Strategies, Any] = {}

        def set_update_type(self, update_type: _UpdateType) -> StateTtlConfig.Builder:
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(_UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(_UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: _StateVisibility
        ) -> StateTtlConfig.Builder:
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: _TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Full images of the state leave expired entries out."""
            self._strategies[_CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = True
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Each access looks at that many entries; `hashmap` only, as in Flink."""
            self._strategies[_CleanupStrategies.Strategies.INCREMENTAL_CLEANUP] = (
                _CleanupStrategies.IncrementalCleanupStrategy(
                    cleanup_size, run_cleanup_for_every_record
                )
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Any = None
        ) -> StateTtlConfig.Builder:
            """Expired entries are dropped when the database rewrites them; `rocksdb` only."""
            self._strategies[_CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                _CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Any) -> StateTtlConfig.Builder:
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Returns the configuration.

            Raises:
                ProgramError: The time to live is not above 0 or no duration.
            """
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                _CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )


def retimed(*, to_timed: bool, now_ms: int) -> Conversion:
    """Returns what gives values a last access, or takes it from them."""
    if to_timed:
        return lambda values: [(value, now_ms) for value in values]
    return lambda values: [value for value, _ in values]


def keeping_times(conversion: Conversion, *, timed: bool) -> Conversion:
    """Returns a conversion of values for a table; those with a last access keep it."""
    if not timed:
        return conversion

    def convert(values: list[Any]) -> list[Any]:
        plain = conversion([value for value, _ in values])
        return [(one, accessed) for one, (_, accessed) in zip(plain, values, strict=True)]

    return convert


def changed_content(kind: str, content: Any, change: Conversion) -> Any:
    """Returns the content of one row changed: a value, a chunk of a list, or a map entry."""
    if kind == "list":
        return change(content)
    if kind == "map":
        return content[0], change([content[1]])[0]
    return change([content])[0]


def changed_columns(kind: str, columns: Columns, change: Conversion) -> Columns:
    """Returns columns with their values changed; what says that something is gone stays."""
    if kind == "value":
        changed: Columns = []
        for ns, keys, values in columns:
            found = iter(change([value for value in values if value is not None]))
            changed.append((ns, keys, [None if value is None else next(found) for value in values]))
        return changed
    if kind == "list":
        return [
            (ns, keys, starts, [None if part is None else change(part) for part in items])
            for ns, keys, starts, items in columns
        ]
    return [
        (ns, keys, cleared, map_keys, list(map(change, values)), removed)
        for ns, keys, cleared, map_keys, values, removed in columns
    ]
