"""DataFrames as sources: a bounded one is written once, a streaming one batch by batch.

Either way the rows become Parquet files in the job's scratch directory, which are then read as any
file source: in ranges, from positions, and the same again after a failure.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connectors.spark_source import SparkSource, materialise
from penstock.core.errors import UnsupportedError
from penstock.spark.streaming_feed import StreamingFeed

if TYPE_CHECKING:
    from penstock.connectors.source import Source
    from penstock.graph.job_graph import JobGraph, Stage


def with_dataframes_as_files(
    graph: JobGraph, scratch_directory: str, *, takes_checkpoints: bool
) -> tuple[JobGraph, dict[str, StreamingFeed]]:
    """Replaces `SparkSource`s by sources of files.

    Returns:
        The graph, and the feeds to start, by uid.

    Raises:
        UnsupportedError: Checkpoints are wanted of a query that keeps state in Spark.
    """
    feeds: dict[str, StreamingFeed] = {}

    def converted(stage: Stage) -> Stage:
        head = stage.operators[0]
        if not stage.is_source or not isinstance(head.spec.source, SparkSource):
            return stage
        given = head.spec.source
        source: Source
        if given.is_streaming:
            directory = Path(scratch_directory) / f"stream-{head.node_id}"
            feed = StreamingFeed(given.df, directory, head.uid, stage.parallelism)
            if takes_checkpoints and feed.stateful_part:
                raise UnsupportedError(
                    f"the streaming DataFrame of source '{head.uid}' keeps state in Spark "
                    f"({feed.stateful_part}), which checkpoints do not hold. Do that part with "
                    "Penstock's keyed streams and windows, or run the job without checkpoints."
                )
            feeds[head.uid] = feed
            source = feed.source
        else:
            source = materialise(given.df, scratch_directory, head.uid)
        spec = replace(head.spec, source=source)
        return replace(stage, operators=(replace(head, spec=spec), *stage.operators[1:]))

    return replace(graph, stages=tuple(converted(stage) for stage in graph.stages)), feeds
