"""Runs a program in the user's process: `env.execute()` and `env.execute_async()`."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.graph.compile import compile_graph
from penstock.launch import embedded_service
from penstock.launch.banner import banner_lines, banner_warnings, engine_name, facts_of
from penstock.launch.local_job import LocalJob
from penstock.launch.settings import make_absolute, read_settings
from penstock.runtime.specs import check_alignment

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.graph.nodes import StreamGraph
    from penstock.runtime.driver import EpochSummary

    Listener = Callable[[EpochSummary], None]
    Launcher = Callable[[StreamGraph, Configuration, Listener | None], LocalJob]

_log = logging.getLogger("penstock.job")
_launchers: list[Launcher] = []


def set_launcher(launcher: Launcher) -> None:
    """Has every job of this process started by `launcher`, which may call `start_job`.

    For processes that exist to run a user's program for somebody else: the driver of a job
    manager, the command line's `run -t local`, `info` and `check-restore`.
    """
    _launchers[:] = [launcher]


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    launch = _launchers[0] if _launchers else start_job
    return launch(graph, configuration, listener)


def start_job(  # noqa: PLR0913 - what a job manager adds
    graph: StreamGraph,
    configuration: Configuration,
    listener: Listener | None = None,
    *,
    job_id: str | None = None,
    leader_epoch: int = 1,
    before_start: Callable[[LocalJob], None] | None = None,
) -> LocalJob:
    """Starts a job in this process, whoever launches the others.

    Args:
        graph: The program.
        configuration: Its settings.
        listener: Is told of each epoch.
        job_id: Chosen by a job manager; None for a new one.
        leader_epoch: Rises with every attempt that a job manager starts.
        before_start: Is shown the job before anything of it runs.
    """
    compiled = compile_graph(graph)
    check_alignment(compiled)
    # A managed job has the page of its manager.
    has_page = job_id is None and bool(configuration.read("penstock.ui.enabled"))
    if has_page:
        embedded_service.check_available()
    # The composition root is where ids come from.
    job_id = job_id or uuid.uuid4().hex  # noqa: TID251
    make_absolute(configuration)
    settings = read_settings(configuration, job_id, leader_epoch)
    facts = facts_of(job_id, compiled, settings, engine_name(settings.master))
    _log.info("%s", "\n".join(banner_lines(facts, settings, configuration)))
    for warning in banner_warnings(facts, settings):
        _log.warning("%s", warning)
    job = LocalJob(compiled, settings, job_id, listener)
    if before_start is not None:
        before_start(job)
    job.start()
    _log.info("Job has been submitted with JobID %s", job_id)
    if has_page:
        embedded_service.serve(job, configuration)
    return job
