"""Starts the job of a program in this process."""

from __future__ import annotations

import atexit
import logging
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.job import JobStatus
from penstock.graph.compile import compile_graph
from penstock.job.banner import banner_lines, banner_warnings, engine_name, facts_of
from penstock.job.local_job import LocalJob
from penstock.job.record import in_one_line
from penstock.job.settings import make_absolute, read_settings
from penstock.runtime.lowering import check_alignment

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.core.configuration import Configuration
    from penstock.core.job import JobExecutionResult
    from penstock.graph.nodes import StreamGraph
    from penstock.job.local_job import Listener

    Launcher = Callable[[StreamGraph, Configuration, Listener | None], LocalJob]

_log = logging.getLogger("penstock.job")
_launchers: list[Launcher] = []
_unattended: set[LocalJob] = set()
"""Jobs of `execute_async` that have not ended."""


def set_launcher(launcher: Launcher) -> None:
    """Has every job of this process started by `launcher`, which may call `start_job`.

    For processes that exist to run a user's program for another process: the driver of a job
    manager, the command line's `run -t local`, `info` and `check-restore`.
    """
    _launchers[:] = [launcher]


def launcher() -> Launcher | None:
    """Returns what starts the jobs of this process; None for a program that runs for itself."""
    return _launchers[0] if _launchers else None


def start_job(  # noqa: PLR0913 - what a job manager adds
    graph: StreamGraph,
    configuration: Configuration,
    listener: Listener | None = None,
    *,
    job_id: str | None = None,
    leader_epoch: int = 1,
    before_start: Callable[[LocalJob], None] | None = None,
) -> LocalJob:
    """Starts a job in this process, without a page.

    Args:
        graph: The program.
        configuration: Its settings.
        listener: Called after each epoch.
        job_id: Chosen by a job manager; None for a new one.
        leader_epoch: Rises with every attempt that a job manager starts.
        before_start: Is shown the job before anything of it runs.
    """
    compiled = compile_graph(graph)
    check_alignment(compiled)
    # The composition root is where ids come from.
    job_id = job_id or uuid.uuid4().hex  # noqa: TID251
    make_absolute(configuration)
    settings = read_settings(configuration, job_id, leader_epoch)
    facts = facts_of(job_id, compiled, settings, engine_name(settings.master))
    _log.info("%s", "\n".join(banner_lines(facts, settings, configuration)))
    for warning in banner_warnings(facts, settings):
        _log.warning("%s", warning)
    job = LocalJob(graph, compiled, settings, job_id, listener)
    if before_start is not None:
        before_start(job)
    job.start()
    _log.info("Job has been submitted with JobID %s", job_id)
    return job


def tell_how_it_ends(job: LocalJob) -> None:
    """Has a job that the program may not wait for say so when it fails, or is cut off."""

    def ended(result: Future[JobExecutionResult]) -> None:
        _unattended.discard(job)
        if not threading.main_thread().is_alive():
            _cut_off(job)
        elif job.status is JobStatus.FAILED:
            error = result.exception()
            if error is not None:
                what = in_one_line(error).rstrip(".")
                hint = "client.get_job_execution_result().result() raises it in full."
                _log.error("Job %s failed: %s. %s", job.job_id, what, hint)

    if not _unattended:
        atexit.register(_cut_off_all)
    _unattended.add(job)
    job.result.add_done_callback(ended)


def _cut_off_all() -> None:
    for job in list(_unattended):
        _cut_off(job)
    _unattended.clear()


def _cut_off(job: LocalJob) -> None:
    _log.warning(
        "The program ended before job %s, which ends with it. Wait for the job: "
        "client.get_job_execution_result().result(), or env.execute().",
        job.job_id,
    )
