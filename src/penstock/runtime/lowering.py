"""Lowering: window aggregates over columns, without Python per record (decision 0004).

A window operator is lowered when the program says enough about everything before it:

    source with columns -> timestamps of a column -> key_by fields -> windows -> built-in aggregate

The stages stay as they are. The source gives columns, the exchange aggregates before it sends, and
the window operator takes partial aggregates. Uids, names and the layout of state do not change, so
a snapshot of either form restores in the other.

`CONDITIONS` is the table of what a window operator must be; a pure function tells what was lowered
and, for every other window operator, why not.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.records import ColumnName, NotColumnar
from penstock.graph.job_graph import ChainedOperator, Edge, JobGraph, Stage, compile_graph
from penstock.graph.nodes import Input, KeyGroups, Node, NodeKind, PartialAggregates, StreamGraph
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.watermark_strategy import TimestampColumn, WatermarkStrategy
from penstock.operators.windows.aggregates import LOWERABLE, RowAggregate, singles_of
from penstock.operators.windows.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.windows.contents import AggregateContents
from penstock.operators.windows.partials import PartialAggregation, PartialWindowSpec
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import EventTimeTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.connectors.sink import Sink
    from penstock.connectors.source import Source


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source and how event time is made of its records.

    Attributes:
        source: The source.
        strategy: Timestamps and watermarks, or None.
        reads_columns: Whether `Source.with_columns` made the source.
    """

    source: Source
    strategy: WatermarkStrategy | None = None
    reads_columns: bool = False


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink."""

    sink: Sink


def with_settings(graph: JobGraph, settings: Mapping[str, str]) -> JobGraph:
    """Gives sources and sinks the job's settings, and sources the number of their subtasks."""

    def of_stage(stage: Stage) -> Stage:
        operators = tuple(
            replace(operator, spec=given)
            if (given := of_spec(operator.spec, stage.parallelism)) is not operator.spec
            else operator
            for operator in stage.operators
        )
        return replace(stage, operators=operators)

    def of_spec(spec: Any, parallelism: int) -> Any:
        if isinstance(spec, SourceSpec):
            source = spec.source.with_parallelism(parallelism).with_settings(settings)
            return replace(spec, source=source)
        if isinstance(spec, SinkSpec):
            return replace(spec, sink=spec.sink.with_settings(settings))
        return spec

    return replace(graph, stages=tuple(map(of_stage, graph.stages)))


def check_alignment(graph: JobGraph) -> None:
    """Refuses watermark alignment behind a source, where nothing can be paused.

    Raises:
        UnsupportedError: An operator of the program asks for it.
    """
    for stage in graph.stages:
        for operator in stage.operators[1:] if stage.is_source else stage.operators:
            strategy = getattr(operator.spec, "strategy", None)
            if getattr(strategy, "alignment", None) is not None:
                raise UnsupportedError(
                    f"'{operator.name}' uses with_watermark_alignment(), but only sources can wait "
                    "for each other. Give the strategy to from_source(source, strategy, name) "
                    "instead of assign_timestamps_and_watermarks(strategy)."
                )


MOST_PANES: Final = 64
"""Sliding windows that are cut finer than this leave nothing to aggregate before the exchange."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The result of lowering a job graph.

    Attributes:
        graph: The graph to run.
        remarks: By uid of each window operator: empty if it was lowered, else why not.
    """

    graph: JobGraph
    remarks: dict[str, str]


def _aggregates(window: WindowSpec) -> bool:
    contents = window.contents
    if not isinstance(contents, AggregateContents) or type(contents.function) not in LOWERABLE:
        return False
    function = contents.function
    parts = function.parts if isinstance(function, RowAggregate) else (function,)
    return all(type(part) in LOWERABLE for part in parts)


def _has_few_panes(window: WindowSpec) -> bool:
    assigner: Any = window.assigner
    gap = assigner.size < assigner.slide
    return not gap and assigner.slide // math.gcd(assigner.size, assigner.slide) <= MOST_PANES


CONDITIONS: Final[tuple[tuple[Callable[[WindowSpec], bool], str], ...]] = (
    (
        lambda window: type(window.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows),
        "windows are neither tumbling nor sliding in event time",
    ),
    (lambda window: not window.is_all, "window_all has no key"),
    (lambda window: type(window.used_trigger) is EventTimeTrigger, "it has a trigger of its own"),
    (lambda window: window.evictor is None, "it has an evictor"),
    (lambda window: window.allowed_lateness_ms == 0, "it allows lateness"),
    (lambda window: window.late_tag is None, "late records go to a side output"),
    (_aggregates, "what it computes is no built-in aggregate"),
    (_has_few_panes, "its windows have gaps, or share no longer pane"),
)
"""What a window operator must be, and what to say if it is not."""


def lower(graph: JobGraph) -> Lowered:
    """Lowers what can be lowered."""
    remarks: dict[str, str] = {}
    lowered: dict[int, WindowSpec] = {}
    for stage in graph.stages:
        head = stage.operators[0]
        window = _window_of(head.spec)
        if head.kind is NodeKind.OPERATOR and window is not None:
            remarks[head.uid] = _why_not(graph, stage, window)
            if not remarks[head.uid]:
                lowered[stage.stage_id] = window
    sources: dict[int, SourceSpec] = {}
    for stage in graph.stages:
        edges = [edge for edge in graph.outputs_of(stage) if edge.target_stage in lowered]
        if not stage.is_source or not edges:
            continue
        try:
            sources[stage.stage_id] = _with_columns(graph, stage, edges, lowered)
        except NotColumnar as error:
            for edge in edges:
                _give_up(graph, edge.target_stage, str(error), lowered, remarks)
    # A window operator takes either records or partials, so all of its sources must be lowered.
    for stage_id in list(lowered):
        senders = {edge.source_stage for edge in graph.inputs_of(graph.stages[stage_id])}
        if not senders <= set(sources):
            _give_up(graph, stage_id, "another of its sources has no columns", lowered, remarks)
    return Lowered(_rewritten(graph, lowered, sources), remarks)


def _window_of(spec: Any) -> WindowSpec | None:
    """Returns the window operator inside a spec, if it is one."""
    if isinstance(spec, ConvertOutputSpec):
        spec = spec.inner
    return spec if isinstance(spec, WindowSpec) else None


def _give_up(
    graph: JobGraph,
    stage_id: int,
    why: str,
    lowered: dict[int, WindowSpec],
    remarks: dict[str, str],
) -> None:
    if lowered.pop(stage_id, None) is not None:
        remarks[graph.stages[stage_id].operators[0].uid] = why


def _why_not(graph: JobGraph, stage: Stage, window: WindowSpec) -> str:
    for holds, remark in CONDITIONS:
        if not holds(window):
            return remark
    for edge in graph.inputs_of(stage):
        if not isinstance(edge.partitioning, KeyGroups) or not edge.partitioning.columns:
            return "its key is made by a function; key_by() takes names of fields"
        if edge.side_tag is not None:
            return "it reads a side output"
        remark = _source_remark(graph.stages[edge.source_stage])
        if remark:
            return remark
    return ""


def _source_remark(stage: Stage) -> str:
    """Says why the operators before the exchange are not a source with timestamps from a column."""
    operators = stage.operators
    if not stage.is_source or len(operators) > 2:
        return "there are other operators between the source and the window"
    if len(operators) == 2 and not isinstance(operators[1].spec, TimestampsAndWatermarksSpec):
        return f"'{operators[1].name}' reads records"
    strategy = _strategy(operators)
    if strategy is None or not isinstance(strategy.timestamp_assigner, TimestampColumn):
        return "timestamps come from a function; use with_timestamp_column()"
    if any(given and given.generator_factory for given in _strategies(operators)):
        return "watermarks come from a generator of the program's own"
    return ""


def _strategies(operators: tuple[ChainedOperator, ...]) -> list[WatermarkStrategy | None]:
    found = [operators[0].spec.strategy]
    return [*found, operators[1].spec.strategy] if len(operators) == 2 else found


def _strategy(operators: tuple[ChainedOperator, ...]) -> WatermarkStrategy | None:
    """Returns the strategy that gives records their last timestamp."""
    given = [strategy for strategy in _strategies(operators) if strategy is not None]
    with_time = [strategy for strategy in given if strategy.timestamp_assigner is not None]
    return with_time[-1] if with_time else None


def _with_columns(
    graph: JobGraph, stage: Stage, edges: list[Edge], lowered: dict[int, WindowSpec]
) -> SourceSpec:
    if len(edges) != len(graph.outputs_of(stage)):
        raise NotColumnar("other operators read the same source")
    if any(edge.source_operator != len(stage.operators) - 1 for edge in edges):
        raise NotColumnar("timestamps are assigned for other operators only")
    columns: dict[ColumnName, None] = {}
    for strategy in _strategies(stage.operators):
        if strategy is not None and strategy.timestamp_assigner is not None:
            if not isinstance(strategy.timestamp_assigner, TimestampColumn):
                raise NotColumnar("timestamps come from a function; use with_timestamp_column()")
            columns[strategy.timestamp_assigner.column] = None
    for edge in edges:
        assert isinstance(edge.partitioning, KeyGroups)
        columns |= dict.fromkeys(edge.partitioning.columns or ())
        contents = lowered[edge.target_stage].contents
        assert isinstance(contents, AggregateContents)
        for single in singles_of(contents.function):
            if hasattr(single, "column"):
                columns[single.column] = None
    spec: SourceSpec = stage.operators[0].spec
    if not hasattr(spec.source, "with_columns"):
        raise NotColumnar(f"{type(spec.source).__name__} has no columns")
    source = spec.source.with_columns(tuple(columns))
    return replace(spec, source=source, reads_columns=True)


def _rewritten(
    graph: JobGraph, lowered: dict[int, WindowSpec], sources: dict[int, SourceSpec]
) -> JobGraph:
    if not lowered:
        return graph
    used = {edge.source_stage for edge in graph.edges if edge.target_stage in lowered}

    def stage_of(stage: Stage) -> Stage:
        head, *rest = stage.operators
        if stage.stage_id in lowered:
            partial: Any = PartialWindowSpec(lowered[stage.stage_id])
            if isinstance(head.spec, ConvertOutputSpec):
                partial = replace(head.spec, inner=partial)
            head = replace(head, spec=partial)
        elif stage.stage_id in used:
            head = replace(head, spec=sources[stage.stage_id])
        return replace(stage, operators=(head, *rest))

    def edge_of(edge: Edge) -> Edge:
        window = lowered.get(edge.target_stage)
        if window is None:
            return edge
        keys, contents = edge.partitioning, window.contents
        assert isinstance(keys, KeyGroups)
        assert isinstance(contents, AggregateContents)
        aggregation = PartialAggregation(
            assigner=window.assigner,  # type: ignore[arg-type]
            function=contents.function,
            columns=keys.columns or (),
            selector=keys.selector,
            name=graph.stages[edge.target_stage].operators[0].name,
        )
        return replace(edge, partitioning=PartialAggregates(aggregation))

    return replace(
        graph,
        stages=tuple(stage_of(stage) for stage in graph.stages),
        edges=tuple(edge_of(edge) for edge in graph.edges),
    )


_PACTS = {
    NodeKind.SOURCE: "Data Source",
    NodeKind.OPERATOR: "Operator",
    NodeKind.SINK: "Data Sink",
}


def execution_plan(graph: StreamGraph) -> str:
    """Returns the plan as JSON text."""
    nodes = [_plan_node(node, graph) for node in graph.nodes.values()]
    remarks = _remarks(graph)
    for node in nodes:
        if node["id"] in remarks:
            node["columns"] = remarks[node["id"]]
    return json.dumps({"nodes": nodes}, indent=2)


def _remarks(graph: StreamGraph) -> dict[int, str]:
    """Returns which operators work on columns, and of other window operators why not."""
    try:
        compiled = compile_graph(graph)
    except ProgramError:
        return {}  # The plan of an unfinished program is still worth seeing.
    ids = {operator.uid: operator.node_id for operator in compiled.operators}
    lowered = lower(compiled)
    remarks = {
        ids[uid]: f"not lowered: {remark}" if remark else "lowered"
        for uid, remark in lowered.remarks.items()
    }
    for stage in lowered.graph.stages:
        if stage.is_source and stage.operators[0].spec.reads_columns:
            remarks |= {operator.node_id: "lowered" for operator in stage.operators}
    return remarks


def _plan_node(node: Node, graph: StreamGraph) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "id": node.node_id,
        "type": node.name,
        "pact": _PACTS[node.kind],
        "contents": node.description or node.name,
        "parallelism": node.parallelism or graph.parallelism if node.is_parallel else 1,
    }
    if node.uid is not None:
        plan["uid"] = node.uid
    if node.slot_sharing_group is not None:
        plan["slot_sharing_group"] = node.slot_sharing_group
    if node.inputs:
        plan["predecessors"] = [_plan_edge(given) for given in node.inputs]
    return plan


def _plan_edge(given: Input) -> dict[str, Any]:
    partitioning = given.partitioning
    strategy = "HASH" if isinstance(partitioning, KeyGroups) else type(partitioning).__name__
    edge: dict[str, Any] = {"id": given.node_id, "ship_strategy": strategy.upper()}
    edge["side"] = "second" if given.input_index else "first"
    if given.side_tag is not None:
        edge["side_output"] = given.side_tag
    return edge
