"""PyFlink's `common.job_client`: a running job, as its program sees it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from penstock.common.completable_future import CompletableFuture
from penstock.core.errors import UnsupportedError
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.core.refused_names import names_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.common.job_figures import OperatorFigures

__all__ = ["CheckpointList", "JobClient"]

__getattr__ = names_of(__name__)


class RunningJob(Protocol):
    """What launches a job hands back; further methods are used where it has them."""

    job_id: str
    status: JobStatus
    result: Future[JobExecutionResult]

    def cancel(self) -> None:
        """Asks the job to stop."""


class CheckpointList(list[Any]):
    """Checkpoints, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from penstock.job.html import checkpoints_html

        return checkpoints_html(self)


class JobClient:
    """Asks about a job and steers it."""

    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def get_job_id(self) -> JobID:
        return JobID(self._job.job_id)

    def get_job_status(self) -> CompletableFuture:
        """Returns a future of the job's status."""
        return CompletableFuture.completed(self._job.status)

    def cancel(self) -> CompletableFuture:
        """Asks the job to stop, without a savepoint."""
        self._job.cancel()
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Takes a savepoint and stops; the future holds its path.

        Args:
            advance_to_end_of_event_time: Fires all timers and windows first; for jobs that will
                not be resumed.
            savepoint_directory: Where; `execution.checkpointing.savepoint-dir` if None.
        """
        stop = self._ability("stop_with_savepoint")
        return CompletableFuture(
            stop(drain=advance_to_end_of_event_time, directory=savepoint_directory), str
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint while the job goes on; the future holds its path."""
        trigger = self._ability("trigger_savepoint")
        return CompletableFuture(trigger(directory=savepoint_directory), str)

    def trigger_checkpoint(self) -> CompletableFuture:
        """Takes a checkpoint now; the future holds its number."""
        return CompletableFuture(self._ability("trigger_checkpoint")())

    def checkpoints(self) -> CheckpointList:
        """Returns the checkpoints and savepoints of the job, newest first."""
        return CheckpointList(self._ability("checkpoints")())

    def metrics(self) -> dict[str, OperatorFigures]:
        """Returns what each operator has done, with the user's own metrics, by uid."""
        from penstock.common.job_figures import figures_of

        return figures_of(self._ability("facts")())

    def add_listener(self, listener: Any) -> None:
        """Has a listener told of what happens from now on; see the environment's method."""
        self._ability("listeners").add(listener)

    @property
    def last_epoch(self) -> int:
        """Number of the last epoch that ended."""
        return int(self._ability("last_epoch"))

    def get_accumulators(self) -> CompletableFuture:
        """Returns a future of all accumulated values by name."""
        result = self._job.result
        done = result.done() and result.exception() is None
        values = result.result().get_all_accumulator_results() if done else {}
        return CompletableFuture.completed(values)

    def get_job_execution_result(self) -> CompletableFuture:
        """Returns a future of the result, which comes when the job has ended."""
        return CompletableFuture(self._job.result)

    def exception(self) -> BaseException | None:
        """Returns why the job failed; None if it did not, was cancelled, or has not ended."""
        error = self.get_job_execution_result().exception()
        return None if self._job.status is JobStatus.CANCELED else error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds; says whether it came. Raises a failure.

        To be cancelled is no failure here, as with Spark's queries; the future of
        `get_job_execution_result()` raises then, as Flink's does.
        """
        with contextlib.suppress(TimeoutError):
            self._job.result.exception(timeout)
        if not self._job.result.done():
            return False
        if self._job.status is not JobStatus.CANCELED:
            self._job.result.result()
        return True

    def _wait_quietly(self) -> None:
        """Waits for the end of a job that was cancelled."""
        with contextlib.suppress(Exception):
            self._job.result.result()

    def _ability(self, name: str) -> Any:
        found = getattr(self._job, name, None)
        if found is None:
            raise UnsupportedError(
                f"the job does not offer {name}: it runs in this process. Submit it to a job "
                "manager (penstock run -d) for that."
            )
        return found

    def _repr_html_(self) -> str:
        from penstock.core.clock import SystemClock
        from penstock.job.digest import digest_of
        from penstock.job.html import checkpoints_html, job_html

        table = job_html(digest_of(self._job, SystemClock().wall_ms()))  # type: ignore[arg-type]
        records = self.checkpoints()[:5]
        return table + (checkpoints_html(records) if records else "")

    def __repr__(self) -> str:
        return f"JobClient({self._job.job_id}, {self._job.status.name})"
