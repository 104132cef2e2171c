"""What driver and executors must have in common: interpreter, Penstock, and directories.

Where they differ, a job would fail in the middle of an epoch, with an error that names neither the
executor nor the remedy. So each executor is asked once, when it is first given subtasks, by one
short Spark job for all that are new.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core.errors import EnvironmentError_
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
