"""Runs a program in the user's process: `env.execute()` and `env.execute_async()`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from penstock.graph.compile import compile_graph
from penstock.launch.local_job import LocalJob
from penstock.launch.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.configuration import Configuration
    from penstock.core.job import JobExecutionResult
    from penstock.graph.nodes import StreamGraph
    from penstock.runtime.driver import EpochSummary

    Listener = Callable[[EpochSummary], None]


def execute_async(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> LocalJob:
    """Compiles a program, starts it and returns at once."""
    compiled = compile_graph(graph)
    job_id = uuid.uuid4().hex  # noqa: TID251 - the composition root is where ids come from
    job = LocalJob(compiled, read_settings(configuration, job_id), job_id, listener)
    job.start()
    return job


def execute(
    graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
) -> JobExecutionResult:
    """Runs a program to its end."""
    return execute_async(graph, configuration, listener).wait()
