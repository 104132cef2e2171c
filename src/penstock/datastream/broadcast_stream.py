"""Broadcast state: one stream goes to every subtask of another one's operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.plain_stream import DataStream, append_operator
from penstock.operators.adapters import as_instance
from penstock.operators.connected import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from penstock.operators.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

__all__ = ["BroadcastConnectedStream", "BroadcastStream"]


class BroadcastStream:
    """A stream that every subtask gets, with the states that may be made of it."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ProgramError(
                    f"broadcast() takes MapStateDescriptors, but got {descriptor!r:.80}. Broadcast "
                    'state is a map: MapStateDescriptor("rules", key_type, value_type).'
                )
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        names = ", ".join(each.get_name() for each in self.broadcast_state_descriptors)
        return f"BroadcastStream({self.input_stream!r}, states: {names})"


class BroadcastConnectedStream:
    """A stream, keyed or not, beside a broadcast one."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Runs a function that writes the state on one side and reads it on the other."""
        as_instance(func, BroadcastProcessFunction, KeyedBroadcastProcessFunction)
        is_keyed = isinstance(self.non_broadcast_stream, KeyedStream)
        descriptors = tuple(self.broadcast_state_descriptors)
        name = type(func).__name__
        if isinstance(func, KeyedBroadcastProcessFunction):
            if not is_keyed:
                raise ProgramError(
                    f"{name} is a KeyedBroadcastProcessFunction, but the stream has no key. Call "
                    "key_by(...) before connect(), or make it a BroadcastProcessFunction."
                )
            keyed = KeyedBroadcastProcessSpec(func, descriptors)
            return self._then("Keyed-Co-Process-Broadcast", keyed, output_type)
        if is_keyed:
            raise ProgramError(
                f"{name} is a BroadcastProcessFunction, but the stream has a key. Make it a "
                "KeyedBroadcastProcessFunction, or call connect() before key_by(...)."
            )
        spec = BroadcastProcessSpec(func, descriptors)
        return self._then("Co-Process-Broadcast", spec, output_type)

    def _then(self, name: str, spec: Any, output_type: Any) -> DataStream:
        stream = self.non_broadcast_stream
        inputs = stream._inputs + self.broadcast_stream.input_stream._second_inputs()
        return append_operator(stream._environment, name, spec, inputs, output_type)

    def __repr__(self) -> str:
        return f"BroadcastConnectedStream({self.non_broadcast_stream!r}, {self.broadcast_stream!r})"
