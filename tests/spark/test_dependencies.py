"""Modules, archives and requirements of a program reach Spark's workers."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigurationError, UnsupportedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.dependencies import Dependencies, Here

pytestmark = pytest.mark.spark


def environment(master: str = "local[2]") -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", master)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def wheel(folder: Path, name: str, body: str) -> None:
    """Writes an installable wheel by hand."""
    information = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", body)
        archive.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{information}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{information}/RECORD", "")


def brought(folder: Path, number: int) -> None:
    """Writes dependencies of every kind; each run of the test has names of its own."""
    (folder / f"shipped_module_{number}.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "lib").mkdir()
    (folder / "lib" / f"shipped_in_lib_{number}.py").write_text("LIB = 1000\n")
    package = folder / f"shipped_dir_{number}"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("DIR = 20000\n")
    wheel(folder, f"shipped_package_{number}", "OFFSET = 100\n")
    (folder / "requirements.txt").write_text(f"shipped-package-{number}==1.0\n")
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("inside/factor.txt", "7")
    with tarfile.open(folder / "more.tar.gz", "w:gz") as packed:
        packed.add(folder / "requirements.txt", "names.txt")


@pytest.mark.parametrize(("number", "master"), [(1, "local[2]"), (2, "in-process")])
def test_files_packages_and_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, master: str
) -> None:
    """Files of archives are found where PyFlink's functions look for them: at relative paths."""
    brought(tmp_path, number)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)

    def compute(value: int) -> int:
        module = importlib.import_module(f"shipped_module_{number}")
        lib = importlib.import_module(f"shipped_in_lib_{number}")
        inner = importlib.import_module(f"shipped_dir_{number}.inner")
        package = importlib.import_module(f"shipped_package_{number}")
        with open("data/inside/factor.txt", encoding="utf-8") as file:
            factor = int(file.read())
        with open("more.tar.gz/names.txt", encoding="utf-8") as names:
            assert names.read().startswith("shipped")
        return int(module.twice(value) * factor + package.OFFSET + lib.LIB + inner.DIR)

    env = environment(master)
    env.add_python_file(str(tmp_path / f"shipped_module_{number}.py"))
    env.add_python_file(str(tmp_path / "lib"))
    env.add_python_file(str(tmp_path / f"shipped_dir_{number}"))
    env.add_python_archive(str(tmp_path / "data.zip"), "data")
    env.add_python_archive(str(tmp_path / "more.tar.gz"))
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path))
    with env.from_collection([1, 2]).map(compute).execute_and_collect() as results:
        assert sorted(results) == [21_114, 21_128]
    assert Path.cwd() == home

    (home / "lookup.txt").write_text("3")

    def look_up(value: int) -> int:
        with open("lookup.txt", encoding="utf-8") as file:
            return value * int(file.read())

    if master == "in-process":
        # Spark's workers start where the JVM was started, which is not here.
        without = environment(master).from_collection([1, 2]).map(look_up)
        with without.execute_and_collect() as results:
            assert sorted(results) == [3, 6]


def test_workers_go_back_where_they_were(tmp_path: Path) -> None:
    """The job after one with archives works where one without ever did."""
    with zipfile.ZipFile(tmp_path / "few.zip", "w") as archive:
        archive.writestr("few.txt", "")

    def places(with_archive: bool) -> set[tuple[str, bool]]:
        env = environment()
        if with_archive:
            env.add_python_archive(str(tmp_path / "few.zip"))
        stream = env.from_collection([1]).map(
            lambda _: (os.getcwd(), os.path.exists("few.zip/few.txt"))
        )
        with stream.execute_and_collect() as results:
            return set(results)

    before, between, after = places(False), places(True), places(False)
    assert before == after
    assert [found for _, found in (*before, *between)] == [False, True]


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    env = environment()
    env.add_python_file(str(tmp_path / "missing.py"))
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"python.files names '.*missing.py'"):
        env.execute()


@pytest.mark.parametrize("suffix", ["tar.gz", "zip"])
def test_an_interpreter_in_an_archive(tmp_path: Path, suffix: str) -> None:
    """As in PyFlink's documents: the environment is an archive, and its Python runs the workers."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nFROM_ARCHIVE=yes exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    packed = tmp_path / f"venv.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(packed, "w") as zipped:
            zipped.write(script, "venv/bin/python")
    else:
        with tarfile.open(packed, "w:gz") as tarred:
            tarred.add(script, "venv/bin/python")
    env = environment()
    env.add_python_archive(str(packed))
    env.set_python_executable(f"venv.{suffix}/venv/bin/python")
    stream = env.from_collection([1]).map(lambda _: os.environ.get("FROM_ARCHIVE"))
    with stream.execute_and_collect() as results:
        assert list(results) == ["yes"]

    env.set_python_executable(f"venv.{suffix}/bin/python")
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"no file 'bin/python' that can be run"):
        env.execute()


def test_the_running_interpreter_is_no_other_one() -> None:
    for name in (sys.executable, Path(sys.executable).with_name("python3")):
        env = environment("in-process").set_python_executable(str(name))
        with env.from_collection([1]).execute_and_collect() as results:
            assert list(results) == [1]
    # What a link leads to is not what it is in: an environment has packages of its own.
    outside = Path(sys.executable).resolve()
    if outside.parent != Path(sys.executable).parent.resolve():
        env = environment("in-process").set_python_executable(str(outside))
        env.from_collection([1]).print()
        with pytest.raises(UnsupportedError, match=r"in-process has none, and runs in .*python"):
            env.execute()


KILLED = """
import os, signal, sys
from penstock.spark.dependencies import Dependencies, Here
Here(Dependencies(archives=(sys.argv[1],)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_directories_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("factor.txt", "7")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def be_killed() -> None:
        command = [sys.executable, "-c", KILLED, archive]
        killed = subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, check=False)
        assert killed.returncode == -signal.SIGKILL

    be_killed()
    (left,) = temporary.iterdir()
    first = Here(Dependencies(archives=(str(archive),)))
    assert left.exists(), "it may be that of a process that is just starting"
    first.close()
    os.utime(left, (0, 0))
    second = Here(Dependencies(archives=(str(archive),)))
    try:
        assert not left.exists()
        (own,) = temporary.iterdir()
        os.utime(own, (0, 0))
        be_killed()
        assert own.exists(), "its process lives"
    finally:
        second.close()
    assert not own.exists()


def test_files_alone_need_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "shipped_alone.py"
    module.write_text("")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    here = Here(Dependencies(files=(str(module),)))
    assert list(temporary.iterdir()) == []
    here.close()
