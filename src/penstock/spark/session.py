"""Makes or takes a Spark session, with the settings that Penstock relies on."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import sys
import sysconfig
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import EnvironmentError_
from penstock.spark.java_start import java_version, quick_start
from penstock.spark.losses import is_alive

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

FIXED_SETTINGS: Final[dict[str, str]] = {
    # Measured: a Python stage costs 36 instead of 75 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    # A worker whose task was cancelled is killed at once: its function may never return.
    "spark.python.task.killTimeout": "100ms",
    # Its own pages would be a side door without a token.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Below it, a task's shuffle output is one temporary file for each target. Measured with 64
    # tasks that send to 64: 0.98 instead of 5.6 s.
    "spark.shuffle.sort.bypassMergeThreshold": "4",
    # A shuffle's writer would hold the last hundred frames in memory, in case one comes again.
    "spark.serializer.objectStreamReset": "1",
}
"""Set unless the user's Spark configuration says otherwise."""

LOCAL_SETTINGS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Elsewhere Penstock may travel with the job, and be there only once a worker runs.
    "spark.python.daemon.module": "penstock.spark.worker_daemon",
    # Raise what cannot be sent, instead of writing it to the console: the daemon knows why.
    "spark.executorEnv.PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
}
"""For masters on this machine: nothing listens on another address, and workers start sooner."""

LIGHT_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that only hands frames around: its optimising compiler and its parallel collector would
take cores from the Python workers. Measured on 2 cores: 15 instead of 27 s of processor time from
start to the end of a job of 5 million records (`docs/decisions/0006`)."""

_MIN_JAVA: Final = 17


def check_requirements() -> str:
    """Checks Java, PySpark and pandas before a JVM is started.

    Returns:
        The path of Java.

    Raises:
        EnvironmentError_: Something is missing or has a version that does not work.
    """
    java = check_java()
    try:
        import pyspark
    except ImportError as error:
        raise EnvironmentError_(
            "PySpark is not installed. Install it with: pip install 'pyspark>=4.1,<4.4'."
        ) from error
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if not (4, 1) <= found < (4, 4):
        raise EnvironmentError_(
            f"PySpark {pyspark.__version__} is installed; Penstock needs 4.1 to 4.3. "
            "Install it with: pip install 'pyspark>=4.1,<4.4'."
        )
    # Not imported: that takes longer than all else here.
    with contextlib.suppress(metadata.PackageNotFoundError):
        pandas = metadata.version("pandas")
        if int(pandas.split(".")[0]) >= 3:
            raise EnvironmentError_(
                f"pandas {pandas} is installed, which PySpark {pyspark.__version__} does not "
                "support. Install it with: pip install 'pandas>=2.2,<3'."
            )
    return java


def check_java() -> str:
    """Checks that a JVM of a supported version can be started; returns its path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise EnvironmentError_(
            f"Java was not found {where}. Spark needs Java {_MIN_JAVA} or later: install a JDK "
            "(for example the package openjdk-17-jre-headless) or set JAVA_HOME to one."
        )
    version = java_version(java)
    if version is not None and version < _MIN_JAVA:
        raise EnvironmentError_(
            f"Java {version} was found at {java}; Spark needs Java {_MIN_JAVA} or later. "
            "Install a newer JDK and set JAVA_HOME to it."
        )
    return java


def get_session(
    job_name: str,
    master: str,
    settings: dict[str, str],
    *,
    light: bool = False,
    shares_classes: bool = True,
) -> SparkSession:
    """Returns the active session, or makes one with our settings.

    Args:
        job_name: Shown as the application's name when a session is made.
        master: Spark master for a new session; `local[n]` is given four tries per task.
        settings: The user's `penstock.spark.conf.*`, which win over ours.
        light: Nothing but epochs will run in a JVM that is made on this machine.
        shares_classes: Whether that JVM may use an archive of classes, or make it.
    """
    java = check_requirements()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Asked of the context: a session is active per thread, and jobs run in threads of their own.
    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        if "PYSPARK_PYTHON" not in os.environ and str(context.master).startswith("local"):
            # Made without us: its workers would be whatever python3 the PATH has.
            context.pythonExec = sys.executable
        _share_modules(context)
        return SparkSession.builder.getOrCreate()
    # Workers must be the interpreter that the program runs in; Spark would take PATH's python3.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        # Spares the warning about a host name that resolves to loopback.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(job_name).master(_with_retries(master))
    defaults = {**FIXED_SETTINGS, **(LOCAL_SETTINGS if local else {})}
    options = _java_options(settings, light=light and local)
    for key, value in {**defaults, **settings, **options}.items():
        builder = builder.config(key, value)
    starts = quick_start(java, shares_classes=shares_classes) if local else contextlib.nullcontext()
    with warnings.catch_warnings(), starts:
        warnings.simplefilter("ignore")
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentError_(_start_failure(master, error)) from error
    # Ours to stop: executors of a cluster would otherwise outlive the program for a while.
    atexit.register(_stop, session)
    _made.append(session.sparkContext)
    _share_modules(session.sparkContext)
    return session


_made: Final[list[SparkContext]] = []


def made_here(context: SparkContext) -> bool:
    """Whether a context was made for jobs, and not by the program."""
    return context in _made


def _stop(session: SparkSession) -> None:
    if is_alive(session.sparkContext):
        session.stop()


def _start_failure(master: str, error: Exception) -> str:
    """Says why Spark did not start, in its own words but without its frames."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    reason = next(iter(text.strip().splitlines()), type(error).__name__).rstrip(".")
    return (
        f"Spark did not start with penstock.spark.master: {master}: {reason}. A master is "
        "local[*], local[n] or the address of a cluster, such as spark://host:7077, yarn or "
        "k8s://https://…; in-process runs a job without Spark."
    )


def _share_modules(context: SparkContext) -> None:
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


def _with_retries(master: str) -> str:
    """Plain `local[n]` never retries a task; `local[n,4]` does, as a cluster would."""
    match = re.fullmatch(r"local\[(\*|\d+)\]", master)
    if master == "local":
        return "local[1,4]"
    return f"local[{match[1]},4]" if match else master


def _java_options(settings: dict[str, str], *, light: bool) -> dict[str, str]:
    """Returns the driver's JVM options: ours, then the user's, of which the last one counts.

    Spark's log goes through our own short configuration unless the user brings one; a user who
    chooses a collector or compiler gets only that.
    """
    given = settings.get("spark.driver.extraJavaOptions", "")
    options = [given] if given else []
    if light and "-XX:" not in given:
        options.insert(0, LIGHT_JVM)
    if "log4j" not in given:
        configuration = Path(__file__).with_name("log4j2.properties")
        options.insert(0, f"-Dlog4j2.configurationFile={configuration.as_uri()}")
    return {"spark.driver.extraJavaOptions": " ".join(options)} if options else {}
