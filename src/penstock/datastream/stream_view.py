"""What every stream is: a view on the program, namely the edges that its next operator will get."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.partitioning import Forward
from penstock.core.types import TypeInformation, Types
from penstock.datastream.missing_methods import Hints
from penstock.datastream.node_settings import StreamSettings
from penstock.datastream.notebook import graph_svg

if TYPE_CHECKING:
    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.graph.nodes import Input, NodeKind
from penstock.operators.convert import with_output_type
from penstock.operators.simple import MapSpec

__all__ = ["StreamView"]


class StreamView(Hints, StreamSettings):
    """Edges, with the declared type of the records on them."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        inputs: tuple[Input, ...],
        type_info: TypeInformation | None = None,
    ) -> None:
        self._environment = environment
        self._inputs = inputs
        self._type_info = type_info or Types.PICKLED_BYTE_ARRAY()

    # ---- about the stream ----

    def get_type(self) -> TypeInformation:
        """Returns the declared type; PICKLED_BYTE_ARRAY (any object) when none was.

        Example:
            >>> env.from_collection([1]).map(str, Types.STRING()).get_type() == Types.STRING()
            True
        """
        return self._type_info

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        return self._environment.get_config()

    # ---- for the classes of this package ----

    def _materialize(self) -> int:
        """Puts an operator that changes nothing behind this stream, so that it can have a name."""
        node_id = self._environment._program.append(
            NodeKind.OPERATOR,
            f"Side-Output-{self._inputs[0].side_tag}",
            with_output_type(MapSpec(_identity), self._type_info),
            self._inputs,
        )
        self._inputs = (Input(node_id),)
        return node_id

    def _second_inputs(self) -> tuple[Input, ...]:
        return tuple(replace(given, input_index=1) for given in self._inputs)

    def _check_other(self, other: Any, verb: str) -> None:
        if not isinstance(other, StreamView):
            raise ProgramError(
                f"{verb}() takes a DataStream, but got {type(other).__name__} {other!r:.80}."
            )
        if other._environment is not self._environment:
            raise ProgramError(
                f"{verb}() got a stream of another StreamExecutionEnvironment; build both streams "
                "from one environment."
            )

    def _own_node_id(self) -> int:
        given = self._inputs[0]
        if len(self._inputs) > 1:
            raise ProgramError(
                "a union has no name, uid, parallelism or side output of its own. Set them on the "
                "operators before or behind it."
            )
        if given.side_tag is not None:
            return self._materialize()
        if given.partitioning != Forward():
            said = type(given.partitioning).__name__.lower()
            raise ProgramError(
                f"{said}() is an exchange and no operator: it has no name, uid, parallelism or "
                "side output. Set them on the operators before or behind it."
            )
        return given.node_id

    def __repr__(self) -> str:
        nodes = self._environment._program.nodes
        names = [nodes[given.node_id].name for given in self._inputs if given.node_id in nodes]
        return f"{type(self).__name__}({' + '.join(names)}: {self._type_info!r})"

    def _repr_html_(self) -> str:
        ends = [given.node_id for given in self._inputs]
        return graph_svg(self._environment._program.nodes, ends)


def _identity(value: Any) -> Any:
    return value
