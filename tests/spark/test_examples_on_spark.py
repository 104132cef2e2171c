"""The examples in docstrings of methods that only Spark has."""

from __future__ import annotations

import doctest
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Row, Types
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("method", [DataStream.to_spark, StreamExecutionEnvironment.from_spark])
def test_example(method: Any, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_configuration().set_string("penstock.spark.master", "local[2,4]")
    spark = get_session("test", "local[2,4]", {})
    names = {
        "env": env,
        "folder": tmp_path,
        "spark": spark,
        "Row": Row,
        "Types": Types,
    }
    told: list[str] = []
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(method) or "", names, method.__name__, None, 0
    )
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not told, "".join(told)
