"""A small job and its facts, for tests of views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from penstock.core.job import JobStatus
from penstock.graph.job_graph import ChainedOperator, Edge, JobGraph, Stage
from penstock.graph.nodes import KeyGroups, NodeKind
from penstock.job.record import EngineFacts, JobFacts
from penstock.jobmanager.job_records import JobRecord
from penstock.runtime.job_metrics import JobMetrics, JobTotals, OperatorTotals, SubtaskTotals

JOB_ID = "40dcc6d2ba90f13930abce295de8d038"

GRAPH = JobGraph(
    "word count",
    (
        Stage(
            0,
            0,
            1,
            128,
            (
                ChainedOperator(
                    1, NodeKind.SOURCE, "words", False, "Source: words", None, None, None
                ),
            ),
        ),
        Stage(
            1,
            1,
            2,
            128,
            (
                ChainedOperator(2, NodeKind.OPERATOR, "sum", False, "Sum", None, None, None),
                ChainedOperator(3, NodeKind.SINK, "out", True, "Sink: out", None, 0, None),
            ),
        ),
    ),
    (Edge(0, 0, 0, None, KeyGroups(str), 1, 0),),
)

SOURCE_ID, SUM_ID = (stage.vertex_id for stage in GRAPH.stages)


def totals(records: int, *, uid: str, state_bytes: int = 0, ended: bool = False) -> SubtaskTotals:
    operators = {
        uid: OperatorTotals(
            records, records, late_dropped=1, watermark_out=900, state_bytes=state_bytes
        )
    }
    return SubtaskTotals(records, records, 500.0, 100.0, 3.0, 1000, ended, operators)


def facts(**changes: Any) -> JobFacts:
    """A job that was started at 1 s, runs since 2 s, and has done one epoch until 12 s."""
    metrics = JobMetrics(
        JobTotals(
            1,
            1,
            2_000,
            100,
            60,
            True,
            {
                (0, 0): totals(60, uid="words"),
                (1, 0): totals(20, uid="sum", state_bytes=300),
                (1, 1): totals(40, uid="sum", state_bytes=100),
            },
        ),
        started_ms=2_000,
    )
    of_record = {name: changes.pop(name) for name in ("status", "ended_ms") if name in changes}
    record = JobRecord(
        job_id=JOB_ID,
        name=GRAPH.job_name,
        submitted_ms=1_000,
        status=JobStatus.RUNNING,
        timestamps={JobStatus.INITIALIZING: 1_000, JobStatus.RUNNING: 2_000},
    )
    job = JobFacts(
        msgspec.structs.replace(record, **of_record),
        GRAPH,
        metrics,
        rates_at_ms=12_000,
        engine=EngineFacts("Spark 4.1.0 (local[2])", "host1", 1, 2),
    )
    return replace(job, **changes)
