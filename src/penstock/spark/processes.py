"""Spark's processes: what they must have in common, and which of them died.

Where driver and executors differ (in interpreter, Penstock, directories), a job would fail in the
middle of an epoch, with an error that names neither the executor nor the remedy. So each executor
is asked once, when it is first given subtasks, by one short Spark job for all that are new.

The JVM of the session, executors and Python workers have memory of their own. The first breaks the
connection when it dies, the others appear in the text of Spark's error. A JVM that died can be
started again if nothing of the program's own lived in it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core.errors import (
    EnvironmentError_,
    FetchFailedError,
    JobExecutionError,
    ProcessLostError,
)
from penstock.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark import SparkContext

    from penstock.spark.dependencies import WorkerSetup

_NO_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
_TASK_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor")


def refuse_connect(master: str) -> None:
    """Refuses Spark Connect.

    Raises:
        EnvironmentError_: The session, or the master, is one of Spark Connect.
    """
    remote = os.environ.get("SPARK_REMOTE", "")
    if master.startswith("sc://") or remote:
        raise EnvironmentError_(
            f"{master if master.startswith('sc://') else 'SPARK_REMOTE=' + remote} is Spark "
            "Connect, which has no RDDs to run epochs with. Set penstock.spark.master to the "
            "cluster itself (spark://…, yarn, k8s://…), and unset SPARK_REMOTE."
        )


def choose_interpreter(settings: Mapping[str, str], *, local: bool) -> None:
    """Sets the workers' interpreter, unless the user has chosen one for the hosts of a cluster.

    Spark would take the python3 on the PATH; without a choice, it is the one of the program.
    """
    chosen = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable if local or not chosen else chosen
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def share_modules(context: SparkContext) -> None:
    """Lets workers on this machine import what the program can: modules beside its script.

    Elsewhere modules travel with `add_python_file`.
    """
    if not (context.master or "").startswith("local"):
        return
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = tuple({os.path.join(sysconfig.get_path(kind), "") for kind in kinds})
    paths = [os.path.abspath(path) for path in sys.path]
    own = [
        path
        for path in paths
        if os.path.exists(path) and not os.path.join(path, "").startswith(installed)
    ]
    context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(own))


class Found(NamedTuple):
    """What an executor is like."""

    host: str
    executable: str  # Of its workers.
    version: str  # Of Penstock.
    unseen: tuple[str, ...]  # Of the files that it was asked for.


class Look:
    """A task that says what its executor is like; picklable."""

    def __init__(self, setup: WorkerSetup, files: Iterable[str]) -> None:
        self._setup = setup
        self._files = tuple(files)

    def __call__(self, position: int, elements: Iterable[Any]) -> Iterator[Found]:
        for _ in elements:
            pass
        # Here, since settings of sessions are shown without Spark.
        from pyspark import SparkFiles

        paths = [SparkFiles.get(name) for name in self._setup.path]
        sys.path[:0] = [path for path in paths if path not in sys.path]
        # What tasks need must be there, too.
        importlib.import_module("penstock.spark.worker_tasks")
        unseen = tuple(path for path in self._files if not os.path.exists(path))
        yield Found(os.uname().nodename, sys.executable, __version__, unseen)


@contextlib.contextmanager
def marked(directories: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Puts a file into each directory while the block runs.

    Args:
        directories: By the setting that names them.

    Yields:
        Settings by the files.
    """
    with contextlib.ExitStack() as stack:
        marks = {}
        for setting, directory in directories.items():
            Path(directory).mkdir(parents=True, exist_ok=True)
            mark = stack.enter_context(
                tempfile.NamedTemporaryFile(dir=directory, prefix=".penstock-seen-")
            )
            marks[mark.name] = setting
        yield marks


def check(found: Iterable[Found], marks: Mapping[str, str]) -> None:
    """Refuses executors on which the job cannot work.

    Raises:
        EnvironmentError_: Says which, why, and what to do.
    """
    for each in found:
        if each.version != __version__:
            raise EnvironmentError_(
                f"the executor on {each.host} has Penstock {each.version} ({each.executable}), the "
                f"driver {__version__}. Install the same version there, or set PYSPARK_PYTHON to "
                "an interpreter that has it."
            )
        for mark in each.unseen:
            raise EnvironmentError_(
                f"the executor on {each.host} does not see {Path(mark).parent} of the driver, "
                f"which {marks[mark]} names. {_REMEDIES.get(marks[mark], _REMEDY)}"
            )


_REMEDY: Final = "Set it to storage that all hosts reach, such as s3://bucket/path or hdfs://…."
_REMEDIES: Final = {
    "io.tmp.dirs": "Set it to a directory that all hosts share, or penstock.state.local.shared to "
    "false: state files then stay with the executors."
}


def without_penstock(error: Exception, interpreter: str) -> EnvironmentError_ | None:
    """Returns what to raise if Spark ran nothing because an interpreter does not suit, else None.

    Args:
        error: What Spark raised.
        interpreter: What workers were to run with.
    """
    text = str(error)
    missing, absent = _NO_MODULE.search(text), _NO_PROGRAM.search(text)
    if missing is not None:
        what = f"finds no module '{missing[1]}'"
    elif absent is not None and absent[1] == interpreter:
        what = "is not there"
    else:
        return None
    host = _TASK_HOST.search(text)
    return EnvironmentError_(
        f"the executor on {host[1] if host else 'a host'} cannot run Penstock: its interpreter "
        f"({interpreter}) {what}. Install penstock=={__version__} there, set PYSPARK_PYTHON or "
        "python.executable to an interpreter that has it, or ship one with python.archives."
    )


# Which process died when Spark could not run an epoch, and what to do about it.


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
