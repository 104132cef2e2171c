"""The program so far: nodes, in the order in which the user's calls made them."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import Boundedness
from penstock.connectors.spark import SparkSource
from penstock.core.configuration import checked_number
from penstock.core.errors import ProgramError
from penstock.core.keygroups import LIMIT_MAX_PARALLELISM
from penstock.core.times import MAX_TIMESTAMP
from penstock.graph.nodes import Input, Node, NodeKind
from penstock.operators.adapters import (
    as_reduce,
    close_function,
    open_function,
    refuse_operator_state,
)
from penstock.operators.convert import ConvertOutputSpec, SortedInputsSpec
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.functions import KeyedProcessFunction
from penstock.operators.process import (
    CoFlatMapSpec,
    CoMapSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    KeyedProcessSpec,
)
from penstock.operators.reduce import ReduceSpec
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.state.descriptors import ValueStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.runtime_context import RuntimeContext


class Program:
    """Nodes by id. Methods of streams append to it; settings replace a node by a changed copy.

    Nodes stay after they were executed: a stream may be continued then, and its sources and
    operators run again in the next job.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.remarks: list[str] = []
        self._last_id = 0
        self._executed_id = 0

    def append(
        self, kind: NodeKind, name: str, spec: Any, inputs: tuple[Input, ...] = (), **settings: Any
    ) -> int:
        """Adds a node and returns its id."""
        self._last_id += 1
        self.nodes[self._last_id] = Node(
            self._last_id, kind, checked_text(name, "a name"), spec, inputs, **settings
        )
        return self._last_id

    def change(self, node_id: int, **settings: Any) -> None:
        """Replaces a node by a copy with other settings."""
        self.nodes[node_id] = dataclasses.replace(self.nodes[node_id], **settings)

    def pending(self) -> dict[int, Node]:
        """Returns what the next job runs: new nodes, and all that they need."""
        needed: set[int] = set()
        found = [node_id for node_id in self.nodes if node_id > self._executed_id]
        while found:
            node_id = found.pop()
            if node_id not in needed:
                needed.add(node_id)
                found += [given.node_id for given in self.nodes[node_id].inputs]
        return {node_id: node for node_id, node in self.nodes.items() if node_id in needed}

    def never_ran(self) -> Node | None:
        """Returns the last sink that no job has run; without any job, the last node."""
        new = [node for node_id, node in self.nodes.items() if node_id > self._executed_id]
        sinks = [node for node in new if node.kind is NodeKind.SINK]
        found = sinks or (new if not self._executed_id else [])
        return found[-1] if found else None

    def remark(self, text: str) -> None:
        """Keeps a remark that is logged once when the job starts."""
        if text not in self.remarks:
            self.remarks.append(text)

    def executed(self) -> None:
        """Marks the pending nodes as executed."""
        self._executed_id = self._last_id
        self.remarks = []

    def clear(self) -> None:
        """Forgets all nodes; ids are not used again."""
        self.nodes = {}
        self.executed()


def checked_text(text: str, what: str) -> str:
    """Returns a name or uid that is a text and not empty."""
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"{what} is a text that is not empty, but got {text!r}.")
    return text


def checked_parallelism(parallelism: int, what: str) -> int:
    """Returns a parallelism of at least 1."""
    return checked_number(parallelism, what, 1)


def checked_max_parallelism(max_parallelism: int, what: str) -> int:
    """Returns a max parallelism within Flink's limits."""
    return checked_number(max_parallelism, what, 1, LIMIT_MAX_PARALLELISM)


# `RuntimeExecutionMode.BATCH`: the results of bounded input, without what led to them.
#
# Every program runs as a stream. BATCH differs in what can be seen of it: rolling reductions give
# one result per key, at the end; event time does not advance before the end, so that no record is
# late; and functions that may keep state by key get the records of a key in order of time, those of
# two keyed inputs together. All is said with operators; nothing below knows of the mode.


def is_bounded(nodes: dict[int, Node]) -> bool:
    """Returns whether all sources end."""
    return not _unbounded_names(nodes)


def _unbounded_names(nodes: dict[int, Node]) -> list[str]:
    return [
        node.name
        for node in nodes.values()
        if node.kind is NodeKind.SOURCE and not _ends(node.spec.source)
    ]


def _ends(source: Any) -> bool:
    if isinstance(source, SparkSource):
        return not source.is_streaming
    return bool(source.boundedness is Boundedness.BOUNDED)


def in_batch_mode(nodes: dict[int, Node]) -> dict[int, Node]:
    """Returns the nodes with the specs that give batch results.

    Raises:
        ProgramError: A source does not end.
    """
    unbounded = _unbounded_names(nodes)
    if unbounded:
        raise ProgramError(
            f"execution.runtime-mode is BATCH, but the sources {', '.join(unbounded)} do not end. "
            "Use RuntimeExecutionMode.STREAMING, or AUTOMATIC."
        )
    return {node_id: replace(node, spec=_batch_spec(node.spec)) for node_id, node in nodes.items()}


_TWO_KEYED: Final = (KeyedCoProcessSpec, CoMapSpec, CoFlatMapSpec)
_WITH_STATE: Final = (
    KeyedProcessSpec,
    MapSpec,
    FlatMapSpec,
    FilterSpec,
    KeyedBroadcastProcessSpec,
    *_TWO_KEYED,
)


def _batch_spec(spec: Any) -> Any:
    if isinstance(spec, ConvertOutputSpec):
        return ConvertOutputSpec(_batch_spec(spec.inner), spec.type_info)
    if isinstance(spec, ReduceSpec):
        return KeyedProcessSpec(FinalReduce(spec.function))
    if isinstance(spec, _WITH_STATE) and spec.is_keyed:
        return SortedInputsSpec(spec, (0, 1) if isinstance(spec, _TWO_KEYED) else (0,))
    strategy = getattr(spec, "strategy", None)
    if isinstance(strategy, WatermarkStrategy):
        return replace(spec, strategy=_without_watermarks(strategy))
    return spec


def _without_watermarks(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return WatermarkStrategy(timestamp_assigner=strategy.timestamp_assigner)


class FinalReduce(KeyedProcessFunction):
    """Combines all records of a key and gives the result when the input has ended."""

    def __init__(self, function: Any) -> None:
        refuse_operator_state(function, "a reduction in BATCH mode")
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        open_function(self._function, runtime_context)
        self._reduce = as_reduce(self._function)
        self._state = runtime_context.get_state(ValueStateDescriptor("reduced in BATCH mode"))

    def close(self) -> None:
        close_function(self._function)

    def process_element(self, value: Any, ctx: Any) -> None:
        held = self._state.value()
        if held is None:
            ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
            self._state.update(value)
        else:
            self._state.update(self._reduce(held, value))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [self._state.value()]
