"""Brings a program's own Python files to the workers, by Spark's means.

python.files         SparkContext.addPyFile: modules, packages, zips, eggs
python.archives      SparkContext.addArchive: unpacked in the workers' directory
python.requirements  installed once on the driver, shipped as an archive, put on the path
python.executable    the workers' interpreter, of the same version as the driver's
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import SparkContext


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


def ship(context: SparkContext, dependencies: Dependencies) -> tuple[str, ...]:
    """Sends dependencies to all workers.

    Returns:
        Directories below `SparkFiles.getRootDirectory()` that workers must have on their path.
    """
    for path in dependencies.files:
        context.addPyFile(_one_file(_existing(path, "python.files")))
    for archive in dependencies.archives:
        path, separator, directory = archive.partition("#")
        context.addArchive(_existing(path, "python.archives") + separator + directory)
    if dependencies.executable is not None:
        if shutil.which(dependencies.executable) is None:
            raise ConfigurationError(
                f"python.executable is '{dependencies.executable}', which is not an interpreter "
                "that can be run here. Give a path that exists on every worker."
            )
        context.pythonExec = dependencies.executable
    if dependencies.requirements is None:
        return ()
    return (_ship_requirements(context, dependencies.requirements),)


def _one_file(path: str) -> str:
    """Returns the zip of a directory, which Spark does not ship as Python files; else the path.

    A package keeps its name in the zip, any other directory stands for the modules in it. Spark
    serves the zip from where it is, so it stays as long as this process.
    """
    directory = Path(path.removeprefix("file://"))
    if not directory.is_dir():
        return path
    target = Path(tempfile.mkdtemp(prefix="penstock-python-files-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    is_package = (directory / "__init__.py").exists()
    root = directory.resolve().parent if is_package else directory
    inside = directory.resolve().name if is_package else "."
    # Spark tells files apart by their names alone.
    return shutil.make_archive(str(target / target.name), "zip", root, inside)


def _ship_requirements(context: SparkContext, requirements: str) -> str:
    path, _, cache = requirements.partition("#")
    directory = Path(tempfile.mkdtemp(prefix="penstock-requirements-"))
    name = directory.name
    command = [*_installer(), "install", "--quiet", "--target", str(directory / name)]
    if cache:
        command += ["--no-index", "--find-links", _existing(cache, "python.requirements")]
    command += ["-r", _existing(path, "python.requirements")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigurationError(
                f"the packages of {path} (python.requirements) could not be installed: "
                f"{done.stderr.strip()[-2000:]}"
            )
        archive = shutil.make_archive(str(directory / name), "zip", directory / name)
        context.addArchive(f"{archive}#{name}")
    finally:
        shutil.rmtree(directory / name, ignore_errors=True)
    return name


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
