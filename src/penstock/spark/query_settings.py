"""Settings of the queries behind streaming DataFrames."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
