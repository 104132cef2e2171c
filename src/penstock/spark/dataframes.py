"""DataFrames as sources: a bounded one is written once, a streaming one batch by batch.

Either way the rows become Parquet files in the job's scratch directory, which are then read as any
file source: in ranges, from positions, and the same again after a failure.

A streaming DataFrame keeps its own query, so Spark's offsets, triggers and listeners work as usual.
Its next batch is taken once the job has read the one before: the job's pace is the query's pace.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.formats import BulkFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Boundedness, Discovery, Source, SourceReader
from penstock.connectors.spark_source import SparkSource, materialise
from penstock.core.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.core.columns import ColumnName
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.runtime.source_progress import SourceProgress

_ENDED: Final = "_ENDED"
_FAILED: Final = "_FAILED"
_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class BatchFiles(Source):
    """Reads the batches that a streaming query leaves in a directory.

    Attributes:
        directory: Where they appear, one directory a batch.
        files: Reads what is in there.
    """

    directory: str
    files: FileSource

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def discover(self, state: Any, now_ms: int) -> Discovery:
        root = Path(self.directory)
        failure = root / _FAILED
        if failure.exists():
            raise JobExecutionError(
                f"the streaming DataFrame of from_spark() failed: {failure.read_text()}"
            )
        # Asked before the files are listed: a batch written in between must not be missed.
        ended = (root / _ENDED).exists()
        found = self.files.discover(state, now_ms)
        return replace(found, complete=ended)

    def create_reader(self) -> SourceReader:
        return self.files.create_reader()

    def with_columns(self, columns: tuple[ColumnName, ...]) -> Source:
        files = self.files.with_columns(columns)
        assert isinstance(files, FileSource)
        return replace(self, files=files)

    def default_name(self) -> str:
        return "Streaming DataFrame"


class StreamingFeed:
    """The query behind one streaming DataFrame."""

    def __init__(self, df: DataFrame, directory: Path) -> None:
        self._df = df
        self._directory = directory
        self._query: StreamingQuery | None = None
        self._stopped = threading.Event()
        (directory / "batches").mkdir(parents=True)
        records = BulkFormat.parquet_format(columns=list(df.columns), records="row")
        files = FileSource.for_bulk_file_format(records, str(directory / "batches"))
        self.source = BatchFiles(str(directory / "batches"), files.monitor_continuously(1).build())

    def start(self, progress: Callable[[], SourceProgress]) -> None:
        """Starts the query.

        Args:
            progress: Tells how far the job has read.
        """

        def take(batch: DataFrame, batch_id: int) -> None:
            target = self._directory / "batches" / f"batch-{batch_id:012d}"
            batch.write.mode("overwrite").parquet(str(target))
            while not self._stopped.wait(_POLL_S):
                now = progress()
                if not now.waiting and not any(now.assigned.values()):
                    return

        writer = self._df.writeStream.foreachBatch(take).option(
            "checkpointLocation", str(self._directory / "offsets")
        )
        self._query = writer.start()
        threading.Thread(target=self._watch, name="penstock-feed", daemon=True).start()

    def _watch(self) -> None:
        assert self._query is not None
        marker, text = _ENDED, ""
        try:
            self._query.awaitTermination()
        except Exception as error:
            marker, text = _FAILED, str(error)
        if not self._stopped.is_set():
            (self._directory / "batches" / marker).write_text(text)

    def stop(self) -> None:
        """Ends the query; a batch that is being taken is let go."""
        self._stopped.set()
        if self._query is not None and self._query.isActive:
            self._query.stop()


def with_dataframes_as_files(
    graph: JobGraph, scratch_directory: str
) -> tuple[JobGraph, dict[str, StreamingFeed]]:
    """Replaces `SparkSource`s by sources of files.

    Returns:
        The graph, and the feeds to start, by uid.
    """
    feeds: dict[str, StreamingFeed] = {}

    def converted(stage: Stage) -> Stage:
        head = stage.operators[0]
        if not stage.is_source or not isinstance(head.spec.source, SparkSource):
            return stage
        given = head.spec.source
        source: Source
        if given.is_streaming:
            feed = feeds[head.uid] = StreamingFeed(
                given.df, Path(scratch_directory) / f"stream-{head.node_id}"
            )
            source = feed.source
        else:
            source = materialise(given.df, scratch_directory, head.uid)
        spec = replace(head.spec, source=source)
        return replace(stage, operators=(replace(head, spec=spec), *stage.operators[1:]))

    return replace(graph, stages=tuple(converted(stage) for stage in graph.stages)), feeds
