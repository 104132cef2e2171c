"""Base of all streams: a view on the program, the edges that the next operator will get."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.core.errors import ProgramError
from penstock.core.refused_names import Hints
from penstock.core.times import to_millis
from penstock.core.types import TypeInformation, Types
from penstock.datastream.notebook import graph_svg
from penstock.datastream.program import (
    checked_max_parallelism,
    checked_parallelism,
    checked_text,
)
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.graph.nodes import (
    Chaining,
    Custom,
    Forward,
    Global,
    Input,
    Node,
    NodeKind,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.operators.adapters import as_key_selector, as_partitioner
from penstock.operators.convert import with_output_type
from penstock.operators.function_logic import MapSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.operators.functions import KeySelector, Partitioner


_UID_HASH: Final = re.compile(r"[0-9a-f]{32}")


class NodeSettings:
    """Settings of the operator behind a stream; each call returns the stream again."""

    _environment: StreamExecutionEnvironment

    def _own_node_id(self) -> int:
        """Returns the node that settings are for, or raises an error if there is none."""
        raise NotImplementedError

    @property
    def _node(self) -> Node:
        return self._environment._program.nodes[self._own_node_id()]

    def _change(self, **settings: Any) -> Self:
        self._environment._program.change(self._own_node_id(), **settings)
        return self

    def get_name(self) -> str:
        """Returns the name of the operator.

        Example:
            >>> env.from_collection([1]).map(str).get_name()
            'Map'
        """
        return self._node.name

    def name(self, name: str) -> Self:
        """Sets the name that logs, metrics and the web page show.

        Example:
            >>> env.from_collection([1]).map(str).name("to text").get_name()
            'to text'
        """
        return self._change(name=checked_text(name, "a name"))

    def uid(self, uid: str) -> Self:
        """Names the operator's state in checkpoints and savepoints; set it on everything stateful.

        A uid must be unique in the program and stay the same over its versions.

        Example:
            >>> counts = env.from_collection([1]).key_by(abs).sum().uid("counts")
        """
        checked_text(uid, "a uid")
        node = self._node
        for other in self._environment._program.pending().values():
            if other.uid == uid and other.node_id != node.node_id:
                raise ProgramError(
                    f"uid '{uid}' is already that of operator '{other.name}'; a uid names the "
                    f"state of exactly one operator. Give '{node.name}' another."
                )
        return self._change(uid=uid)

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Names the operator's state by the hash that an earlier job logged; a last resort.

        Example:
            >>> hashed = "2e588ce1c86a9d46e2e85186773ce4fd"
            >>> counts = env.from_collection([1]).key_by(abs).sum().set_uid_hash(hashed)
        """
        if not isinstance(uid_hash, str) or not _UID_HASH.fullmatch(uid_hash.lower()):
            raise ProgramError(
                f"a uid hash has 32 hexadecimal digits, but got {uid_hash!r}. For a name of your "
                'own use .uid("...").'
            )
        return self._change(uid_hash=uid_hash.lower())

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the number of subtasks of this operator; -1 goes back to the environment's.

        Example:
            >>> parallel = env.from_collection([1]).rebalance().map(str).set_parallelism(2)
        """
        node = self._node
        if parallelism == -1 and not isinstance(parallelism, bool):
            return self._change(parallelism=None)
        checked_parallelism(parallelism, f"the parallelism of '{node.name}'")
        if not node.is_parallel and parallelism != 1:
            raise ProgramError(
                f"the parallelism of '{node.name}' was set to {parallelism}, but it cannot run in "
                "parallel; it must stay 1. For windows, key_by(...).window(...) runs in parallel."
            )
        return self._change(parallelism=parallelism)

    def set_description(self, description: str) -> Self:
        """Sets the longer text that the plan shows.

        Example:
            >>> texts = env.from_collection([1]).map(str).set_description("numbers as text")
        """
        return self._change(description=description)

    def disable_chaining(self) -> Self:
        """Keeps the operator in a stage of its own.

        Example:
            >>> _ = env.from_collection([1]).map(str).disable_chaining().print()
            >>> plan = json.loads(env.get_execution_plan())
            >>> [node["type"] for node in plan["nodes"]]
            ['Source: Collection Source', 'Map', 'Sink: Print to Std. Out']
        """
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
        """Names a group of operators. It is shown in the plan; Spark has no slots to share.

        Example:
            >>> scored = env.from_collection([1]).map(str).slot_sharing_group("models")
        """
        name = getattr(slot_sharing_group, "get_name", lambda: slot_sharing_group)()
        if not isinstance(name, str):
            raise ProgramError(
                f"slot_sharing_group() takes a name or a SlotSharingGroup, not {name!r}."
            )
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._environment.register_slot_sharing_group(slot_sharing_group)
        else:
            self._environment._program.remark(
                f"slot_sharing_group('{name}') is shown in the plan and has no other effect: Spark "
                "has no slots, and operators share a worker where they are chained."
            )
        return self._change(slot_sharing_group=name)


class StreamSettings(NodeSettings):
    """Settings of streams that sinks do not have."""

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the number of key groups, the limit of later rescaling.

        Example:
            >>> counts = env.from_collection([1]).key_by(abs).sum().set_max_parallelism(64)
        """
        checked_max_parallelism(max_parallelism, f"the max parallelism of '{self._node.name}'")
        return self._change(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> Self:
        """Fixes parallelism and max parallelism of this operator at 1.

        Example:
            >>> _ = env.set_parallelism(4)
            >>> ordered = env.from_collection([1]).map(str).force_non_parallel()
        """
        return self._change(parallelism=1, max_parallelism=1, is_parallel=False)

    def start_new_chain(self) -> Self:
        """Begins a new stage with this operator; later ones may join it.

        Example:
            >>> slow = env.from_collection([1]).map(str).start_new_chain()
        """
        return self._change(chaining=Chaining.HEAD)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted and reported: records travel once per epoch, there are no buffers to flush.

        Example:
            >>> same = env.from_collection([1]).map(str).set_buffer_timeout(10)
        """
        to_millis(timeout_millis, "the buffer timeout")
        self._environment._program.remark(
            f"set_buffer_timeout({timeout_millis}) of '{self._node.name}' has no effect: records "
            "travel once per epoch; penstock.epoch.target-duration bounds their delay."
        )
        return self


class DataStreamSink(NodeSettings):
    """A sink of the program; nothing can follow it."""

    def __init__(self, environment: StreamExecutionEnvironment, node_id: int) -> None:
        self._environment = environment
        self._node_id = node_id

    def _own_node_id(self) -> int:
        return self._node_id

    def __repr__(self) -> str:
        return f"DataStreamSink({self._node.name!r})"


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
        """Returns the environment that the stream belongs to.

        Example:
            >>> env.from_collection([1]).get_execution_environment() is env
            True
        """
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the settings of the stream's environment.

        Example:
            >>> _ = env.set_parallelism(2)
            >>> env.from_collection([1]).get_execution_config().get_parallelism()
            2
        """
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


class FieldAggregates:
    """Aggregates of one field: of all records of a key so far, or of each window."""

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Adds up a field; the other fields are those of the first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).sum(1).take()
            [('a', 3), ('b', 7), ('a', 5)]
        """
        return self._aggregate_field("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Keeps the smallest value of a field; the other fields are those of the first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).min(1).take()
            [('a', 3), ('b', 7), ('a', 2)]
        """
        return self._aggregate_field("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keeps the largest value of a field; the other fields are those of the first record.

        Example:
            >>> pairs = env.from_collection([("a", 3), ("b", 7), ("a", 2)])
            >>> pairs.key_by(lambda pair: pair[0]).max(1).take()
            [('a', 3), ('b', 7), ('a', 3)]
        """
        return self._aggregate_field("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keeps the record with the smallest value of a field.

        Example:
            >>> bids = env.from_collection([("pen", 3, "Ada"), ("pen", 2, "Alan")])
            >>> bids.key_by(lambda bid: bid[0]).min_by(1).take()
            [('pen', 3, 'Ada'), ('pen', 2, 'Alan')]
        """
        return self._aggregate_field("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keeps the record with the largest value of a field.

        Example:
            >>> bids = env.from_collection([("pen", 3, "Ada"), ("pen", 2, "Alan")])
            >>> bids.key_by(lambda bid: bid[0]).max_by(1).take()
            [('pen', 3, 'Ada'), ('pen', 3, 'Ada')]
        """
        return self._aggregate_field("max_by", position_to_max_by)

    def _aggregate_field(self, kind: str, position: int | str) -> DataStream:
        raise NotImplementedError


class PartitionedStream(StreamView):
    """The methods that determine which subtask gets a record."""

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Sends each record to the subtask that the partitioner names for its key.

        Example:
            >>> orders = env.from_collection([("de", 10), ("us", 20)])
            >>> def region(country, subtasks):
            ...     return 0 if country == "us" else subtasks - 1
            >>> by_region = orders.partition_custom(region, lambda order: order[0]).map(str)
            >>> sorted(by_region.set_parallelism(2).take())
            ["('de', 10)", "('us', 20)"]
        """
        return self._repartition(Custom(as_partitioner(partitioner), as_key_selector(key_selector)))

    def shuffle(self) -> DataStream:
        """Sends each record to a subtask at random.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).shuffle()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Shuffle())

    def rebalance(self) -> DataStream:
        """Deals records out to all subtasks in turn.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).rebalance()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Rebalance())

    def rescale(self) -> DataStream:
        """Deals records out in turn to the subtasks that belong to this one.

        Example:
            >>> dealt = env.from_collection([3, 1, 2]).rescale()
            >>> sorted(dealt.map(abs).set_parallelism(2).take())
            [1, 2, 3]
        """
        return self._repartition(Rescale())

    def forward(self) -> DataStream:
        """Keeps records in their subtask; both sides must have one parallelism.

        Example:
            >>> env.from_collection([1, 2]).map(abs).forward().map(str).take()
            ['1', '2']
        """
        return self._repartition(Forward(explicit=True))

    def global_(self) -> DataStream:
        """Sends every record to the first subtask.

        Example:
            >>> dealt = env.from_collection([1, 2]).rebalance().map(abs).set_parallelism(2)
            >>> sorted(dealt.global_().map(str).set_parallelism(2).take())
            ['1', '2']
        """
        return self._repartition(Global())

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        raise NotImplementedError


def _identity(value: Any) -> Any:
    return value
