"""DataFrames as sources: a bounded one is written once, a streaming one batch by batch.

Either way the rows become Parquet files in the job's scratch directory, which subtasks read from
positions: from the same files after a failure, from files written again in another job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.source import Discovery
from penstock.connectors.spark import SparkSource
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.spark.batch_files import BatchFiles, row_format, write_batch
from penstock.spark.processes import is_alive
from penstock.spark.streaming_feed import StreamingFeed

if TYPE_CHECKING:
    import threading

    from pyspark.sql import DataFrame

    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.runtime.job_state import SourceProgress


class BoundedRows:
    """One bounded DataFrame of a job: all of its rows, written when the job starts."""

    def __init__(self, df: DataFrame, directory: Path, uid: str) -> None:
        records = row_format(df)
        self._uid = uid
        self._written = write_batch(df, str(directory), "rows")
        self.source = BatchFiles(str(directory), records, is_bounded=True, discovers=self._discover)

    def _discover(self, state: Any) -> Discovery:
        splits = self._written.splits if state is None else ()
        return Discovery(splits, {"rows": list(self._written.rows)}, complete=True)

    def check_restored(self, progress: SourceProgress) -> None:
        """Refuses a snapshot whose positions mean nothing here.

        Raises:
            UnsupportedError: There are rows to read, but others than when it was taken.
        """
        if progress.is_unread and progress.state.get("rows") != list(self._written.rows):
            raise UnsupportedError(
                f"the snapshot was taken inside the DataFrame of source '{self._uid}', which now "
                f"has {sum(self._written.rows):,} rows, or lies in other partitions, so it cannot "
                "be read on. Start with the query, the input and the Spark settings that the "
                "snapshot was taken with; or give the source another uid, which reads it from the "
                "beginning, and set execution.state-recovery.ignore-unclaimed-state: true."
            )

    def start(self, progress: Callable[[], SourceProgress], cancelled: threading.Event) -> None:
        """There is nothing to start: what was written stays for all attempts."""

    def stop(self) -> None:
        """There is nothing to end."""


def check_session(df: DataFrame, uid: str) -> None:
    """Refuses a DataFrame whose session was stopped, or whose JVM has died."""
    if not is_alive(df.sparkSession.sparkContext):
        raise ProgramError(
            f"the DataFrame of source '{uid}' belongs to a Spark session that is over. Make it "
            "again with the session that runs now, SparkSession.builder.getOrCreate()."
        )


def with_dataframes_as_files(
    graph: JobGraph, scratch_directory: str, *, takes_checkpoints: bool
) -> tuple[JobGraph, dict[str, BoundedRows | StreamingFeed]]:
    """Replaces `SparkSource`s by sources of files.

    Returns:
        The graph, and the feeds to start, by uid.

    Raises:
        UnsupportedError: Checkpoints are wanted of a query that keeps state in Spark.
        ProgramError: The session of a DataFrame is over.
    """
    feeds: dict[str, BoundedRows | StreamingFeed] = {}

    def feed_of(df: DataFrame, uid: str, stage: Stage) -> BoundedRows | StreamingFeed:
        directory = Path(scratch_directory) / f"source-{stage.stage_id}"
        check_session(df, uid)
        if not df.isStreaming:
            return BoundedRows(df, directory, uid)
        feed = StreamingFeed(df, directory, uid, stage.parallelism)
        if takes_checkpoints and feed.stateful_part:
            raise UnsupportedError(
                f"the streaming DataFrame of source '{uid}' keeps state in Spark "
                f"({feed.stateful_part}), which checkpoints do not hold. Do that part with "
                "Penstock's keyed streams and windows, or run the job without checkpoints."
            )
        return feed

    def converted(stage: Stage) -> Stage:
        head = stage.operators[0]
        if not stage.is_source or not isinstance(head.spec.source, SparkSource):
            return stage
        feed = feeds[head.uid] = feed_of(head.spec.source.df, head.uid, stage)
        spec = replace(head.spec, source=feed.source)
        return replace(stage, operators=(replace(head, spec=spec), *stage.operators[1:]))

    return replace(graph, stages=tuple(converted(stage) for stage in graph.stages)), feeds
