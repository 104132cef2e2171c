"""What Spark says of a failed epoch becomes an error that names its cause."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import (
    EnvironmentError_,
    ExecutorLostError,
    InputError,
    StateNotHereError,
    UserFunctionError,
)
from penstock.files.errors import StorageError
from penstock.job.record import failure_of
from penstock.spark.processes import SparkMemory, epoch_failure


class Context:
    """As much of a context as is asked about a failure."""

    master = "spark://host:7077"
    _jsc: Any = None
    pythonExec = "/usr/bin/python3"

    def __init__(self) -> None:
        self._jsc = self

    def getConf(self) -> dict[str, str]:
        return {}

    def sc(self) -> Context:
        return self

    def isStopped(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "out-of-memory"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "worker-lost"),
        ("ExecutorLostFailure (executor 3 exited caused by …", "executor-lost"),
        ("Most recent failure reason: FetchFailed(BlockManagerId(2, host, 7337)", "fetch-failed"),
        ("org.apache.spark.SparkException: something else", "other"),
    ],
)
def test_the_cause_of_a_failed_epoch_is_read_from_what_spark_says(text: str, cause: str) -> None:
    context: Any = Context()
    error = epoch_failure(context, SparkMemory(context), 7, RuntimeError(text))
    assert "epoch 7" in str(error)
    assert failure_of(error, 1, 0).cause == cause


def test_an_interpreter_without_what_workers_need_is_named() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, "
        "most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (localhost executor driver): "
        "SparkException:\nError from python worker:\n"
        '    File "/opt/penstock/core/codec.py", line 9, in <module>\n'
        "  ModuleNotFoundError: No module named 'msgspec'\n"
    )
    context: Any = Context()
    error = epoch_failure(context, SparkMemory(context), 1, RuntimeError(text))
    assert isinstance(error, EnvironmentError_)
    assert "its interpreter (/usr/bin/python3) finds no module 'msgspec'" in str(error)
    # What a function of the program does not find is another matter.
    text = text.replace("Error from python worker", "Traceback (most recent call last)")
    assert "epoch 1" in str(epoch_failure(context, SparkMemory(context), 1, RuntimeError(text)))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ExecutorLostError("lost"), "executor-lost"),
        (StateNotHereError("moved"), "state-not-here"),
        (UserFunctionError("raised"), "user-function"),
        (InputError("not JSON"), "input"),
        (StorageError("no answer"), "storage"),
        (ValueError("anything"), "other"),
    ],
)
def test_an_error_has_a_cause(error: Exception, cause: str) -> None:
    assert failure_of(error, 1, 0).cause == cause
