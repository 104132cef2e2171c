"""State descriptors with PyFlink's constructors; type information is optional here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.errors import ProgramError
from penstock.state.schema import map_schema_text, schema_text
from penstock.state.ttl import StateTtlConfig

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
