"""Runs a program in the user's process: `env.execute()` and `env.execute_async()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.job.start import launcher, start_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.configuration import Configuration
    from penstock.graph.nodes import StreamGraph
    from penstock.job.local_job import Listener, LocalJob


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    return (launcher() or start_with_page)(graph, configuration, listener)


def start_with_page(
    graph: StreamGraph,
    configuration: Configuration,
    listener: Listener | None = None,
    *,
    before_start: Callable[[LocalJob], None] | None = None,
) -> LocalJob:
    """Starts a job in this process, with a web page if the configuration asks for one."""
    if not configuration.read("penstock.ui.enabled"):
        return start_job(graph, configuration, listener, before_start=before_start)
    # Not with this module: pages, and what they show of snapshots, take long to import.
    from penstock.launch import embedded_service

    embedded_service.check_available()
    job = start_job(graph, configuration, listener, before_start=before_start)
    embedded_service.serve(job, configuration)
    return job
