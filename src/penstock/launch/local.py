"""Runs a job in the user's process: `env.execute()` and `env.execute_async()`."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.clock import SystemClock
from penstock.core.configuration import Configuration
from penstock.core.errors import JobExecutionError
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.graph.compile import compile_graph
from penstock.graph.job_graph import JobGraph
from penstock.graph.nodes import StreamGraph
from penstock.launch.settings import IN_PROCESS, JobSettings, read_settings
from penstock.runtime.driver import EpochRunner, EpochSummary, JobDriver
from penstock.runtime.records import JobProgram
from penstock.runtime.sink_commits import SinkCommits
from penstock.runtime.specs import with_sources_cut

Listener = Callable[[EpochSummary], None]


class LocalJob:
    """One job in this process: a thread that drives epochs on a Spark session."""

    def __init__(
        self, graph: JobGraph, settings: JobSettings, job_id: str, listener: Listener | None
    ) -> None:
        self.job_id = job_id
        self.graph = graph
        self.settings = settings
        self.status = JobStatus.INITIALIZING
        self.result: Future[JobExecutionResult] = Future()
        self._listener = listener
        self._driver: JobDriver | None = None
        self._cancel_requested = False
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{job_id[:8]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Asks the job to stop after the running epoch."""
        self._cancel_requested = True
        if self._driver is not None:
            self.status = JobStatus.CANCELLING
            self._driver.cancel()

    def wait(self) -> JobExecutionResult:
        """Waits for the end; Ctrl-C cancels the job."""
        try:
            return self.result.result()
        except KeyboardInterrupt:
            self.cancel()
            self._thread.join(timeout=30)
            raise

    def _run(self) -> None:
        try:
            self._drive()
        except BaseException as error:  # noqa: BLE001 - it reaches the caller through the future
            self.status = JobStatus.FAILED
            self.result.set_exception(error)

    def _drive(self) -> None:
        settings, clock = self.settings, SystemClock()
        program = JobProgram(self.job_id, 0, self.graph, settings.state, settings.parameters)
        engine = _open_engine(program, settings)
        sinks = SinkCommits(self.graph, self.job_id, clock, engine.spark)
        driver = JobDriver(
            program,
            engine.runner,
            sinks,
            clock,
            admission=settings.admission,
            epoch_interval_ms=settings.epoch_interval_ms,
            on_epoch=self._listener,
        )
        self._driver = driver
        if self._cancel_requested:
            driver.cancel()
        self.status = JobStatus.RUNNING
        try:
            driver.run()
        finally:
            sinks.close()
            engine.close()
            with contextlib.suppress(OSError):
                shutil.rmtree(Path(settings.state.directory).parent)
        if driver.is_cancelled:
            self.status = JobStatus.CANCELED
            self.result.set_exception(JobExecutionError("the job was cancelled."))
            return
        self.status = JobStatus.FINISHED
        runtime_ms = int((time.monotonic() - self._started) * 1000)
        self.result.set_result(JobExecutionResult(JobID(self.job_id), runtime_ms))


@dataclass(frozen=True, slots=True)
class _Engine:
    """What runs epochs, and how to release it."""

    runner: EpochRunner
    close: Callable[[], None]
    spark: Any = None


def _open_engine(program: JobProgram, settings: JobSettings) -> _Engine:
    if settings.master == IN_PROCESS:
        from penstock.runtime.in_process import InProcessRunner

        in_process = InProcessRunner(program)
        return _Engine(in_process, in_process.close)
    from penstock.spark.epoch_runner import SparkEpochRunner
    from penstock.spark.session import get_session

    spark = get_session(program.graph.job_name, settings.master, settings.spark)
    runner = SparkEpochRunner(spark, program)
    return _Engine(runner, runner.close, spark)


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    compiled = with_sources_cut(compile_graph(graph))
    job_id = uuid.uuid4().hex
    job = LocalJob(compiled, read_settings(configuration, job_id), job_id, listener)
    job.start()
    return job


def execute(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> JobExecutionResult:
    """Runs a program to its end."""
    return execute_async(graph, configuration, listener).wait()
