"""`ConnectedStreams`: two streams side by side, for functions with two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.missing_methods import Hints
from penstock.datastream.plain_stream import DataStream, append_operator
from penstock.operators.adapters import as_instance
from penstock.operators.connected import CoFlatMapSpec, CoMapSpec, CoProcessSpec, KeyedCoProcessSpec
from penstock.operators.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.runtime_context import CheckpointedFunction

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation
    from penstock.operators.runtime_context import RuntimeContext

__all__ = ["ConnectedStreams"]


class ConnectedStreams(Hints):
    """Two streams whose operator keeps one state for both."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Keys both streams; both selectors should give keys of one kind."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Makes one record of each, with a method per stream; None is dropped.

        Example:
            >>> class ToText(CoMapFunction):
            ...     def map1(self, value):
            ...         return f"number {value}"
            ...
            ...     def map2(self, value):
            ...         return f"word {value}"
            >>> both = env.from_collection([1]).connect(env.from_collection(["a"]))
            >>> sorted(both.map(ToText()).take())
            ['number 1', 'word a']
        """
        function = as_instance(func, CoMapFunction)
        return self._then("Co-Map", CoMapSpec(function, self._is_keyed()), output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Makes any number of records of each, with a method per stream."""
        function = as_instance(func, CoFlatMapFunction)
        return self._then("Co-Flat Map", CoFlatMapSpec(function, self._is_keyed()), output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function with a method per stream, with timers and state if both have keys."""
        as_instance(func, CoProcessFunction, KeyedCoProcessFunction)
        if isinstance(func, KeyedCoProcessFunction):
            if not self._is_keyed():
                raise ProgramError(
                    f"{type(func).__name__} is a KeyedCoProcessFunction, but the streams have no "
                    "keys. Call .key_by(selector1, selector2) on the connected streams first."
                )
            return self._then("Keyed Co-Process", KeyedCoProcessSpec(func), output_type)
        if self._is_keyed():
            # PyFlink gives such a function keyed state and timers too.
            has_state = isinstance(func, CheckpointedFunction)
            keyed = KeyedCoProcessSpec((_WithKeysAndState if has_state else _WithKeys)(func))
            return self._then("Keyed Co-Process", keyed, output_type)
        return self._then("Co-Process", CoProcessSpec(func), output_type)

    def _is_keyed(self) -> bool:
        first = isinstance(self.stream1, KeyedStream)
        second = isinstance(self.stream2, KeyedStream)
        if first != second:
            raise ProgramError(
                f"only the {'first' if first else 'second'} of two connected streams has a key. "
                "Key both with .key_by(selector1, selector2) on the connected streams, or none."
            )
        return first

    def _then(self, name: str, spec: Any, output_type: Any) -> DataStream:
        inputs = self.stream1._inputs + self.stream2._second_inputs()
        return append_operator(self.stream1._environment, name, spec, inputs, output_type)

    def __repr__(self) -> str:
        return f"ConnectedStreams({self.stream1!r}, {self.stream2!r})"


class _WithKeys(KeyedCoProcessFunction):
    """A `CoProcessFunction` on keyed streams."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def close(self) -> None:
        self._function.close()

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._function.process_element1(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._function.process_element2(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        # Java Flink's CoProcessFunction has it, PyFlink's has not.
        on_timer = getattr(self._function, "on_timer", None)
        return None if on_timer is None else on_timer(timestamp, ctx)


class _WithKeysAndState(_WithKeys, CheckpointedFunction):
    """The same with operator state."""

    def snapshot_state(self, context: Any) -> None:
        self._function.snapshot_state(context)

    def initialize_state(self, context: Any) -> None:
        self._function.initialize_state(context)
