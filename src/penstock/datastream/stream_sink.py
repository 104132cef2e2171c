"""The end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.node_settings import NodeSettings

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["DataStreamSink"]


class DataStreamSink(NodeSettings):
    """A sink of the program; nothing can follow it."""

    def __init__(self, environment: StreamExecutionEnvironment, node_id: int) -> None:
        self._environment = environment
        self._node_id = node_id

    def _own_node_id(self) -> int:
        return self._node_id

    def __repr__(self) -> str:
        return f"DataStreamSink({self._node.name!r})"
