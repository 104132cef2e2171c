"""What driver and executors must have in common, and what is said where they differ."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import EnvironmentError_
from penstock.spark.dependencies import WorkerSetup
from penstock.spark.processes import (
    Found,
    Look,
    check,
    choose_interpreter,
    marked,
    refuse_connect,
    without_penstock,
)
from penstock.version import __version__

if TYPE_CHECKING:
    from pathlib import Path


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    refuse_connect("spark://host:7077")
    with pytest.raises(EnvironmentError_, match="sc://host is Spark Connect"):
        refuse_connect("sc://host")
    monkeypatch.setenv("SPARK_REMOTE", "sc://other")
    with pytest.raises(EnvironmentError_, match="SPARK_REMOTE=sc://other is Spark Connect"):
        refuse_connect("local[2]")


@pytest.mark.parametrize(
    ("given", "configured", "local", "expected"),
    [
        ("", "", False, sys.executable),
        ("/env/python", "", False, "/env/python"),
        ("/env/python", "/conf/python", False, "/conf/python"),
        ("/env/python", "/conf/python", True, sys.executable),
    ],
)
def test_the_users_interpreter_is_respected_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch, given: str, configured: str, local: bool, expected: str
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", given)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "")
    settings = {"spark.pyspark.python": configured} if configured else {}
    choose_interpreter(settings, local=local)
    assert os.environ["PYSPARK_PYTHON"] == expected
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_executors_are_asked_what_they_see(tmp_path: Path) -> None:
    with marked({"io.tmp.dirs": str(tmp_path / "new")}) as marks:
        (mark,) = marks
        (found,) = Look(WorkerSetup(), marks)(0, iter(()))
        assert found.version == __version__
        check([found], marks)
        blind = found._replace(host="far", unseen=(mark,))
        with pytest.raises(EnvironmentError_, match=r"far does not see .*/new .*io.tmp.dirs names"):
            check([found, blind], marks)
    (found,) = Look(WorkerSetup(), [mark])(0, iter(()))
    assert found.unseen == (mark,)


def test_another_version_is_refused() -> None:
    with pytest.raises(EnvironmentError_, match=r"far has Penstock 0.0.1 .*the driver"):
        check([Found("far", "python3", "0.0.1", ())], {})


def test_sparks_error_for_a_missing_module_is_translated() -> None:
    text = (
        "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): PythonException\n"
        "ModuleNotFoundError: No module named 'penstock'"
    )
    error = without_penstock(RuntimeError(text), "/opt/python3")
    assert error is not None
    assert str(error).startswith("the executor on 10.0.0.7 cannot run Penstock")
    assert "(/opt/python3) finds no module 'penstock'" in str(error)
    assert without_penstock(RuntimeError("Connection refused"), "/opt/python3") is None
    gone = 'java.io.IOException: Cannot run program "/opt/python3": error=2'
    assert "(/opt/python3) is not there" in str(
        without_penstock(RuntimeError(gone), "/opt/python3")
    )
    assert without_penstock(RuntimeError(gone), "python3") is None
