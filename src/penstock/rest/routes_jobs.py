"""What can be read of jobs: lists, the job itself, its vertices, plan, configuration, failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from penstock.job import documents
from penstock.job.documents.current import current_exceptions, current_result, overview_row
from penstock.rest.context import Context, JobId, VertexId
from penstock.rest.pictures import plan_svg

router = APIRouter()
Get = Annotated[str | None, Query(max_length=10_000, description="Names, separated by commas.")]


@router.get("/jobs")
def list_jobs(context: Context) -> dict[str, Any]:
    """Ids and states of all jobs."""
    jobs = context.dispatcher.jobs()
    return {"jobs": [{"id": each.job_id, "status": each.status.name} for each in jobs]}


@router.get("/jobs/overview")
def jobs_overview(context: Context) -> Any:
    """All jobs, newest first."""
    now_ms = context.clock.wall_ms()
    rows = [overview_row(record, now_ms) for record in context.dispatcher.jobs()]
    # Encoded here: with thousands of jobs the framework's own way takes longer than all else.
    return Response(msgspec.json.encode({"jobs": rows}), media_type="application/json")


@router.get("/jobs/{job_id}")
def job(job_id: JobId, context: Context) -> dict[str, Any]:
    """One job with its vertices."""
    return context.job(job_id)


@router.get("/jobs/{job_id}/status")
def job_status(job_id: JobId, context: Context) -> dict[str, Any]:
    """Where a job stands."""
    return {"status": context.dispatcher.job(job_id).status.name}


@router.get("/jobs/{job_id}/plan")
def job_plan(job_id: JobId, context: Context) -> dict[str, Any]:
    """Vertices and exchanges."""
    plan = context.find(job_id, documents.PLAN)
    return {"plan": context.job(job_id)["plan"]} if plan is None else dict(plan)


@router.get("/jobs/{job_id}/plan.svg", response_class=Response)
def job_plan_picture(job_id: JobId, context: Context) -> Response:
    """The plan as a picture."""
    return Response(plan_svg(context.job(job_id)["plan"]), media_type="image/svg+xml")


@router.get("/jobs/{job_id}/config")
def job_config(job_id: JobId, context: Context) -> Any:
    """Execution configuration in Flink's words."""
    return context.document(job_id, documents.CONFIG)


@router.get("/jobs/{job_id}/effective-config")
def job_effective_config(job_id: JobId, context: Context) -> Any:
    """Every setting with its source."""
    return context.document(job_id, documents.EFFECTIVE_CONFIG)


@router.get("/jobs/{job_id}/exceptions")
def job_exceptions(job_id: JobId, context: Context) -> Any:
    """Why the job failed, newest first."""
    record = context.dispatcher.job(job_id)
    return current_exceptions(context.find(job_id, documents.EXCEPTIONS), record)


@router.get("/jobs/{job_id}/execution-result")
def job_execution_result(job_id: JobId, context: Context) -> Any:
    """The result of a job that has ended."""
    record = context.dispatcher.job(job_id)
    written = context.find(job_id, documents.EXECUTION_RESULT)
    return current_result(written, record, job_exceptions(job_id, context))


@router.get("/jobs/{job_id}/accumulators")
def job_accumulators(job_id: JobId, context: Context) -> Any:
    """Accumulated values, of which Python programs have none."""
    context.dispatcher.job(job_id)
    return {
        "job-accumulators": [],
        "user-task-accumulators": [],
        "serialized-user-task-accumulators": {},
    }


@router.get("/jobs/{job_id}/metrics")
def job_metrics(job_id: JobId, context: Context, get: Get = None) -> list[dict[str, Any]]:
    """Names of the job's metrics; with `get` their values."""
    found = context.document(job_id, documents.METRICS)
    return with_values(found["job"], get)


@router.get("/jobs/{job_id}/vertices/{vertex_id}")
def vertex(job_id: JobId, vertex_id: VertexId, context: Context) -> Any:
    """Subtasks of one vertex."""
    found = context.document(job_id, documents.VERTEX.format(vertex=vertex_id))
    return found | {"now": context.clock.wall_ms()}


@router.get("/jobs/{job_id}/vertices/{vertex_id}/metrics")
def vertex_metrics(
    job_id: JobId, vertex_id: VertexId, context: Context, get: Get = None
) -> list[dict[str, Any]]:
    """Names of a vertex' metrics, by subtask and operator; with `get` their values."""
    pairs = vertex_metric_pairs(context.document(job_id, documents.METRICS), vertex_id)
    return with_values(pairs, get)


@router.get("/jobs/{job_id}/vertices/{vertex_id}/watermarks")
def vertex_watermarks(job_id: JobId, vertex_id: VertexId, context: Context) -> list[dict[str, Any]]:
    """The input watermark of each subtask."""
    pairs = vertex_metric_pairs(context.document(job_id, documents.METRICS), vertex_id)
    wanted = [name for name in pairs if name.count(".") == 1 and "Watermark" in name]
    return with_values(pairs, ",".join(wanted)) if wanted else []


@router.get("/jobs/{job_id}/vertices/{vertex_id}/backpressure")
def vertex_backpressure(job_id: JobId, vertex_id: VertexId, context: Context) -> dict[str, Any]:
    """How long subtasks waited for those behind them."""
    found = vertex(job_id, vertex_id, context)
    subtasks = [
        {
            "subtask": each["subtask"],
            "backpressureLevel": _level(each["figures"]["back-pressured-share"]),
            "ratio": each["figures"]["back-pressured-share"],
            "idleRatio": each["figures"]["idle-share"],
            "busyRatio": each["figures"]["busy-share"],
        }
        for each in found["subtasks"]
    ]
    worst = max((each["ratio"] for each in subtasks), default=0.0)
    return {
        "status": "ok",
        "backpressureLevel": _level(worst),
        "end-timestamp": found["now"],
        "subtasks": subtasks,
    }


def _level(ratio: float) -> str:
    """Flink's thresholds."""
    if ratio <= 0.1:
        return "ok"
    return "low" if ratio <= 0.5 else "high"


def with_values(pairs: Mapping[str, Any], get: str | None) -> list[dict[str, Any]]:
    """Returns the names, or the values of those that are asked for; unknown ones are left out."""
    if get is None:
        return [{"id": name} for name in pairs]
    names = [name.strip() for name in get.split(",")]
    return [{"id": name, "value": _text(pairs[name])} for name in names if name in pairs]


def vertex_metric_pairs(document: Mapping[str, Any], vertex_id: str) -> dict[str, Any]:
    """Returns the metrics of a vertex as `<subtask>.<name>` and `<subtask>.<operator>.<name>`."""
    for vertex in document["vertices"]:
        if vertex["id"] == vertex_id:
            break
    else:
        raise HTTPException(404, f"There is no vertex {vertex_id}.")
    pairs: dict[str, Any] = {}
    for subtask in vertex["subtasks"]:
        index = subtask["subtask"]
        pairs |= {f"{index}.{name}": value for name, value in subtask["task"].items()}
        for uid, figures in subtask["operators"].items():
            operator = vertex["operators"].get(uid, uid).replace(" ", "_")
            pairs |= {f"{index}.{operator}.{name}": value for name, value in figures.items()}
    return pairs


def _text(value: Any) -> str:
    # Flink's word for a watermark that has not come is the least number.
    return str(-(2**63)) if value is None else str(value)
