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
from penstock.core.errors import JobExecutionError, UnsupportedError

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
        self._progress: Callable[[], SourceProgress] | None = None
        self._stopped = threading.Event()
        (directory / "batches").mkdir(parents=True)
        records = BulkFormat.parquet_format(columns=list(df.columns), records="row")
        files = FileSource.for_bulk_file_format(records, str(directory / "batches"))
        self.source = BatchFiles(str(directory / "batches"), files.monitor_continuously(1).build())

    def check_restored(self, uid: str, progress: SourceProgress) -> None:
        """Refuses a snapshot in which the DataFrame was read already.

        Raises:
            UnsupportedError: It was; its query would begin anew, and records would come twice.
        """
        if progress.state is not None:
            raise UnsupportedError(
                f"the snapshot does not hold the offsets of the streaming DataFrame of source "
                f"'{uid}', so its records would come again from the beginning. Read with a source "
                "whose offsets it holds, such as FileSource; or begin this source anew: give it "
                "another uid and set execution.state-recovery.ignore-unclaimed-state: true."
            )

    def start(self, progress: Callable[[], SourceProgress]) -> None:
        """Starts the query, unless it runs: then it goes on, and what it left is read again.

        Args:
            progress: Tells how far this attempt of the job has read.
        """
        self._progress = progress
        if self._query is not None and self._query.isActive:
            return
        # A query that has failed gets another try with each attempt of the job.
        (self._directory / "batches" / _FAILED).unlink(missing_ok=True)

        def take(batch: DataFrame, batch_id: int) -> None:
            target = self._directory / "batches" / f"batch-{batch_id:012d}"
            # Spark gives a batch again whose end it did not note; the job may have read it already.
            if not (target / "_SUCCESS").exists():
                batch.write.mode("overwrite").parquet(str(target))
            while not self._stopped.wait(_POLL_S):
                assert self._progress is not None
                now = self._progress()
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
