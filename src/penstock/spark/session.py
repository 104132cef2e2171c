"""Makes or takes a Spark session, with the settings that Penstock relies on."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import EnvironmentError_
from penstock.spark.processes import (
    choose_interpreter,
    is_alive,
    refuse_connect,
    share_modules,
    start_failure,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


# Starts Spark's JVM on this machine sooner, and without lines that ask for no action.
#
# `spark-submit` is a shell script that starts Python to find itself, then a JVM that works out the
# command of the real one. Only that last part is asked for here, with the environment that the
# scripts would have made. Where they would do more (`conf/spark-env.sh`), they are used.
#
# Loading classes is half of what a starting JVM does, so an archive of them is used (class-data
# sharing). The first program leaves a process behind that makes it, in some seconds at the lowest
# priority: a JVM that makes an archive is itself slow. A JVM checks an archive against its own
# version and the jars, and does without one that does not fit.
#
# Archives are code that is run: they lie in a directory that no other user can write to.


_INCUBATOR: Final = "--add-modules=jdk.incubator.vector"
"""Spark's linear algebra is faster with it, and does without; the JVM warns at each start."""
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_QUIET: Final = "-Xlog:cds*=off"
_PART: Final = ".part"
_MAKING_S: Final = 600
"""How long a JVM may take that makes an archive."""
_AGAIN_S: Final = 86_400
"""After which time an archive is tried again that could not be made."""
_UNUSED_S: Final = 30 * 86_400
_FREE_BYTES: Final = 2 * 1024**3
_MAKER: Final = "import sys\nfrom penstock.spark.session import make\nmake(sys.argv[1])"
_archives_made: list[Path] = []
"""The archive that this process is there to make."""


@contextlib.contextmanager
def quick_start(java: str, *, shares_classes: bool) -> Iterator[None]:
    """Has PySpark start a JVM directly while the block runs.

    Args:
        java: The interpreter of Java.
        shares_classes: Whether an archive of classes may be used and made.
    """
    from pyspark import java_gateway

    _look_for_numpy_later()
    gateway: Any = java_gateway
    popen = gateway.Popen

    def start(command: Sequence[str], **options: Any) -> Any:
        direct = _direct_command(java, command, options["env"], shares_classes=shares_classes)
        return popen(direct or command, **options)

    gateway.Popen = start
    try:
        yield
    finally:
        gateway.Popen = popen


def _direct_command(
    java: str, command: Sequence[str], environment: dict[str, str], *, shares_classes: bool
) -> list[str] | None:
    """Returns the command of the JVM; None where the scripts are needed.

    What the scripts would export is added to the environment.
    """
    home = Path(command[0]).resolve().parents[1]
    configuration = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    launchers = list(home.glob("jars/spark-launcher_*.jar"))
    if len(launchers) != 1 or (configuration / "spark-env.sh").exists():
        return None
    environment |= {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_SCALA_VERSION": launchers[0].name.split("_")[1].split("-")[0],
        "SPARK_ENV_LOADED": "1",
        "PYTHONHASHSEED": "0",
    }
    small = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    main = ("org.apache.spark.launcher.Main", _SUBMIT)
    asked = subprocess.run(
        [java, *small, "-cp", str(launchers[0]), *main, *command[1:]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [part for part in asked.stdout.strip("\0\n").split("\0") if part]
    if asked.returncode or "-cp" not in found or _SUBMIT not in found:
        return None
    jvm = [part for part in found[: found.index(_SUBMIT)] if part != _INCUBATOR]
    asks_itself = any("-Xshare" in part or "Archive" in part for part in jvm)
    if shares_classes and not asks_itself and not _has_entries(configuration):
        # Behind everything else: unknown options are ignored from Spark's own on.
        jvm += _sharing_options(java, jvm[jvm.index("-cp") + 1], home / "jars")
    return [*jvm, *found[found.index(_SUBMIT) :]]


def _look_for_numpy_later() -> None:
    """Has PySpark look at values for arrays of numpy only where the program has numpy.

    Before the first call of the JVM it would import its test utilities, and with them pandas, only
    to learn whether there is a numpy: a third of what the driver does until a job runs.
    """
    from pyspark.sql import types

    def of_numpy(value: Any, kind: str) -> bool:
        known = getattr(sys.modules.get("numpy"), kind, None)
        return known is not None and isinstance(value, known)

    module: Any = types
    if hasattr(module, "NumpyScalarConverter") and hasattr(module, "NumpyArrayConverter"):
        module.NumpyScalarConverter.can_convert = lambda _, value: of_numpy(value, "generic")
        module.NumpyArrayConverter.can_convert = lambda _, value: (
            of_numpy(value, "ndarray") and value.ndim == 1
        )


def _has_entries(directory: Path) -> bool:
    """Whether a directory on the class path has files: the JVM makes no archive then."""
    return directory.is_dir() and any(directory.iterdir())


def _sharing_options(java: str, class_path: str, jars: Path) -> list[str]:
    """Returns the options that use the archive of this Java and Spark; has one made if need be."""
    directory = cache_directory()
    if directory is None:
        return []
    parts = (os.path.realpath(java), java_release(java), class_path, str(jars.stat().st_mtime_ns))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    archive = directory / f"spark-{key}.jsa"
    if _archives_made:
        return [f"-XX:ArchiveClassesAtExit={archive}{_PART}", _QUIET]
    try:
        if archive.exists():
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", _QUIET]
        _remove_old(directory)
        is_in_the_making = archive.with_suffix(".making").exists()
        if not is_in_the_making and shutil.disk_usage(directory).free > _FREE_BYTES:
            atexit.register(_leave_maker, archive)
    except OSError:
        pass
    return []


def _remove_old(directory: Path) -> None:
    """Removes archives that were not used for long, and what processes that died have left."""
    now = time.time()  # noqa: TID251 - compared with the times of files
    for file in directory.glob("spark-*"):
        limit_s = _UNUSED_S if file.suffix == ".jsa" else _AGAIN_S
        if now - file.stat().st_mtime > limit_s:
            file.unlink()


def _leave_maker(archive: Path) -> None:
    """Starts the process that makes an archive, unless there is one."""
    lock = archive.with_suffix(".making")
    with contextlib.suppress(OSError):
        lock.open("x").close()
        maker = subprocess.Popen(
            [sys.executable, "-c", _MAKER, str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # No one waits for it.
        maker.returncode = 0


def make(path: str) -> None:
    """Makes an archive of the classes that a small job needs."""
    os.nice(19)
    archive = Path(path)
    _archives_made.append(archive)
    part = Path(f"{archive}{_PART}")
    try:
        session = get_session("class archive", "local[2]", {}, light=True)
        context = session.sparkContext
        pairs = context.parallelize(range(4), 2).map(lambda number: (number % 2, number))
        pairs.partitionBy(2).mapPartitionsWithIndex(lambda _, found: found).collect()
        context.broadcast(b"").destroy()
        gateway: Any = context._gateway
        session.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait(_MAKING_S)
        part.replace(archive)
        archive.with_suffix(".making").unlink(missing_ok=True)
    finally:
        part.unlink(missing_ok=True)


def cache_directory() -> Path | None:
    """Returns the user's own directory for archives; None without one that is safe."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        directory = (base if base.is_absolute() else Path.home() / ".cache") / "penstock"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except (OSError, RuntimeError):
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return directory if is_own and not found.st_mode & 0o022 else None


def java_release(java: str) -> str:
    """Returns what an installation of Java says of itself; "" if it does not."""
    try:
        return (Path(os.path.realpath(java)).parents[1] / "release").read_text(encoding="utf-8")
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def java_version(java: str) -> int | None:
    """Returns the major version of Java, as its installation says or as it prints; None if none."""
    match = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', java_release(java), re.MULTILINE)
    if match is None:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "(\d+)(?:\.(\d+))?', asked.stderr)
    if match is None:
        return None
    return int(match[1]) if match[1] != "1" else int(match[2] or 0)


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
    "spark.shuffle.reduceLocality.enabled": "false",
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

CLUSTER_SETTINGS: Final[dict[str, str]] = {
    # Not in the directory for temporary files of an executor: the path of a socket has 107
    # characters at most, and that of a container of YARN has more already.
    "spark.python.unix.domain.socket.dir": "/tmp",
    # On YARN and Kubernetes Spark gives an application up after some lost executors. By default
    # it never stops counting, and jobs run for months.
    "spark.executor.failuresValidityInterval": "1h",
}
"""For all other masters."""

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
        share_modules(context)
        return SparkSession.builder.getOrCreate()
    refuse_connect(master)
    local = master.startswith("local")
    choose_interpreter(settings, local=local)
    if local:
        # Spares the warning about a host name that resolves to loopback.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(job_name).master(_with_retries(master))
    defaults = {**FIXED_SETTINGS, **(LOCAL_SETTINGS if local else CLUSTER_SETTINGS)}
    options = _java_options(settings, light=light, local=local)
    for key, value in {**defaults, **settings, **options}.items():
        builder = builder.config(key, value)
    starts = quick_start(java, shares_classes=shares_classes) if local else contextlib.nullcontext()
    with warnings.catch_warnings(), starts:
        warnings.simplefilter("ignore")
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentError_(start_failure(master, error)) from error
    # Ours to stop: executors of a cluster would otherwise outlive the program for a while.
    atexit.register(_stop, session)
    _made.append(session.sparkContext)
    share_modules(session.sparkContext)
    return session


_made: Final[list[SparkContext]] = []


def made_here(context: SparkContext) -> bool:
    """Whether a context was made for jobs, and not by the program."""
    return context in _made


def _stop(session: SparkSession) -> None:
    if is_alive(session.sparkContext):
        session.stop()


def _with_retries(master: str) -> str:
    """Plain `local[n]` never retries a task; `local[n,4]` does, as a cluster would."""
    match = re.fullmatch(r"local\[(\*|\d+)\]", master)
    if master == "local":
        return "local[1,4]"
    return f"local[{match[1]},4]" if match else master


def _java_options(settings: dict[str, str], *, light: bool, local: bool) -> dict[str, str]:
    """Returns the JVM options of driver and executors: ours, then the user's, which win.

    Spark's log has our own configuration unless the user brings one; so have the JVMs.
    """
    options: dict[str, str] = {}
    for process, is_light in (("driver", light and local), ("executor", light)):
        key = f"spark.{process}.extraJavaOptions"
        options[key] = given = settings.get(key, "")
        if is_light and "-XX:" not in given:
            options[key] = f"{LIGHT_JVM} {given}".strip()
    if "log4j" not in (driver := options["spark.driver.extraJavaOptions"]):
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        options["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log} {driver}"
    return options
