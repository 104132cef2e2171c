"""What source and sink nodes carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import UnsupportedError

if TYPE_CHECKING:
    from penstock.connectors.sink import Sink
    from penstock.connectors.source import Source
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.operators.watermark_strategy import WatermarkStrategy


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


def with_sources_cut(graph: JobGraph) -> JobGraph:
    """Tells every source how many subtasks will read it."""
    return replace(graph, stages=tuple(_with_source_cut(stage) for stage in graph.stages))


def _with_source_cut(stage: Stage) -> Stage:
    if not stage.is_source:
        return stage
    head = stage.operators[0]
    source = head.spec.source.with_parallelism(stage.parallelism)
    spec = replace(head.spec, source=source)
    return replace(stage, operators=(replace(head, spec=spec), *stage.operators[1:]))


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
