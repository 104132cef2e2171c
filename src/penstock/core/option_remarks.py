"""What old, unknown and ineffective settings mean, and what to tell the user who wrote them."""

from __future__ import annotations

import difflib
from typing import Final

from penstock.core.options import DEPRECATED, OPTIONS, canonical_key

FREE_PREFIXES: Final = ("penstock.spark.conf.",)
"""Below these any key may be set."""

_CP: Final = "execution.checkpointing."
_ALWAYS_LOCAL: Final = "recovery always uses what is still on local disk, below io.tmp.dirs"
_EXECUTORS: Final = "Spark runs the executors; set "
WITHOUT_EFFECT: Final = {
    "taskmanager.numberOfTaskSlots": _EXECUTORS + "spark.executor.cores instead",
    "taskmanager.data.port": _EXECUTORS + "spark.blockManager.port instead",
    "blob.server.port": _EXECUTORS + "spark.driver.blockManager.port instead",
    "blob.storage.directory": _EXECUTORS + "spark.local.dir instead",
    "jobmanager.heap.mb": "Flink dropped it too; set spark.driver.memory instead",
    "taskmanager.heap.mb": "Flink dropped it too; set spark.executor.memory instead",
    "taskmanager.memory.preallocate": "Flink dropped it too",
    "fs.hdfs.hadoopconf": "Flink dropped it too; set HADOOP_CONF_DIR instead",
    "execution.attached": "execute() waits for the job, execute_async() does not",
    "execution.shutdown-on-attached-exit": "give -sae to penstock run",
    _CP + "write-buffer-size": "Penstock chooses how much it writes at once",
    _CP + "cleaner.parallel-mode": "Penstock chooses how many files it deletes at once",
    _CP + "local-backup.enabled": _ALWAYS_LOCAL,
    _CP + "local-backup.dirs": _ALWAYS_LOCAL,
    "execution.state-recovery.from-local": _ALWAYS_LOCAL,
    "state.backend.rocksdb.checkpoint.transfer.thread.num": (
        "Penstock chooses how many files travel at once"
    ),
    "penstock.checkpoint.max-state-size": (
        "the memory of the process is the bound of what `JobManagerCheckpointStorage` keeps"
    ),
    "pipeline.auto-watermark-interval": (
        "watermarks follow every batch of records; generators of your own are asked once per epoch"
    ),
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": (
        "operators are chained when no record has to travel between them"
    ),
    "task.cancellation.interval": "a cancelled job is interrupted at once, and again until it ends",
    "heartbeat.interval": _EXECUTORS + "spark.executor.heartbeatInterval instead",
    "heartbeat.timeout": _EXECUTORS + "spark.network.timeout instead",
    "web.exception-history-size": "the last 16 failures are kept",
    "jobmanager.archive.fs.dir": "ended jobs are kept in penstock.jobmanager.directory",
}
"""Known keys that change nothing, with what to do instead."""

WITHOUT_EFFECT_PREFIXES: Final = {
    "metrics.reporter.": "metrics are at /metrics of the REST port, for Prometheus",
    "taskmanager.": "Spark has executors and no task managers; see spark.executor.*",
    "jobmanager.": "a job manager is a Python process with a Spark driver; see spark.driver.*",
    "python.fn-execution.": "Python runs in Spark's workers, a batch at a time",
    "state.backend.rocksdb.": "RocksDB is tuned by Penstock itself",
    "slot.": "Spark has no slots",
    "cluster.": "Spark schedules the executors",
    "akka.": "there is no actor system",
    "pekko.": "there is no actor system",
    "env.": "the environment is Spark's; see spark.executorEnv.*",
    "table.": "there is no Table API; use Spark SQL",
    "pipeline.": "Penstock has no use for it",
    "fs.": "file systems are configured through Spark's Hadoop settings",
    "security.": "security is Spark's; see spark.authenticate and spark.network.crypto.*",
    "yarn.": "set penstock.spark.master to yarn",
    "kubernetes.": "set penstock.spark.master to a k8s:// address",
}
"""Families of Flink's keys that change nothing."""

_BACKENDS: Final = {
    "jobmanager": ("hashmap", "jobmanager"),
    "memory": ("hashmap", "jobmanager"),
    "filesystem": ("hashmap", "filesystem"),
}
_RESTART_ALIASES: Final = {
    **dict.fromkeys(("none", "off", "no"), "disable"),
    "fixeddelay": "fixed-delay",
    "failurerate": "failure-rate",
    "exponentialdelay": "exponential-delay",
}


def translate(key: str, value: str) -> dict[str, str]:
    """Returns what a pair of key and value means with today's names and values."""
    option = DEPRECATED.get(key)
    key = option.key if option else key
    if key == "state.backend.type" and value.lower() in _BACKENDS:
        backend, storage = _BACKENDS[value.lower()]
        return {key: backend, "execution.checkpointing.storage": storage}
    if key == "restart-strategy.type":
        value = _RESTART_ALIASES.get(value.lower(), value)
        value = value.removesuffix("-restart-strategy").replace("_", "-")
    if key == "high-availability.type" and value.lower() in ("standalone", "off"):
        value = "NONE"
    return {key: value}


def remark(key: str) -> str | None:
    """Returns what a user should know who set this key, or None when all is well."""
    option = OPTIONS.get(key)
    if option is not None:
        note = option.note or WITHOUT_EFFECT.get(key)
        return f"has no effect: {note}." if note else None
    if key.startswith(FREE_PREFIXES):
        return None
    reason = WITHOUT_EFFECT.get(key) or next(
        (text for prefix, text in WITHOUT_EFFECT_PREFIXES.items() if key.startswith(prefix)), None
    )
    near = difflib.get_close_matches(key, [*OPTIONS, *DEPRECATED], n=1, cutoff=0.8)
    hint = f" Did you mean '{canonical_key(near[0])}'?" if near else ""
    if reason is not None:
        return f"has no effect: {reason}.{hint}"
    return f"is unknown and has no effect.{hint}"
