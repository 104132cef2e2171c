"""Starts Spark's JVM on this machine sooner, and without lines that nobody can act on.

`spark-submit` is a shell script that starts Python to find itself, then a JVM that works out the
command of the real one. Only that last part is asked for here, with the environment that the
scripts would have made. Where they would do more (`conf/spark-env.sh`), they are used.

Loading classes is half of what a starting JVM does, so an archive of them is used (class-data
sharing). The first program leaves a process behind that makes it, in some seconds at the lowest
priority: a JVM that makes an archive is itself slow. A JVM checks an archive against its own
version and the jars, and does without one that does not fit.

Archives are code that is run: they lie in a directory that no other user can write to.
"""

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

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
_MAKER: Final = "import sys\nfrom penstock.spark.java_start import make\nmake(sys.argv[1])"
_made: list[Path] = []
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
    if _made:
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
    """Removes archives that nobody has used for long, and what makers that died have left."""
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
        # Nobody waits for it.
        maker.returncode = 0


def make(path: str) -> None:
    """Makes an archive of the classes that a small job needs."""
    from penstock.spark.session import get_session

    os.nice(19)
    archive = Path(path)
    _made.append(archive)
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
