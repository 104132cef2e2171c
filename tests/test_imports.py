"""Importing the public packages stays light: Spark and Arrow load when a job starts, not before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

HEAVY = ("duckdb", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "rocksdict")


@pytest.mark.parametrize(
    "package",
    [
        "penstock",
        "penstock.cli",
        "penstock.common",
        "penstock.datastream",
        "penstock.metrics",
        "penstock.snapshots",
    ],
)
def test_public_package_imports_light(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.xfail(f"{package} does not exist yet")
    program = (
        f"import sys, {package}\n"
        f"print(*sorted({set(HEAVY)!r} & {{name.split('.')[0] for name in sys.modules}}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
