"""How a JVM is started without scripts, and when with an archive of classes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark import java_gateway
from pyspark.sql import types

from penstock.spark import session
from penstock.spark.session import cache_directory, java_version, quick_start

JAVA = """#!/bin/bash
# Answers as Spark's launcher does, which works out the command of the JVM.
[ -e "$SPARK_HOME/broken" ] && exit 1
[ "$SPARK_SCALA_VERSION" = 2.13 ] || exit 1
shift 5
printf '\\0\\n'
printf '%s\\0' "$0" -cp "$SPARK_HOME/jars/*" -Xmx1g -XX:+IgnoreUnrecognizedVMOptions \\
    --add-modules=jdk.incubator.vector --add-opens=java.base/java.nio=ALL-UNNAMED \\
    $OPTIONS "${@:2}"
"""


class Machine:
    """A Spark and a Java of the test's own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "spark home"
        self.java = folder / "java" / "bin" / "java"
        self.submit = self.home / "bin" / "spark-submit"
        self.cache = folder / "cache"
        self.left: list[Path] = []
        for path in (self.submit, self.java, self.home / "jars" / "spark-launcher_2.13-4.3.0.jar"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(JAVA)
            path.chmod(0o755)
        self.started: list[list[str]] = []
        self.environment: dict[str, str] = {}
        monkeypatch.setattr(java_gateway, "Popen", self._popen)
        monkeypatch.setattr(
            session.atexit, "register", lambda _, archive: self.left.append(archive)
        )
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))

    def _popen(self, command: list[str], *, env: dict[str, str]) -> None:
        self.started.append(list(command))
        self.environment = env

    def start(self, *, options: str = "", shares_classes: bool = True) -> list[str]:
        """Starts a JVM as PySpark does; returns its command."""
        gateway: Any = java_gateway
        environment = {"PATH": os.environ["PATH"], "OPTIONS": options}
        with quick_start(str(self.java), shares_classes=shares_classes):
            gateway.Popen(
                [str(self.submit), "--conf", "spark.app.name=a b", "pyspark-shell"],
                env=environment,
            )
        return self.started[-1]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_jvm_is_started_directly(machine: Machine) -> None:
    """Without shell, without the module whose use the JVM warns of."""
    assert machine.start() == [
        *(str(machine.java), "-cp", f"{machine.home}/jars/*", "-Xmx1g"),
        "-XX:+IgnoreUnrecognizedVMOptions",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "org.apache.spark.deploy.SparkSubmit",
        *("--conf", "spark.app.name=a b", "pyspark-shell"),
    ]
    assert machine.environment["SPARK_HOME"] == str(machine.home)
    assert machine.environment["PYTHONHASHSEED"] == "0"


def test_pyspark_starts_as_ever_outside(machine: Machine) -> None:
    before: Any = java_gateway
    popen = before.Popen
    machine.start()
    assert before.Popen is popen


@pytest.mark.parametrize("what", ["conf/spark-env.sh", "broken"])
def test_scripts_are_used_where_they_are_needed(machine: Machine, what: str) -> None:
    """They read a file of the user's; or the launcher did not answer."""
    (machine.home / "conf").mkdir()
    (machine.home / what).write_text("")
    assert machine.start()[0] == str(machine.submit)


def sharing(command: list[str]) -> list[str]:
    return [part for part in command if "Archive" in part or part.startswith("-X")][2:]


def test_an_archive_is_made_once_and_used(machine: Machine) -> None:
    assert sharing(machine.start()) == []
    (archive,) = machine.left
    assert archive.parent == machine.cache / "penstock"
    archive.write_text("classes")
    assert sharing(machine.start()) == [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]
    assert machine.left == [archive]


def test_an_archive_in_the_making_is_not_begun_again(machine: Machine) -> None:
    machine.start()
    machine.left[0].with_suffix(".making").write_text("")
    assert sharing(machine.start()) == []
    assert len(machine.left) == 1


def test_other_jars_have_another_archive(machine: Machine) -> None:
    machine.start()
    machine.left[0].write_text("classes")
    os.utime(machine.home / "jars", ns=(5, 5))
    assert sharing(machine.start()) == []
    assert len(set(machine.left)) == 2


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=mine"])
def test_users_options_win(machine: Machine, given: str) -> None:
    assert sharing(machine.start(options=given)) == [given]
    assert not machine.left


def test_no_archive_where_none_is_wanted_or_can_be_made(machine: Machine) -> None:
    assert sharing(machine.start(shares_classes=False)) == []
    (machine.home / "conf").mkdir()
    (machine.home / "conf" / "spark-defaults.conf").write_text("")
    assert sharing(machine.start()) == []
    assert not machine.left


def test_archives_are_the_users_own(machine: Machine) -> None:
    """What another user could write is not run."""
    directory = machine.cache / "penstock"
    assert cache_directory() == directory
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    directory.chmod(0o770)
    assert cache_directory() is None
    assert sharing(machine.start()) == []
    directory.rmdir()
    (machine.cache / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(machine.cache / "elsewhere")
    assert cache_directory() is None


def test_old_archives_go(machine: Machine) -> None:
    directory = machine.cache / "penstock"
    directory.mkdir(parents=True, mode=0o700)
    for name in ("spark-1.jsa", "spark-2.jsa", "spark-1.making", "spark-2.jsa.part", "other"):
        (directory / name).write_text("")
    for name in ("spark-1.jsa", "spark-1.making", "spark-2.jsa.part", "other"):
        os.utime(directory / name, (0, 0))
    machine.start()
    assert sorted(path.name for path in directory.iterdir()) == ["other", "spark-2.jsa"]


def test_the_version_of_java(tmp_path: Path) -> None:
    """By its installation; by asking it where that says nothing."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_1\"' >&2\n")
    java.chmod(0o755)
    assert java_version(str(java)) == 8
    (tmp_path / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="21.0.2"\n')
    assert java_version(str(java)) == 21


def test_values_of_numpy_are_still_known(machine: Machine) -> None:
    """PySpark's converters, without the import of pandas by which they look for numpy."""
    numpy = pytest.importorskip("numpy")
    machine.start()
    scalars, arrays = types.NumpyScalarConverter(), types.NumpyArrayConverter()
    assert scalars.can_convert(numpy.float64(1))
    assert not scalars.can_convert(1.0)
    assert arrays.can_convert(numpy.zeros(2))
    assert not arrays.can_convert(numpy.zeros((2, 2)))
    assert not arrays.can_convert([1, 2])
