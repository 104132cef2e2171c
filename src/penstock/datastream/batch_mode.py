"""`RuntimeExecutionMode.BATCH`: the results of bounded input, without what led to them.

Every program runs as a stream. BATCH differs in what can be seen of it: rolling reductions give
one result per key, at the end, and event time does not advance before the end, so that no record is
late. Both are said with the operators that exist; nothing below knows of the mode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.source import Boundedness
from penstock.connectors.spark import SparkSource
from penstock.core.errors import ProgramError
from penstock.core.times import MAX_TIMESTAMP
from penstock.graph.nodes import Node, NodeKind
from penstock.operators.adapters import (
    as_reduce,
    close_function,
    open_function,
    refuse_operator_state,
)
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.functions import KeyedProcessFunction
from penstock.operators.process import KeyedProcessSpec
from penstock.operators.reduce import AggregationSpec, ReduceSpec, aggregation
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.state.descriptors import ValueStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.runtime_context import RuntimeContext

__all__ = ["in_batch_mode", "is_bounded"]


def is_bounded(nodes: dict[int, Node]) -> bool:
    """Whether all sources end."""
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


def _batch_spec(spec: Any) -> Any:
    if isinstance(spec, ConvertOutputSpec):
        return ConvertOutputSpec(_batch_spec(spec.inner), spec.type_info)
    if isinstance(spec, ReduceSpec):
        return KeyedProcessSpec(FinalReduce(spec.function))
    if isinstance(spec, AggregationSpec):
        return KeyedProcessSpec(FinalReduce(aggregation(spec.kind, spec.position)))
    if isinstance(spec, TimestampsAndWatermarksSpec):
        return TimestampsAndWatermarksSpec(_without_watermarks(spec.strategy))
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
