"""The query behind a streaming DataFrame: gives the job its batches, goes on from snapshots.

The query runs one batch ahead. While the job reads batch n, Spark plans and writes batch n+1, which
the job discovers once it has read n. What the job has of the source, and so what every snapshot
has, is the batch that it reads and the part of Spark's log that leads there.

Each attempt of the job starts a new query on that log. Spark then gives batch n again: it is
written again if the job had not read all of it, and passed over otherwise.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import Discovery, Split
from penstock.core.errors import JobExecutionError, UnsupportedError
from penstock.spark.batch_files import (
    SMALL_BYTES,
    SMALL_ROWS,
    BatchFiles,
    comes_as_arrow,
    row_format,
    write_batch,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.runtime.job_state import SourceProgress

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


_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LEAF_PARTITIONS: Final = "spark.sql.leafNodeDefaultParallelism"
_LOCK: Final = threading.Lock()


def leaf_partitions(spark: SparkSession) -> int:
    """Returns into how many partitions sources cut their input unless they have a reason."""
    return int(spark.conf.get(_LEAF_PARTITIONS, None) or spark.sparkContext.defaultParallelism)


def _file_manager(spark: SparkSession) -> str:
    """Returns the class under the name that this Spark has for it; "" for another name."""
    assert spark._jvm is not None
    try:
        spark._jvm.java.lang.Class.forName(_FILE_MANAGER)
    except Exception:
        return ""
    return _FILE_MANAGER


@contextmanager
def settings_of_a_feed(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Settings for a query that is started meanwhile; it keeps a copy of them.

    Its log is ours to throw away: Spark keeps no old entries, and writes them in the way that needs
    fewer processes. Sources cut a batch that comes again as they did the first time.
    """
    settings = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
        "spark.sql.streaming.checkpointFileManagerClass": _file_manager(spark),
        _LEAF_PARTITIONS: str(partitions),
    }
    with _LOCK:
        before = {key: spark.conf.get(key, None) for key in settings}
        try:
            for key, value in settings.items():
                if value:
                    spark.conf.set(key, value)
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)


# Spark's log of a streaming query as plain data: what a query needs to go on at one batch.
#
# `offsets/n` says where batch n ends, `commits/n` that it was taken, `sources/i` holds what a
# source notes beside its offsets, such as the files it has listed. A query that is started on the
# files returned here gives batch n again, as it was, and then goes on.

SOURCES: Final = "sources"
_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")


def captured_log(root: Path, batch: int, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files of a log from which a query goes on at a batch, by name.

    Args:
        root: The query's checkpoint location; the batch is being taken.
        batch: Number of the batch.
        before: What was captured at an earlier batch; files never change, so these are not read.
    """
    names = ["metadata", f"offsets/{batch}"]
    if batch:
        names += [f"offsets/{batch - 1}", f"commits/{batch - 1}"]
    for source in sorted((root / SOURCES).glob("*")):
        names += [f"{SOURCES}/{source.name}/{name}" for name in _needed(_visible(source))]
    return {name: before.get(name) or (root / name).read_bytes() for name in names}


def restore_log(root: Path, log: Mapping[str, bytes]) -> None:
    """Writes a log where there is none."""
    for name, content in log.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _visible(directory: Path) -> Iterator[str]:
    """Returns names of files below a directory, but for checksums and what is being written."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()


def _needed(names: Iterable[str]) -> list[str]:
    """Leaves out what the newest compacted entry of a log of files contains."""
    entries = {name: _ENTRY.fullmatch(name) for name in names}
    compacted = max(
        (int(entry[1]) for entry in entries.values() if entry and entry[2]), default=None
    )
    if compacted is None:
        return list(entries)
    return [
        name
        for name, entry in entries.items()
        if entry is None or int(entry[1]) > compacted or name == f"{compacted}.compact"
    ]


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
        advice = (
            "To begin this source again, give it another uid and set "
            "execution.state-recovery.ignore-unclaimed-state: true."
        )
        if "log" not in state:
            raise UnsupportedError(
                f"the snapshot has no offsets of a streaming DataFrame for source '{self.uid}': "
                f"another kind of source had this uid. {advice}"
            )
        part = state["stateful"] or self.stateful_part
        if part:
            raise UnsupportedError(
                f"the streaming DataFrame of source '{self.uid}' keeps state in Spark ({part}), "
                f"which snapshots do not hold. {advice}"
            )
        if state["sources"] != self._sources:
            raise UnsupportedError(
                f"the streaming DataFrame of source '{self.uid}' reads {_listed(self._sources)}, "
                f"but the snapshot has offsets of {_listed(state['sources'])}. Start with a "
                f"DataFrame that reads the same, in the same order. {advice}"
            )

    def start(self, progress: Callable[[], SourceProgress], cancelled: threading.Event) -> None:
        """Starts the query where this attempt of the job is.

        Args:
            progress: Tells how far the attempt has read.
            cancelled: Set when the job no longer waits.
        """
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
        now = progress()
        start = now.state or self._first
        log = self._directory / "log"
        if start is not None:
            restore_log(log, start["log"])
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
            "log": captured_log(self._directory / "log", batch, known),
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
