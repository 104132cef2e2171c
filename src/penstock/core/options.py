"""Every setting that exists: key, kind, default, old names, and what old or unknown ones mean.

Values are kept as text, as in a configuration file; `kind` says how they are read. What Flink has
and Penstock has not is listed too, with the reason, so that no known key is ignored in silence and
a misspelt one is found by its nearest match.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Final

KINDS: Final = (
    *("string", "integer", "float", "boolean", "duration", "size"),
    *("list", "files", "map", "enum"),
)


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    key: str  # Its name today.
    kind: str = "string"  # One of `KINDS`.
    default: str | None = None  # Text of the default, or None when there is none.
    deprecated: tuple[str, ...] = ()  # Old names, still read.
    # For enums, the values; they are compared without case, `-` and `_` being equal.
    choices: tuple[str, ...] = ()
    note: str = ""  # For settings that change nothing: why, and what to use instead.


_CP: Final = "execution.checkpointing."
_ALIGNED: Final = "the end of an epoch is an aligned barrier already; the setting changes nothing"
_ALWAYS_LOCAL: Final = "recovery always uses what is still on local disk, below io.tmp.dirs"
_EXECUTORS: Final = "Spark runs the executors; set "
_RECOVERY: Final = "execution.state-recovery."
_HA: Final = "high-availability."
_ZK: Final = "high-availability.zookeeper."
_RESTART: Final = "restart-strategy."
_ADAPTIVE: Final = "jobmanager.adaptive-scheduler."
_COOLDOWN: Final = "executing.cooldown-after-rescaling"
_STABLE: Final = "executing.resource-stabilization-timeout"

_CHECKPOINTING: Final = (
    Option(_CP + "interval", "duration"),
    Option(_CP + "mode", "enum", "EXACTLY_ONCE", choices=("EXACTLY_ONCE", "AT_LEAST_ONCE")),
    Option(_CP + "timeout", "duration", "10 min"),
    Option(_CP + "min-pause", "duration", "0 ms"),
    Option(_CP + "max-concurrent-checkpoints", "integer", "1"),
    Option(_CP + "tolerable-failed-checkpoints", "integer", "0"),
    Option(_CP + "num-retained", "integer", "1", ("state.checkpoints.num-retained",)),
    Option(
        _CP + "externalized-checkpoint-retention",
        "enum",
        "NO_EXTERNALIZED_CHECKPOINTS",
        choices=("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"),
    ),
    Option(
        _CP + "storage", "enum", None, ("state.checkpoint-storage",), ("jobmanager", "filesystem")
    ),
    Option(_CP + "dir", deprecated=("state.checkpoints.dir", "state.backend.fs.checkpointdir")),
    Option(
        _CP + "savepoint-dir",
        deprecated=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    ),
    Option(_CP + "create-subdir", "boolean", "true", ("state.checkpoints.create-subdir",)),
    Option(
        _CP + "data-inline-threshold",
        "size",
        "20 kb",
        ("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
    ),
    Option(_CP + "incremental", "boolean", "false", ("state.backend.incremental",)),
    Option(_CP + "interval-during-backlog", "duration"),
    Option(
        _CP + "checkpoints-after-tasks-finish",
        "boolean",
        "true",
        (_CP + "checkpoints-after-tasks-finish.enabled",),
    ),
)

_STATE: Final = (
    Option("state.backend.type", "enum", "hashmap", ("state.backend",), ("hashmap", "rocksdb")),
    Option("state.backend.rocksdb.localdir", deprecated=("state.backend.rocksdb.checkpointdir",)),
    Option("state.backend.rocksdb.memory.fixed-per-slot", "size"),
    Option(_RECOVERY + "path", deprecated=("execution.savepoint.path",)),
    Option(
        _RECOVERY + "ignore-unclaimed-state",
        "boolean",
        "false",
        ("execution.savepoint.ignore-unclaimed-state",),
    ),
    Option(
        _RECOVERY + "claim-mode",
        "enum",
        "NO_CLAIM",
        ("execution.savepoint-restore-mode",),
        ("CLAIM", "NO_CLAIM", "LEGACY"),
    ),
    Option("penstock.state.allow-pickle", "boolean", "true"),
    Option("penstock.state.local.shared", "boolean"),
    Option("penstock.checkpoint.orphan-ttl", "duration", "24 h"),
)

_PIPELINE: Final = (
    Option("parallelism.default", "integer", "1"),
    Option("pipeline.max-parallelism", "integer", "-1"),
    Option("pipeline.name"),
    Option(
        "pipeline.operator-chaining.enabled", "boolean", "true", ("pipeline.operator-chaining",)
    ),
    Option("pipeline.auto-generate-uids", "boolean", "true"),
    Option("pipeline.global-job-parameters", "map"),
    Option("pipeline.object-reuse", "boolean", "false"),
    Option(
        "execution.runtime-mode", "enum", "STREAMING", choices=("STREAMING", "BATCH", "AUTOMATIC")
    ),
    Option("penstock.epoch.interval", "duration", "0 ms"),
    Option("penstock.epoch.target-duration", "duration", "1 s"),
    Option("penstock.epoch.max-records", "integer", "8000000"),
    Option("penstock.epoch.max-bytes", "size", "256 mb"),
    Option("penstock.lowering.enabled", "boolean", "true"),
    Option("python.files", "files"),
    Option("python.archives", "files"),
    Option("python.requirements"),
    Option("python.executable"),
    Option("python.client.executable"),
)

_RESTARTS: Final = (
    Option(
        _RESTART + "type",
        "enum",
        None,
        ("restart-strategy",),
        ("disable", "fixed-delay", "failure-rate", "exponential-delay"),
    ),
    Option(_RESTART + "fixed-delay.attempts", "integer", "1"),
    Option(_RESTART + "fixed-delay.delay", "duration", "1 s"),
    Option(_RESTART + "failure-rate.max-failures-per-interval", "integer", "1"),
    Option(_RESTART + "failure-rate.failure-rate-interval", "duration", "1 min"),
    Option(_RESTART + "failure-rate.delay", "duration", "1 s"),
    Option(_RESTART + "exponential-delay.initial-backoff", "duration", "1 s"),
    Option(_RESTART + "exponential-delay.max-backoff", "duration", "1 min"),
    Option(_RESTART + "exponential-delay.backoff-multiplier", "float", "1.5"),
    Option(_RESTART + "exponential-delay.jitter-factor", "float", "0.1"),
    Option(_RESTART + "exponential-delay.reset-backoff-threshold", "duration", "1 h"),
    Option(_RESTART + "exponential-delay.attempts-before-reset-backoff", "integer"),
)

_CLUSTER: Final = (
    Option(
        _HA + "type",
        "enum",
        "NONE",
        ("recovery.mode", "high-availability"),
        ("NONE", "ZOOKEEPER", "FILESYSTEM"),
    ),
    Option(_HA + "storageDir", deprecated=("recovery.zookeeper.storageDir", _ZK + "storageDir")),
    Option(
        _HA + "cluster-id",
        default="/default",
        deprecated=(_ZK + "path.namespace", "recovery.zookeeper.path.namespace"),
    ),
    Option(_ZK + "quorum", deprecated=("recovery.zookeeper.quorum",)),
    Option(_ZK + "path.root", default="/flink", deprecated=("recovery.zookeeper.path.root",)),
    *(
        Option(_ZK + "client." + name, kind, default, ("recovery.zookeeper.client." + name,))
        for name, kind, default in (
            ("session-timeout", "duration", "60 s"),
            ("connection-timeout", "duration", "15 s"),
            ("retry-wait", "duration", "5 s"),
            ("max-retry-attempts", "integer", "3"),
        )
    ),
    Option("penstock.high-availability.lease-timeout", "duration", "15 s"),
    Option("rest.address", default="localhost", deprecated=("jobmanager.rpc.address",)),
    Option("rest.bind-address", default="127.0.0.1"),
    Option("rest.port", "integer", "8081", ("jobmanager.web.port", "web.port")),
    Option("rest.bind-port"),
    Option("security.ssl.rest.enabled", "boolean", "false"),
    Option("security.ssl.rest.certificate"),
    Option("security.ssl.rest.private-key"),
    Option("security.ssl.rest.ca-certificate"),
    Option("web.submit.enable", "boolean", "false", ("jobmanager.web.submit.enable",)),
    Option("web.cancel.enable", "boolean", "true"),
    Option("web.checkpoints.history", "integer", "10", ("jobmanager.web.checkpoints.history",)),
    Option("web.refresh-interval", "duration", "3 s", ("jobmanager.web.refresh-interval",)),
    Option("task.cancellation.timeout", "duration", "3 min"),
    Option("io.tmp.dirs", deprecated=("taskmanager.tmp.dirs",)),
    Option("penstock.spark.master", default="local[*]"),
    Option("penstock.spark.share-classes", "boolean", "true"),
    Option("penstock.ui.enabled", "boolean", "false"),
    Option("penstock.jobmanager.directory"),
    Option(
        "penstock.scheduler",
        "enum",
        "default",
        ("scheduler-mode",),
        choices=("default", "reactive"),
    ),
    Option(_ADAPTIVE + _COOLDOWN, "duration", "30 s", (_ADAPTIVE + "scaling-interval.min",)),
    Option(_ADAPTIVE + _STABLE, "duration", "60 s", (_ADAPTIVE + "scaling-interval.max",)),
    Option("execution.shutdown-on-application-finish", "boolean", "true"),
    Option("$internal.pipeline.job-id"),
    Option("penstock.job.base-directory"),
    Option("jobstore.max-capacity", "integer", "100"),
    Option("penstock.progress", "enum", "auto", choices=("auto", "lines", "off")),
    Option("penstock.rest.token-file"),
    Option("penstock.rest.require-token", "boolean", "true"),
    Option("penstock.rest.token-in-clear", "boolean", "false"),
    Option("penstock.rest.allowed-hosts", "list"),
    Option("penstock.rest.savepoint-roots", "list"),
    Option("penstock.rest.state-rows", "boolean", "true"),
    Option("penstock.config.ignore-code-overrides", "boolean", "false"),
)

_STORAGE: Final = (
    Option("s3.access-key", deprecated=("s3.access.key",)),
    Option("s3.secret-key", deprecated=("s3.secret.key",)),
    Option("s3.session-token"),
    Option("s3.endpoint"),
    Option("s3.region", deprecated=("s3.endpoint.region",)),
    Option("s3.path.style.access", "boolean", None, ("s3.path-style-access",)),
    Option("gs.service-account-file"),
    Option("azure.account-name"),
    Option("azure.account-key"),
    Option("azure.sas-token"),
    Option("azure.endpoint"),
)

_SILENT: Final[dict[str, tuple[Option, ...]]] = {
    "Penstock chooses how much it writes at once": (
        Option(
            _CP + "write-buffer-size",
            "size",
            "4096",
            ("state.storage.fs.write-buffer-size", "state.backend.fs.write-buffer-size"),
        ),
    ),
    "state files are compressed by their own format": (
        Option(_CP + "snapshot-compression", "boolean", "false"),
    ),
    _ALWAYS_LOCAL: (
        Option(_CP + "local-backup.enabled", "boolean", "false", ("state.backend.local-recovery",)),
        Option(_CP + "local-backup.dirs", deprecated=("taskmanager.state.local.root-dirs",)),
        Option(_RECOVERY + "from-local", "boolean", "false"),
    ),
    "Penstock chooses how many files it deletes at once": (
        Option(
            _CP + "cleaner.parallel-mode",
            "boolean",
            "true",
            ("state.checkpoint.cleaner.parallel-mode",),
        ),
    ),
    _ALIGNED: (
        Option(_CP + "unaligned.enabled", "boolean", "false", (_CP + "unaligned",)),
        Option(_CP + "unaligned.forced", "boolean", "false"),
        Option(
            _CP + "aligned-checkpoint-timeout", "duration", "0 ms", (_CP + "alignment-timeout",)
        ),
    ),
    "Penstock chooses how many files travel at once": (
        Option("state.backend.rocksdb.checkpoint.transfer.thread.num", "integer", "4"),
    ),
    "RocksDB is tuned by Penstock itself": (
        Option("state.backend.rocksdb.predefined-options", default="DEFAULT"),
    ),
    "changes are logged per epoch already; the setting changes nothing": (
        Option("state.changelog.enabled", "boolean", "false"),
    ),
    "the memory of the process is the bound of what `JobManagerCheckpointStorage` keeps": (
        Option("penstock.checkpoint.max-state-size", "size", "5 mb"),
    ),
    "operators are chained when no record has to travel between them": (
        Option(
            "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
            "boolean",
            "true",
        ),
    ),
    "watermarks follow every batch of records; generators of your own are asked once per epoch": (
        Option("pipeline.auto-watermark-interval", "duration", "200 ms"),
    ),
    "execute() waits for the job, execute_async() does not": (
        Option("execution.attached", "boolean", "false"),
    ),
    "give -sae to penstock run": (
        Option("execution.shutdown-on-attached-exit", "boolean", "false"),
    ),
    "records travel once per epoch; penstock.epoch.target-duration bounds their delay": (
        Option(
            "execution.buffer-timeout.interval", "duration", "100 ms", ("execution.buffer-timeout",)
        ),
    ),
    "job managers have no port of their own beside that of REST; set rest.bind-port": (
        Option(_HA + "jobmanager.port", "string", "0", ("recovery.jobmanager.port",)),
    ),
    "the last 16 failures are kept": (Option("web.exception-history-size", "integer", "16"),),
    "ended jobs are kept in penstock.jobmanager.directory": (Option("jobmanager.archive.fs.dir"),),
    _EXECUTORS + "spark.executor.heartbeatInterval instead": (
        Option("heartbeat.interval", "duration", "10 s"),
    ),
    _EXECUTORS + "spark.network.timeout instead": (
        Option("heartbeat.timeout", "duration", "50 s"),
    ),
    "a cancelled job is interrupted at once, and again until it ends": (
        Option("task.cancellation.interval", "duration", "30 s"),
    ),
}
"""Settings that change nothing, by the reason."""

OPTIONS: Final = {
    option.key: option
    for group in (_CHECKPOINTING, _STATE, _STORAGE, _PIPELINE, _RESTARTS, _CLUSTER)
    for option in group
} | {option.key: replace(option, note=note) for note, group in _SILENT.items() for option in group}
"""Every setting by its key."""

DEPRECATED: Final = {old: option for option in OPTIONS.values() for old in option.deprecated}
"""The setting that an old name means."""


def canonical_key(key: str) -> str:
    """Returns today's name of a key."""
    option = DEPRECATED.get(key)
    return option.key if option else key


FREE_PREFIXES: Final = ("penstock.spark.conf.",)
"""Below these any key may be set."""

WITHOUT_EFFECT: Final = {
    "taskmanager.numberOfTaskSlots": _EXECUTORS + "spark.executor.cores instead",
    "taskmanager.data.port": _EXECUTORS + "spark.blockManager.port instead",
    "blob.server.port": _EXECUTORS + "spark.driver.blockManager.port instead",
    "blob.storage.directory": _EXECUTORS + "spark.local.dir instead",
    "jobmanager.heap.mb": "Flink dropped it too; set spark.driver.memory instead",
    "taskmanager.heap.mb": "Flink dropped it too; set spark.executor.memory instead",
    "taskmanager.memory.preallocate": "Flink dropped it too",
    "fs.hdfs.hadoopconf": "Flink dropped it too; set HADOOP_CONF_DIR instead",
}
"""Keys of Flink that change nothing, with what to do instead."""

WITHOUT_EFFECT_PREFIXES: Final = {
    "metrics.reporter.": "metrics are at /metrics of the REST port, for Prometheus",
    "taskmanager.": "Spark has executors and no task managers; see spark.executor.*",
    "jobmanager.": "a job manager is a Python process with a Spark driver; see spark.driver.*",
    "python.": "Python runs in Spark's workers, a batch at a time",
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
        return f"has no effect: {option.note}." if option.note else None
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
