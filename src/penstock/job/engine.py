"""What runs epochs: Spark, or this process."""

from __future__ import annotations

import logging
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.spark import SparkSink
from penstock.core import codec
from penstock.core.errors import EnvironmentError_
from penstock.job.attempt_directories import clear_attempt
from penstock.job.record import EngineFacts, ExecutorFacts
from penstock.job.settings import IN_PROCESS, JobSettings
from penstock.runtime.lowering import SinkSpec, lower, with_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph.job_graph import JobGraph
    from penstock.runtime.driver import EpochRunner
    from penstock.runtime.job_state import JobState
    from penstock.runtime.records import JobProgram
    from penstock.spark.dependencies import Here, WorkerSetup

_log = logging.getLogger("penstock.job")


class Engine:
    """Runners for the attempts of one job.

    Attributes:
        spark: The session, or None in this process.
        graph: The job, with DataFrames replaced by the files that hold their rows.
        worker_setup: What workers do about shipped files.
        here: Files of a job in this process, if it brought some.
        feeds: Queries behind streaming DataFrames, by uid; to be started with the job.
    """

    def __init__(self, graph: JobGraph, spark: Any = None) -> None:
        self.spark = spark
        self._start: Callable[[Engine], None] | None = None
        """Starts a session, if nothing but epochs runs in it."""
        self.graph = graph
        self.feeds: dict[str, Any] = {}
        self.worker_setup: WorkerSetup | None = None
        self.here: Here | None = None
        self.shared: dict[str, str] = {}
        """Directories that all executors must see, by the setting that names them."""
        self.slots_before = 0
        """Slots of the executors of a cluster that the job had last, maybe in another process."""
        self._runner: Any = None
        self._before: Any = None
        """The runner of the attempt before: state is where it ran."""

    def keeps_state_apart(self, shares_directory: bool | None) -> bool:
        """Whether state files stay with executors, which share no directory with the driver.

        Args:
            shares_directory: What the configuration says; None: nothing.
        """
        if self.spark is None:
            return False
        if shares_directory is None:
            return not str(self.spark.sparkContext.master).startswith("local")
        return not shares_directory

    def slots(self) -> int:
        """Returns how many tasks executors run at once; 0 where that is not known."""
        return 0 if self.spark is None or self._runner is None else int(self._runner.slots)

    def executors(self) -> tuple[ExecutorFacts, ...]:
        """Returns the executors of a cluster as of the last epoch; empty where there are none."""
        found = () if self.spark is None or self._runner is None else self._runner.executors
        return tuple(ExecutorFacts(*each) for each in found)

    def slots_of_executors(self) -> int:
        """Returns the slots of the executors of a cluster; 0 where there are none."""
        return sum(each.slots for each in self.executors())

    def runner(self, program: JobProgram) -> EpochRunner:
        """Makes the runner of an attempt; the one before is released."""
        self.slots_before = self.slots_of_executors() or self.slots_before
        self._before, self._runner = self._runner, None
        if self._before is not None:
            self._before.close()
        if self.spark is None:
            from penstock.runtime.in_process import InProcessRunner

            self._runner = InProcessRunner(program)
        else:
            from penstock.spark.epoch_runner import SparkEpochRunner

            self._runner = SparkEpochRunner(
                self.spark, program, self.worker_setup, self._before, self.shared
            )
            self._runner.enough = self.slots_before
        return self._runner  # type: ignore[no-any-return]

    def start_again(self) -> None:
        """Starts Spark again, whose JVM died.

        Raises:
            EnvironmentError_: The session, or DataFrames in it, were the program's own.
        """
        if self._start is None:
            raise EnvironmentError_(
                "Spark's JVM died, and the program's own session or DataFrames with it, so the job "
                "cannot be restarted in this process. Run the program again."
            )
        from penstock.spark.processes import forget

        self._release()
        forget(self.spark)
        self._start(self)

    def reshape(self, graph: JobGraph, settings: JobSettings) -> None:
        """Has the next attempt run a job without DataFrames with other parallelisms."""
        self.graph = with_settings(_lowered(graph, settings), settings.storage_options)

    def check_restored(self, state: JobState) -> None:
        """Refuses a snapshot that does not say where sources of this engine's go on."""
        for uid, feed in self.feeds.items():
            feed.check_restored(state.sources[uid])

    def close(self) -> None:
        for feed in self.feeds.values():
            feed.stop()
        if self.spark is not None and self._runner is not None:
            self._runner.ends_job = True
        self._release()
        if self.here is not None:
            self.here.close()

    def _release(self) -> None:
        self.slots_before = self.slots_of_executors() or self.slots_before
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def open_engine(graph: JobGraph, settings: JobSettings) -> Engine:
    """Starts Spark, unless the job runs in this process; a failure leaves no files."""
    try:
        return _opened(graph, settings)
    except BaseException:
        clear_attempt(Path(settings.state.directory).parent)
        raise


def _opened(graph: JobGraph, settings: JobSettings) -> Engine:
    if settings.master == IN_PROCESS:
        codec.register_by_value_pickler(_pickled_by_value)
        engine = Engine(with_settings(_lowered(graph, settings), settings.storage_options))
        if not settings.dependencies.are_none:
            from penstock.spark.dependencies import Here

            engine.here = Here(settings.dependencies)
        return engine
    from penstock.spark.dataframes import with_dataframes_as_files
    from penstock.spark.dependencies import ship
    from penstock.spark.session import get_session, made_here

    light = not any(
        isinstance(operator.spec, SinkSpec) and isinstance(operator.spec.sink, SparkSink)
        for operator in graph.operators
    )

    def start(engine: Engine) -> None:
        engine.spark = get_session(
            graph.job_name,
            settings.master,
            settings.spark,
            light=light,
            shares_classes=settings.shares_classes,
        )
        engine.worker_setup = ship(engine.spark.sparkContext, settings.dependencies)

    engine = Engine(graph)
    start(engine)
    graph, engine.feeds = with_dataframes_as_files(
        graph, settings.state.scratch_directory, takes_checkpoints=settings.checkpoints.is_enabled
    )
    engine.graph = with_settings(_lowered(graph, settings), settings.storage_options)
    if light and not engine.feeds and made_here(engine.spark.sparkContext):
        engine._start = start
    return engine


def _pickled_by_value(value: Any) -> bytes:
    # Only here, since a job in this process need not load Spark.
    from pyspark import cloudpickle

    return cloudpickle.dumps(value)  # type: ignore[no-any-return,no-untyped-call]


def _lowered(graph: JobGraph, settings: JobSettings) -> JobGraph:
    if not settings.lowers:
        return graph
    lowered = lower(graph)
    for uid, remark in lowered.remarks.items():
        _log.info("Window operator %s: %s.", uid, remark or "lowered to columns")
    return lowered.graph


def engine_facts(master: str, spark: Any) -> EngineFacts:
    """Asks the engine who it is; called once, when it has started."""
    if master == IN_PROCESS or spark is None:
        return EngineFacts("this process", platform.node())
    context = spark.sparkContext
    running = context.master
    executors = 1
    if not running.startswith("local"):
        known = context._jsc.sc().getExecutorMemoryStatus().size()
        # The driver is among them.
        executors = max(known - 1, 1)
    name = f"Spark {spark.version} ({running})"
    return EngineFacts(name, platform.node(), executors, context.defaultParallelism)
