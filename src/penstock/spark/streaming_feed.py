"""The query behind a streaming DataFrame: gives the job its batches, goes on from snapshots.

The query runs one batch ahead. While the job reads batch n, Spark plans and writes batch n+1, which
the job discovers once it has read n. What the job has of the source, and so what every snapshot
has, is the batch that it reads and the part of Spark's log that leads there (`streaming_log`).

Each attempt of the job starts the query anew on that log. Spark then gives batch n again: it is
written again if the job had not read all of it, and passed over otherwise.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import Discovery
from penstock.core.errors import JobExecutionError, UnsupportedError
from penstock.spark import streaming_log
from penstock.spark.batch_files import (
    SMALL_BYTES,
    SMALL_ROWS,
    BatchFiles,
    comes_as_arrow,
    row_format,
    write_batch,
)
from penstock.spark.query_plan import partitions_of, stateful_part, streaming_sources
from penstock.spark.query_settings import leaf_partitions, settings_of_a_feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connectors.source import Split
    from penstock.runtime.source_progress import SourceProgress

_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Offered:
    """A batch that the job may read."""

    splits: tuple[Split, ...]
    state: dict[str, Any]  # What snapshots hold from then on.


class StreamingFeed:
    """One streaming DataFrame of a job.

    Args:
        df: The DataFrame.
        directory: Where its batches and Spark's log go.
        uid: Of the source.
        parallelism: Of the source.
    """

    def __init__(self, df: DataFrame, directory: Path, uid: str, parallelism: int) -> None:
        self._df = df
        self._directory = directory
        self.uid = uid
        self._parallelism = parallelism
        self._comes_as_arrow = comes_as_arrow(df)
        plan = df._jdf.queryExecution().analyzed()
        self._sources = streaming_sources(plan)
        self.stateful_part = stateful_part(plan)
        self._leaf_partitions = 0
        self._first: dict[str, Any] | None = None
        """After the first batch: a job that restarts from nothing begins with the same one."""
        self._run: _Run | None = None
        batches = str(directory / "batches")
        self.source = BatchFiles(
            batches, row_format(df), is_bounded=False, discovers=self._discover
        )

    def check_restored(self, progress: SourceProgress) -> None:
        """Refuses a snapshot from which this DataFrame cannot go on.

        Raises:
            UnsupportedError: It is of another source, or of a query with state of Spark's own.
        """
        state = progress.state
        if state is None:
            return
        anew = (
            "To begin this source anew, give it another uid and set "
            "execution.state-recovery.ignore-unclaimed-state: true."
        )
        if "log" not in state:
            raise UnsupportedError(
                f"the snapshot has no offsets of a streaming DataFrame for source '{self.uid}': "
                f"another kind of source had this uid. {anew}"
            )
        part = state["stateful"] or self.stateful_part
        if part:
            raise UnsupportedError(
                f"the streaming DataFrame of source '{self.uid}' keeps state in Spark ({part}), "
                f"which snapshots do not hold. {anew}"
            )
        if state["sources"] != self._sources:
            raise UnsupportedError(
                f"the streaming DataFrame of source '{self.uid}' reads {_listed(self._sources)}, "
                f"but the snapshot has offsets of {_listed(state['sources'])}. Start with a "
                f"DataFrame that reads the same, in the same order. {anew}"
            )

    def start(self, progress: Callable[[], SourceProgress], cancelled: threading.Event) -> None:
        """Starts the query where this attempt of the job is.

        Args:
            progress: Tells how far the attempt has read.
            cancelled: Set when nobody waits for the job any more.
        """
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
        now = progress()
        start = now.state or self._first
        log = self._directory / "log"
        if start is not None:
            streaming_log.restore(log, start["log"])
        if now.complete and not now.is_unread:
            return
        if start is not None:
            self._leaf_partitions = start["leaf_partitions"]
        elif not self._leaf_partitions:
            self._leaf_partitions = leaf_partitions(self._df.sparkSession)
        run = self._run = _Run(self, now)
        run.start(self._df, log, self._leaf_partitions)
        if now.is_unread:
            # Subtasks will look for the files at once.
            run.wait_written(cancelled)

    def stop(self) -> None:
        """Ends the query; a batch that is being taken is let go."""
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _discover(self, state: Any) -> Discovery:
        """Runs in the driver's thread, between epochs."""
        if self._run is None:
            return Discovery((), state)
        offered, has_ended = self._run.next_batch()
        if offered is None:
            return Discovery((), state, complete=has_ended)
        if state is None:
            self._first = offered.state
        else:
            shutil.rmtree(Path(self.source.directory, _name(state["batch"])), ignore_errors=True)
        return Discovery(offered.splits, offered.state)

    # -- called by Spark's thread -----------------------------------------------------------------

    def offered(self, df: DataFrame, batch: int, before: dict[str, Any] | None) -> _Offered:
        """Writes a batch that the job has not seen yet."""
        small = (
            before is not None
            and sum(before["rows"]) <= SMALL_ROWS
            and before["size_bytes"] <= SMALL_BYTES
        )
        parts = self._parallelism if small and self._comes_as_arrow else 0
        written = write_batch(df, self.source.directory, _name(batch), parts=parts)
        known = {} if before is None else before["log"]
        state = {
            "batch": batch,
            "log": streaming_log.captured(self._directory / "log", batch, known),
            "sources": self._sources,
            "stateful": self.stateful_part,
            "rows": list(written.rows),
            "group_rows": written.group_rows,
            "size_bytes": written.size_bytes,
            "partitions": partitions_of(df),
            "leaf_partitions": self._leaf_partitions,
        }
        return _Offered(written.splits, state)

    def write_again(self, df: DataFrame, state: dict[str, Any]) -> None:
        """Writes a batch that the job had not read to its end.

        Raises:
            JobExecutionError: It is another one now, so positions in it mean nothing.
        """
        batch = state["batch"]
        written = write_batch(
            df, self.source.directory, _name(batch), group_rows=state["group_rows"]
        )
        found = list(written.rows), written.group_rows, partitions_of(df)
        if found != (state["rows"], state["group_rows"], state["partitions"]):
            raise JobExecutionError(
                f"the snapshot was taken inside batch {batch}, which had {sum(state['rows']):,} "
                f"rows in {state['partitions']} partitions and now has {sum(found[0]):,} in "
                f"{found[2]}, or lies in them otherwise, so it cannot be read on. Start with the "
                "query, the input and the Spark settings that the snapshot was taken with."
            )


class _Run:
    """The query of one attempt. Spark's thread and the driver's meet here."""

    def __init__(self, feed: StreamingFeed, progress: SourceProgress) -> None:
        self._feed = feed
        self._restored: dict[str, Any] | None = progress.state
        self._is_unread = progress.is_unread
        self._before = self._restored
        self._changed = threading.Condition()
        self._next: _Offered | None = None
        self._is_written = False
        self._is_stopped = False
        self._failure = ""
        self._has_ended = False
        self._query: Any = None
        self._watcher = threading.Thread(target=self._watch, name="penstock-feed", daemon=True)

    def start(self, df: DataFrame, log: Path, partitions: int) -> None:
        with settings_of_a_feed(df.sparkSession, partitions):
            writer = df.writeStream.foreachBatch(self._take)
            self._query = writer.option("checkpointLocation", str(log)).start()
        self._watcher.start()

    def next_batch(self) -> tuple[_Offered | None, bool]:
        """Returns the batch that was written ahead, if any, and whether none will follow.

        Spark writes the next one from here on.
        """
        with self._changed:
            self._check()
            found, self._next = self._next, None
            self._changed.notify_all()
            return found, self._has_ended

    def wait_written(self, cancelled: threading.Event) -> None:
        """Waits until the batch that the job reads has been written again."""
        with self._changed:
            while not self._is_written and not cancelled.is_set():
                self._check()
                self._changed.wait(_POLL_S)

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()
            self._watcher.join()

    def _check(self) -> None:
        if self._failure:
            raise JobExecutionError(
                f"the streaming DataFrame of source '{self._feed.uid}' failed: {self._failure}"
            )

    def _take(self, df: DataFrame, batch: int) -> None:
        try:
            if self._restored is not None and batch <= self._restored["batch"]:
                if self._is_unread:
                    self._feed.write_again(df, self._restored)
                with self._changed:
                    self._is_written = True
                    self._changed.notify_all()
                return
            offered = self._feed.offered(df, batch, self._before)
        except Exception as error:
            # Who stops a query, through Spark perhaps, cancels the batch: that ends it, no more.
            was_stopped = self._query is not None and not self._query.isActive
            with self._changed:
                if self._is_stopped or was_stopped:
                    return
                # What Spark would make of it is long, and about the callback.
                self._failure = str(error)
                self._changed.notify_all()
            raise RuntimeError("the batch could not be taken") from None
        self._before = offered.state
        with self._changed:
            self._next = offered
            while self._next is offered and not self._is_stopped:
                self._changed.wait()

    def _watch(self) -> None:
        failure = ""
        try:
            self._query.awaitTermination()
        except Exception as error:
            failure = str(error)
        with self._changed:
            self._has_ended = True
            self._failure = self._failure or failure
            self._changed.notify_all()


def _name(batch: int) -> str:
    return f"batch-{batch:012d}"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "nothing"
