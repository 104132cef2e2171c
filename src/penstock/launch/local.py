"""Runs a job in the user's process: `env.execute()` and `env.execute_async()`."""

from __future__ import annotations

import contextlib
import functools
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
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
from penstock.runtime.source_progress import SourceProgress
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
        self.last_epoch = 0
        """Number of the last epoch that counts; 0 before the first."""
        self.records_read = 0
        """Over all sources and epochs."""
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

    def _epoch_done(self, summary: EpochSummary) -> None:
        self.last_epoch = summary.epoch
        self.records_read += summary.records_read
        if self._listener is not None:
            self._listener(summary)

    def _run(self) -> None:
        try:
            self._drive()
        except BaseException as error:  # noqa: BLE001 - it reaches the caller through the future
            self.status = JobStatus.FAILED
            self.result.set_exception(error)

    def _drive(self) -> None:
        settings, clock = self.settings, SystemClock()
        engine = _open_engine(self.graph, settings)
        program = JobProgram(self.job_id, 0, engine.graph, settings.state, settings.parameters)
        sinks = SinkCommits(engine.graph, self.job_id, clock, engine.spark)
        driver = JobDriver(
            program,
            engine.runner(program),
            sinks,
            clock,
            admission=settings.admission,
            epoch_interval_ms=settings.epoch_interval_ms,
            on_epoch=self._epoch_done,
        )
        self._driver = driver
        if self._cancel_requested:
            driver.cancel()
        self.status = JobStatus.RUNNING
        try:
            for uid, feed in engine.feeds.items():
                feed.start(functools.partial(_progress_of, driver, uid))
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


def _progress_of(driver: JobDriver, uid: str) -> SourceProgress:
    return driver.state.sources[uid]


class _Engine:
    """What runs epochs: Spark, or this process."""

    def __init__(self, graph: JobGraph, spark: Any = None) -> None:
        self.spark = spark
        self.graph = graph
        self.feeds: dict[str, Any] = {}
        self._opened: list[Any] = []

    def runner(self, program: JobProgram) -> EpochRunner:
        """Makes the runner of one attempt."""
        runner: Any
        if self.spark is None:
            from penstock.runtime.in_process import InProcessRunner

            runner = InProcessRunner(program)
        else:
            from penstock.spark.epoch_runner import SparkEpochRunner

            runner = SparkEpochRunner(self.spark, program)
        self._opened.append(runner)
        return runner  # type: ignore[no-any-return]

    def close(self) -> None:
        for feed in self.feeds.values():
            feed.stop()
        for runner in self._opened:
            runner.close()


def _open_engine(graph: JobGraph, settings: JobSettings) -> _Engine:
    if settings.master == IN_PROCESS:
        return _Engine(with_sources_cut(graph))
    from penstock.spark.dataframes import with_dataframes_as_files
    from penstock.spark.session import get_session

    spark = get_session(graph.job_name, settings.master, settings.spark)
    engine = _Engine(graph, spark)
    graph, engine.feeds = with_dataframes_as_files(graph, settings.state.scratch_directory)
    engine.graph = with_sources_cut(graph)
    return engine


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    compiled = compile_graph(graph)
    job_id = uuid.uuid4().hex
    job = LocalJob(compiled, read_settings(configuration, job_id), job_id, listener)
    job.start()
    return job


def execute(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> JobExecutionResult:
    """Runs a program to its end."""
    return execute_async(graph, configuration, listener).wait()
