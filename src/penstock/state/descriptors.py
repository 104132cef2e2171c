"""State descriptors and their time to live, with PyFlink's constructors and builder.

Type information is optional here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.errors import ProgramError
from penstock.core.times import to_millis
from penstock.state.schema import map_schema_text, schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueStateDescriptor",
]


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


class StateDescriptor:
    """Name, type and time to live of a state; the name is unique within an operator."""

    kind: ClassVar[str] = ""

    def __init__(self, name: str, type_info: Any = None) -> None:
        if not isinstance(name, str) or not name:
            raise ProgramError(f"a state is named {name!r}; it needs a text that is not empty.")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self.migration: Callable[[Any], Any] | None = None
        self.schema = self._schema()

    def get_name(self) -> str:
        return self.name

    def _schema(self) -> str:
        """Returns the type as text; "" when none is declared."""
        return schema_text(self.type_info, f"the descriptor of state {self.name!r}")

    def set_migration(self, function: Callable[[Any], Any]) -> None:
        """Gives a function for stored values of another type than the descriptor declares.

        It is called for each value, list element or map value when a snapshot is restored whose
        type of this state differs, and returns the value of the declared type. Without it the
        rules for widened numbers, added and removed fields hold, and other changes are refused.
        """
        if not callable(function):
            raise ProgramError(
                f"set_migration of state {self.name!r} takes a function of one stored value, but "
                f"got {function!r:.80}."
            )
        self.migration = function

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets entries of the state expire."""
        self._ttl_config = ttl_config

    @property
    def ttl(self) -> StateTtlConfig | None:
        """The time to live, or None if entries do not expire."""
        config = self._ttl_config
        return config if config is not None and config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes one value per key."""

    kind = "value"

    def __init__(self, name: str, value_type_info: Any = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a list per key."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: Any = None) -> None:
        super().__init__(name, elem_type_info)

    def _schema(self) -> str:
        element = super()._schema()
        return f"LIST({element})" if element else ""


class MapStateDescriptor(StateDescriptor):
    """Describes a map per key, or a broadcast map."""

    kind = "map"

    def __init__(self, name: str, key_type_info: Any = None, value_type_info: Any = None) -> None:
        self.key_type_info = key_type_info
        self.value_type_info = value_type_info
        super().__init__(name, (key_type_info, value_type_info))

    def _schema(self) -> str:
        what = f"the descriptor of state {self.name!r}"
        return map_schema_text(self.key_type_info, self.value_type_info, what)


class ReducingStateDescriptor(StateDescriptor):
    """Describes elements that are reduced to one; a plain callable or an object with `reduce`."""

    kind = "reducing"

    def __init__(self, name: str, reduce_function: Any, type_info: Any = None) -> None:
        super().__init__(name, type_info)
        if not callable(reduce_function) and not callable(getattr(reduce_function, "reduce", None)):
            raise ProgramError(
                f"the reduce function of state {name!r} is {reduce_function!r}; pass a function of "
                "two values or a ReduceFunction."
            )
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes elements that are folded into an accumulator by an aggregate function."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: Any, state_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        for method in ("create_accumulator", "add", "get_result"):
            if not callable(getattr(agg_function, method, None)):
                raise ProgramError(
                    f"the aggregate function of state {name!r} is {agg_function!r}, which has no "
                    f"{method}(); pass an AggregateFunction."
                )
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        return self._agg_function
