"""A dispatcher with a running job, whose documents are there, and one that has ended."""

from __future__ import annotations

from job_samples import SUM_ID, facts
from stored_jobs_dispatcher import JOB_ID, MemoryDispatcher, job_record

from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.core.job import JobStatus
from penstock.job.documents.checkpoints import checkpoints_view
from penstock.job.documents.job import job_view, plan_view, vertex_view
from penstock.job.documents.metrics import metrics_view

OTHER_ID = "f" * 32


def filled() -> MemoryDispatcher:
    dispatcher = MemoryDispatcher()
    job = facts()
    known = CheckpointStatistics()
    line = {"id": 4, "status": "COMPLETED", "trigger_timestamp": 1, "end_to_end_duration": 9}
    history = [line | {"id": 5, "status": "FAILED"}, line]
    history = [each | {"is_savepoint": False} for each in history]
    dispatcher.add(
        job_record(
            JOB_ID, "word count", JobStatus.RUNNING, 1_000, tasks={"total": 3, "running": 3}
        ),
        job=job_view(job, 2_000),
        plan={"plan": plan_view(JOB_ID, job.graph)},
        metrics=metrics_view(job, known, 2_000),
        checkpoints=checkpoints_view(known, history),
        checkpoints__4=line | {"tasks": {}, "subtasks": {SUM_ID: {"id": 4, "subtasks": []}}},
        checkpoints__5=line | {"id": 5, "tasks": {}},
        **{f"vertices__{SUM_ID}": vertex_view(job, job.graph.stages[1], 2_000)},
    )
    dispatcher.add(job_record(OTHER_ID, "done", JobStatus.FINISHED, 1_000, 5_000))
    return dispatcher
