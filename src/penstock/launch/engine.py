"""What runs epochs: Spark, or this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.launch.settings import IN_PROCESS, JobSettings
from penstock.runtime.specs import with_sources_cut

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph
    from penstock.runtime.driver import EpochRunner
    from penstock.runtime.records import JobProgram


class Engine:
    """Runners for the attempts of one job.

    Attributes:
        spark: The session, or None in this process.
        graph: The job, with DataFrames replaced by the files that hold their rows.
        feeds: Queries behind streaming DataFrames, by uid; to be started with the job.
    """

    def __init__(self, graph: JobGraph, spark: Any = None) -> None:
        self.spark = spark
        self.graph = graph
        self.feeds: dict[str, Any] = {}
        self._runner: Any = None

    def runner(self, program: JobProgram) -> EpochRunner:
        """Makes the runner of an attempt; the one before is released."""
        self._release()
        if self.spark is None:
            from penstock.runtime.in_process import InProcessRunner

            self._runner = InProcessRunner(program)
        else:
            from penstock.spark.epoch_runner import SparkEpochRunner

            self._runner = SparkEpochRunner(self.spark, program)
        return self._runner  # type: ignore[no-any-return]

    def close(self) -> None:
        for feed in self.feeds.values():
            feed.stop()
        self._release()

    def _release(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def open_engine(graph: JobGraph, settings: JobSettings) -> Engine:
    """Starts Spark, unless the job runs in this process."""
    if settings.master == IN_PROCESS:
        return Engine(with_sources_cut(graph))
    from penstock.spark.dataframes import with_dataframes_as_files
    from penstock.spark.session import get_session

    spark = get_session(graph.job_name, settings.master, settings.spark)
    engine = Engine(graph, spark)
    graph, engine.feeds = with_dataframes_as_files(graph, settings.state.scratch_directory)
    engine.graph = with_sources_cut(graph)
    return engine
