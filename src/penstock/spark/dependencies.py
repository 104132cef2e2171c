"""Brings a program's own Python files to the workers, by Spark's means, or into this process.

python.files         SparkContext.addPyFile: modules, packages, zips, eggs
python.archives      SparkContext.addArchive: unpacked below the directory in which workers work
python.requirements  installed once on the driver, shipped as an archive, put on the path
python.executable    the workers' interpreter, of the same version as the driver's
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.configuration import import_path
from penstock.core.errors import ConfigurationError, UnsupportedError
from penstock.core.times import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark import SparkContext

_LOCKED_WITHIN_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a program brings along."""

    files: tuple[str, ...] = ()  # Paths of modules, packages, zips.
    archives: tuple[str, ...] = ()  # Paths, each perhaps with `#directory`.
    # A requirements file, perhaps with `#directory` of downloaded packages.
    requirements: str | None = None
    executable: str | None = None  # Interpreter of the workers, or None for the driver's.

    @property
    def are_none(self) -> bool:
        return not (self.files or self.archives or self.requirements or self.executable)


class WorkerSetup(NamedTuple):
    """What workers do about the dependencies of a job before they serve it."""

    path: tuple[str, ...] = ()  # Directories below Spark's files to have on the path.
    # Whether Spark's files are their working directory, as `open("archive/name")` wants it.
    works_in_files: bool = False


def ship(context: SparkContext, dependencies: Dependencies) -> WorkerSetup:
    """Sends dependencies to all workers."""
    for path in dependencies.files:
        context.addPyFile(_one_file(_existing(path, "python.files")))
    for archive in dependencies.archives:
        path, separator, directory = archive.partition("#")
        context.addArchive(_existing(path, "python.archives") + separator + directory)
    if dependencies.executable is not None:
        context.pythonExec = _interpreter(context, dependencies.executable, dependencies.archives)
    names: tuple[str, ...] = ()
    if dependencies.requirements is not None:
        installed = _installed(dependencies.requirements)
        try:
            archive = shutil.make_archive(str(installed), "zip", installed)
            context.addArchive(f"{archive}#{installed.name}")
        finally:
            shutil.rmtree(installed, ignore_errors=True)
        names = (installed.name,)
    return WorkerSetup(names, works_in_files=bool(dependencies.archives))


def _interpreter(context: SparkContext, executable: str, archives: Iterable[str]) -> str:
    """Returns how workers call an interpreter, which may lie in an archive."""
    first, _, inside = executable.partition("/")
    names = [path.partition("#")[2] or Path(path).name for path in archives]
    if not inside or first not in names:
        if shutil.which(executable) is None:
            raise ConfigurationError(
                f"python.executable is '{executable}', which is not an interpreter that can be run "
                "here. Give a path that exists on every worker, or one in an archive of "
                "python.archives, such as venv.zip/venv/bin/python."
            )
        return executable
    from pyspark import SparkFiles

    unpacked = Path(SparkFiles.getRootDirectory(), executable)
    if shutil.which(unpacked) is None:
        raise ConfigurationError(
            f"python.executable is '{executable}', but the archive of python.archives has no file "
            f"'{inside}' that can be run. Pack the environment so that it keeps the right to run "
            "files, as tar and zip do."
        )
    # Executors work where they unpack archives; the workers of a local master do not.
    is_local = re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None
    return str(unpacked) if is_local else executable


def _is_running(executable: str) -> bool:
    """Whether this process runs in an interpreter; one of a virtual environment is another."""
    found = shutil.which(executable)
    if found is None:
        return False
    # In an environment, python and python3 are links to what other environments have, too.
    places = [os.path.realpath(os.path.dirname(path)) for path in (found, sys.executable)]
    return places[0] == places[1] and os.path.samefile(found, sys.executable)


class Here:
    """The dependencies of a job that runs in this process: until `close`, they are its own.

    As in a worker, archives are below the working directory, which is the process's meanwhile.
    """

    _working: Here | None = None
    """The job whose archives are below the working directory."""

    def __init__(self, dependencies: Dependencies) -> None:
        executable = dependencies.executable
        if executable is not None and not _is_running(executable):
            raise UnsupportedError(
                f"python.executable is '{executable}', which is for Spark's workers; a job with "
                f"penstock.spark.master: in-process has none, and runs in {sys.executable}. Start "
                "the program with that interpreter instead."
            )
        if dependencies.archives and Here._working is not None:
            raise UnsupportedError(
                "two jobs with python.archives cannot run in one process at a time, because the "
                "archives of each are below the working directory. Run one after the other, or "
                "on Spark."
            )
        self._home: str | None = None
        self._directory: Path | None = None
        self._path: list[str] = []
        try:
            self._bring(dependencies)
        except BaseException:
            self.close()
            raise

    def _bring(self, dependencies: Dependencies) -> None:
        self._path = [import_path(_local(path, "python.files")) for path in dependencies.files]
        if dependencies.requirements is not None:
            self._path.append(str(_installed(dependencies.requirements)))
        archives = [archive.partition("#") for archive in dependencies.archives]
        found = [(Path(_local(path, "python.archives")), name) for path, _, name in archives]
        if found:
            self._directory = _lasting_directory("penstock-archives-")
            for path, name in found:
                _unpack(path, self._directory / (name or path.name))
            self._home = os.getcwd()
            Here._working = self
            os.chdir(self._directory)
        sys.path[:0] = self._path

    def close(self) -> None:
        """Makes this process what it was, but for modules that were imported."""
        for path in self._path:
            if path in sys.path:
                sys.path.remove(path)
        if Here._working is self:
            Here._working = None
        if self._home is not None:
            os.chdir(self._home)
        if self._directory is not None:
            _remove(self._directory)
            self._directory = None


def _local(path: str, key: str) -> str:
    found = path.removeprefix("file://")
    if "://" in found:
        raise UnsupportedError(
            f"{key} names '{path}', which Spark would fetch; a job with penstock.spark.master: "
            "in-process needs a file of this machine."
        )
    return os.path.abspath(_existing(found, key))


def _unpack(archive: Path, target: Path) -> None:
    known = (".zip", ".jar", ".tar", ".tar.gz", ".tgz")
    if not archive.name.lower().endswith(known):
        raise ConfigurationError(
            f"python.archives names '{archive}', which is none of {', '.join(known)}."
        )
    is_zip = archive.suffix.lower() in (".zip", ".jar")
    try:
        if is_zip:
            shutil.unpack_archive(archive, target, "zip")
        else:
            shutil.unpack_archive(archive, target, filter="data")
    except (shutil.ReadError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"python.archives names '{archive}', which cannot be unpacked: {error}"
        ) from error


_ours: dict[Path, int] = {}
"""Directories of this process, each with the descriptor that locks it."""


def _lasting_directory(prefix: str) -> Path:
    """Makes a directory that stays as long as this process.

    Those of killed processes are removed: they are no longer locked. A directory is locked soon
    after it was made, so young ones stay.
    """
    locked_before_ms = SystemClock().wall_ms() - _LOCKED_WITHIN_MS
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if facts.st_uid == os.geteuid() and facts.st_mtime * 1000 < locked_before_ms:
                _remove_unlocked(path)
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    _ours[directory] = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(_ours[directory], fcntl.LOCK_EX)
    return directory


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    os.close(_ours.pop(directory))


@atexit.register
def remove_shipped_files() -> None:
    """Removes what this process made for its workers; for an end that skips exit handlers."""
    for directory in list(_ours):
        _remove(directory)


def _one_file(path: str) -> str:
    """Returns the zip of a directory, which Spark does not ship as Python files; else the path.

    A package keeps its name in the zip, any other directory stands for the modules in it. Spark
    serves the zip from where it is, so it stays as long as this process.
    """
    directory = Path(path.removeprefix("file://"))
    if not directory.is_dir():
        return path
    target = _lasting_directory("penstock-python-files-")
    is_package = (directory / "__init__.py").exists()
    root = directory.resolve().parent if is_package else directory
    inside = directory.resolve().name if is_package else "."
    # Spark tells files apart by their names alone.
    return shutil.make_archive(str(target / target.name), "zip", root, inside)


def _installed(requirements: str) -> Path:
    """Installs packages; returns their directory, whose name is like no other's."""
    path, _, cache = requirements.partition("#")
    # Spark serves files from where they are, so they stay as long as this process.
    directory = _lasting_directory("penstock-requirements-")
    target = directory / directory.name
    command = [*_installer(), "install", "--quiet", "--target", str(target)]
    if cache:
        command += ["--no-index", "--find-links", _existing(cache, "python.requirements")]
    command += ["-r", _existing(path, "python.requirements")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigurationError(
            f"the packages of {path} (python.requirements) could not be installed: "
            f"{done.stderr.strip()[-2000:]}"
        )
    return target


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise ConfigurationError(
            "python.requirements needs pip or uv in the program's environment; neither was found. "
            "Install pip there, or ship the packages with add_python_file()."
        )
    return [uv, "pip"]


def _existing(path: str, key: str) -> str:
    # Other schemes are Spark's to fetch.
    if "://" not in path and not Path(path).exists():
        raise ConfigurationError(f"{key} names '{path}', which does not exist.")
    return path
