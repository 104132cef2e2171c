"""Modules, archives and requirements of a program reach Spark's workers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigurationError
from penstock.datastream import StreamExecutionEnvironment

pytestmark = pytest.mark.spark


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "local[2]")
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


def test_a_module_a_package_directories_and_an_archive(tmp_path: Path) -> None:
    (tmp_path / "shipped_module.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shipped_in_lib.py").write_text("LIB = 1000\n")
    (tmp_path / "shipped_dir").mkdir()
    (tmp_path / "shipped_dir" / "__init__.py").write_text("")
    (tmp_path / "shipped_dir" / "inner.py").write_text("DIR = 20000\n")
    wheel(tmp_path, "shipped_package", "OFFSET = 100\n")
    (tmp_path / "requirements.txt").write_text("shipped-package==1.0\n")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("factor.txt", "7")

    def compute(value: int) -> int:
        import shipped_in_lib  # type: ignore[import-not-found]
        import shipped_module  # type: ignore[import-not-found]
        import shipped_package  # type: ignore[import-not-found]
        from pyspark import SparkFiles
        from shipped_dir import inner  # type: ignore[import-not-found]

        factor = int(Path(SparkFiles.get("data"), "factor.txt").read_text())
        more = shipped_in_lib.LIB + inner.DIR
        return int(shipped_module.twice(value) * factor + shipped_package.OFFSET + more)

    env = environment()
    env.add_python_file(str(tmp_path / "shipped_module.py"))
    env.add_python_file(str(tmp_path / "lib"))
    env.add_python_file(str(tmp_path / "shipped_dir"))
    env.add_python_archive(str(tmp_path / "data.zip"), "data")
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path))
    with env.from_collection([1, 2]).map(compute).execute_and_collect() as results:
        assert sorted(results) == [21_114, 21_128]


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    env = environment()
    env.add_python_file(str(tmp_path / "missing.py"))
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"python.files names '.*missing.py'"):
        env.execute()
