"""What can be read of a job's checkpoints."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from penstock.job import documents
from penstock.job.documents.checkpoints import checkpoints_view
from penstock.rest.context import (
    CheckpointId,
    CheckpointsDocument,
    Context,
    JobId,
    RestContext,
    VertexId,
)
from penstock.rest.pictures import timeline_svg

router = APIRouter()
_MOST_LINES: Final = 10_000


@router.get("/jobs/{job_id}/checkpoints")
def checkpoints(
    job_id: JobId,
    context: Context,
    newest: Annotated[int | None, Query(ge=0, le=_MOST_LINES)] = None,
    older_than: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Any:
    """Counts, summary, the latest of each kind, history: all of it, or a part of `newest` lines."""
    # Not parsed: a long history is handed on as it is.
    content = context.dispatcher.document(job_id, documents.CHECKPOINTS)
    if content is None:
        return checkpoints_view(None, [])
    if newest is not None or older_than is not None:
        content = CheckpointsDocument(content).part(
            _MOST_LINES if newest is None else newest, older_than
        )
    return Response(content, media_type="application/json")


@router.get("/jobs/{job_id}/checkpoints/config")
def checkpoint_config(job_id: JobId, context: Context) -> Any:
    """What governs checkpoints, with the source of each value."""
    return context.document(job_id, documents.CHECKPOINT_CONFIG)


@router.get("/jobs/{job_id}/checkpoints/timeline.svg", response_class=Response)
def checkpoint_timeline(job_id: JobId, context: Context) -> Response:
    """Recent checkpoints as bars in time."""
    found = context.checkpoints(job_id)
    lines = iter(()) if found is None else found.lines()
    return Response(timeline_svg(lines), media_type="image/svg+xml")


@router.get("/jobs/{job_id}/checkpoints/details/latest")
def latest_checkpoint_details(
    job_id: JobId,
    context: Context,
    status: Annotated[Literal["COMPLETED", "FAILED", "IN_PROGRESS"] | None, Query()] = None,
) -> Any:
    """The newest checkpoint, or the newest of a status."""
    found = context.checkpoints(job_id)
    for line in () if found is None else found.lines():
        if status in (None, line["status"]):
            return checkpoint_details(job_id, line["id"], context)
    raise HTTPException(404, f"Job {job_id} has no such checkpoint yet.")


@router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}")
def checkpoint_details(job_id: JobId, checkpoint_id: CheckpointId, context: Context) -> Any:
    """One checkpoint with its tasks."""
    found = _details(job_id, checkpoint_id, context)
    found.pop("subtasks", None)
    return found


@router.get("/jobs/{job_id}/checkpoints/details/{checkpoint_id}/subtasks/{vertex_id}")
def checkpoint_subtasks(
    job_id: JobId, checkpoint_id: CheckpointId, vertex_id: VertexId, context: Context
) -> Any:
    """One task of one checkpoint with its subtasks."""
    found = _details(job_id, checkpoint_id, context).get("subtasks", {}).get(vertex_id)
    if found is None:
        raise HTTPException(
            404, f"Checkpoint {checkpoint_id} has no figures of vertex {vertex_id} (yet)."
        )
    return found


def _details(job_id: str, checkpoint_id: int, context: RestContext) -> dict[str, Any]:
    name = documents.CHECKPOINT.format(checkpoint=checkpoint_id)
    found: dict[str, Any] = context.document(job_id, name)
    return found
