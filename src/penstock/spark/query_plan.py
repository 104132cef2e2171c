"""What Spark's plan of a query says: what it reads, and whether it keeps state between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEFUL: Final = frozenset(
    {
        *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", "TransformWithStateInPySpark"),
    }
)


def partitions_of(df: DataFrame) -> int:
    """Returns the number of partitions of a DataFrame, without computing it."""
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())


def streaming_sources(plan: Any) -> list[str]:
    """Returns what a query reads that streams, in Spark's order."""
    leaves = [plan.collectLeaves().apply(at) for at in range(plan.collectLeaves().size())]
    return [
        leaf.sourceName() if leaf.nodeName().startswith("StreamingRelation") else leaf.nodeName()
        for leaf in leaves
        if leaf.isStreaming()
    ]


def stateful_part(plan: Any) -> str:
    """Returns the part of a query for which Spark keeps state between batches; "" if none."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    joins = plan.nodeName() == "Join" and all(child.isStreaming() for child in children)
    if plan.isStreaming() and (joins or plan.nodeName() in _STATEFUL):
        return str(plan.nodeName())
    return next(filter(None, map(stateful_part, children)), "")
