"""Says which process died when Spark could not run an epoch, and what to do about it.

The JVM of the session, executors and Python workers have memory of their own. The first breaks the
connection when it dies, the others appear in the text of Spark's error. A JVM that died can be
started again if nothing of the program's own lived in it.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import (
    EnvironmentError_,
    FetchFailedError,
    JobExecutionError,
    ProcessLostError,
)
from penstock.spark.environments import without_penstock

if TYPE_CHECKING:
    from pyspark import SparkContext

_OUT_OF_MEMORY: Final = 52
"""Exit code of a JVM of Spark's whose heap was full."""
_KILLED: Final = (-9, 137)
_EXIT_WAIT_S: Final = 5.0
_LESS: Final = (
    "Or have epochs move less at a time: penstock.epoch.max-bytes. The attempt after this one, if "
    "there is one, moves a quarter."
)


class SparkMemory:
    """The memory that Spark's processes have; asked for while the JVM lives."""

    def __init__(self, context: SparkContext) -> None:
        settings = context.getConf()
        self.driver = settings.get("spark.driver.memory", "1g") or ""
        self.executor = settings.get("spark.executor.memory", "1g") or ""
        self.is_local = str(context.master).startswith("local")


def epoch_failure(
    context: SparkContext, memory: SparkMemory, epoch: int, error: Exception
) -> JobExecutionError | EnvironmentError_:
    """Returns what to raise for an error of Spark's."""
    if not is_alive(context):
        return ProcessLostError(_lost_jvm(_exit_code(context), memory, epoch), "engine-lost")
    text = str(error)
    if "OutOfMemoryError" in text:
        key, heap = ("driver", memory.driver) if memory.is_local else ("executor", memory.executor)
        return ProcessLostError(
            f"the {key}'s JVM ran out of memory in epoch {epoch}: it has {heap} of heap. Give it "
            f"more with penstock.spark.conf.spark.{key}.memory. {_LESS}\n{_cause(text)}",
            "out-of-memory",
        )
    if "Python worker exited unexpectedly" in text:
        return ProcessLostError(
            f"a Python worker died in epoch {epoch}, each time that its task was tried. Most often "
            "the operating system killed it for lack of memory, as its log says (dmesg). Keep less "
            "in functions, or give the machine more memory or Spark fewer cores "
            f"(penstock.spark.master). {_LESS} A crash in a native library ends workers too.\n"
            f"{_cause(text)}",
            "worker-lost",
        )
    if "ExecutorLostFailure" in text:
        return ProcessLostError(
            f"executors were lost in epoch {epoch}. They have {memory.executor} of heap, and "
            "spark.executor.memoryOverhead, in which Python workers live, beyond it. "
            "The cluster manager kills what exceeds both. Give more with "
            "penstock.spark.conf.spark.executor.memory and "
            f"penstock.spark.conf.spark.executor.memoryOverhead. {_LESS}\n{_cause(text)}",
            "executor-lost",
        )
    if "FetchFailed" in text:
        return FetchFailedError(
            f"Spark could not bring records of epoch {epoch} from one executor to another: "
            f"{_cause(text)}"
        )
    unsuited = None
    if "Error from python worker" in text or "Cannot run program" in text:
        # It did not start; a module that a function lacks is reported by the worker.
        unsuited = without_penstock(error, context.pythonExec)
    return unsuited or JobExecutionError(f"Spark could not run epoch {epoch}: {_cause(text)}")


def is_alive(context: SparkContext) -> bool:
    """Whether the JVM of a context answers and its context has not been stopped."""
    java: Any = context._jsc
    try:
        return java is not None and not java.sc().isStopped()
    except Exception:
        # Py4J raises errors of its own, of sockets, and others when it is interrupted by a loss.
        return False


def forget(spark: Any) -> None:
    """Makes PySpark forget a session whose JVM died, so that another one can be made."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if SparkContext._active_spark_context is spark.sparkContext:
        with contextlib.suppress(Exception):
            spark.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        with contextlib.suppress(Exception):
            gateway.shutdown()


def _exit_code(context: SparkContext) -> int | None:
    gateway: Any = context._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return None
    try:
        code: int = process.wait(_EXIT_WAIT_S)
    except subprocess.TimeoutExpired:
        return None
    return code


def _lost_jvm(code: int | None, memory: SparkMemory, epoch: int) -> str:
    why = "it does not answer any more"
    if code == _OUT_OF_MEMORY:
        why = "its heap was full"
    elif code in _KILLED:
        why = "something killed it, as the operating system does when memory is short"
    elif code is not None:
        why = f"it ended with exit code {code}"
    return (
        f"Spark's JVM died in epoch {epoch}: {why}. It has {memory.driver} of heap. Give it more "
        f"with penstock.spark.conf.spark.driver.memory. {_LESS}"
    )


def _cause(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:12])


def start_failure(master: str, error: Exception) -> str:
    """Says why Spark did not start, in its own words but without its frames."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    reason = next(iter(text.strip().splitlines()), type(error).__name__).rstrip(".")
    return (
        f"Spark did not start with penstock.spark.master: {master}: {reason}. A master is "
        "local[*], local[n] or the address of a cluster, such as spark://host:7077, yarn or "
        "k8s://https://…; in-process runs a job without Spark."
    )
