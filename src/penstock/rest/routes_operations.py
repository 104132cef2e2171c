"""What can be asked of jobs: cancel, savepoint, stop, checkpoint, rescale; and disposals.

A long operation answers 202 with its trigger id; the same id asked for twice is one operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from penstock.core.redaction import without_secrets
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    Operation,
    OperationStatus,
    RefusedError,
)
from penstock.rest.access import check_place, is_flink_client
from penstock.rest.context import HEX_32, Context, JobId, TriggerId, problem

if TYPE_CHECKING:
    from fastapi.responses import Response

router = APIRouter()

_FAILURE_CLASS: Final = "org.apache.flink.util.FlinkException"
"""Flink's client wants the name of a class; any that it has will do."""

Format = Literal["CANONICAL", "NATIVE"]
Place = Annotated[str, Field(min_length=1, max_length=4096)]
Trigger = Annotated[str, Field(pattern=HEX_32)]


class _Body(BaseModel):
    # Later clients of Flink may send more than we know.
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    trigger_id: Trigger | None = Field(None, alias="triggerId")


class SavepointRequest(_Body):
    """Take a savepoint while the job goes on."""

    target_directory: Place | None = Field(None, alias="target-directory")
    cancel_job: bool | None = Field(None, alias="cancel-job")
    format_type: Format | None = Field(None, alias="formatType")


class StopRequest(_Body):
    """Stop with a savepoint."""

    target_directory: Place | None = Field(None, alias="targetDirectory")
    drain: bool | None = None
    format_type: Format | None = Field(None, alias="formatType")


class CheckpointRequest(_Body):
    """Take a checkpoint now."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = Field(
        None, alias="checkpointType"
    )


class Bounds(BaseModel):
    """How many subtasks a vertex may have; as many as the upper bound are started."""

    lower: int = Field(1, alias="lowerBound", ge=1)
    upper: int = Field(alias="upperBound", ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> Bounds:
        if self.lower > self.upper:
            raise ValueError(
                f"lowerBound {self.lower} is above upperBound {self.upper}: lower one, or raise "
                "the other"
            )
        return self


class Requirements(BaseModel):
    """What a vertex needs."""

    parallelism: Bounds


class DisposalRequest(_Body):
    """Delete a savepoint."""

    savepoint_path: Place = Field(alias="savepoint-path")


@router.patch("/jobs/{job_id}", status_code=202)
def cancel_job(
    job_id: JobId, context: Context, mode: Annotated[Literal["cancel"], Query()] = "cancel"
) -> dict[str, Any]:
    """Cancels a job, without a savepoint."""
    del mode
    if not context.settings.cancel_enabled:
        raise HTTPException(403, "web.cancel.enable is false: jobs cannot be cancelled from here.")
    if context.dispatcher.job(job_id).status.is_globally_terminal_state():
        raise RefusedError(f"Job {job_id} has ended already.")
    context.dispatcher.trigger(job_id, Command(CommandKind.CANCEL))
    return {}


@router.post("/jobs/{job_id}/savepoints", status_code=202)
def trigger_savepoint(
    job_id: JobId, context: Context, body: SavepointRequest | None = None
) -> dict[str, Any]:
    """Takes a savepoint."""
    body = body or SavepointRequest.model_validate({})
    cancels = bool(body.cancel_job)
    if cancels and not context.settings.cancel_enabled:
        raise HTTPException(403, "web.cancel.enable is false: jobs cannot be cancelled from here.")
    check_place(body.target_directory, context.settings.savepoint_roots)
    command = Command(
        CommandKind.SAVEPOINT,
        directory=body.target_directory,
        native=body.format_type == "NATIVE",
        cancel_job=cancels,
    )
    return {"request-id": context.dispatcher.trigger(job_id, command, body.trigger_id)}


@router.post("/jobs/{job_id}/stop", status_code=202)
def stop_job(job_id: JobId, context: Context, body: StopRequest | None = None) -> dict[str, Any]:
    """Stops a job with a savepoint."""
    body = body or StopRequest.model_validate({})
    if not context.settings.cancel_enabled:
        raise HTTPException(403, "web.cancel.enable is false: jobs cannot be stopped from here.")
    check_place(body.target_directory, context.settings.savepoint_roots)
    command = Command(
        CommandKind.STOP,
        directory=body.target_directory,
        drain=bool(body.drain),
        native=body.format_type == "NATIVE",
    )
    return {"request-id": context.dispatcher.trigger(job_id, command, body.trigger_id)}


@router.get("/jobs/{job_id}/savepoints/{trigger_id}")
def savepoint_status(
    job_id: JobId, trigger_id: TriggerId, context: Context, request: Request
) -> Any:
    """State and result of a savepoint, or of a stop."""
    operation = context.dispatcher.operation(job_id, trigger_id)
    return _answer(operation, trigger_id, request, "location")


@router.post("/jobs/{job_id}/checkpoints", status_code=202)
def trigger_checkpoint(
    job_id: JobId, context: Context, body: CheckpointRequest | None = None
) -> dict[str, Any]:
    """Takes a checkpoint now."""
    body = body or CheckpointRequest.model_validate({})
    command = Command(CommandKind.CHECKPOINT, full=body.checkpoint_type == "FULL")
    return {"request-id": context.dispatcher.trigger(job_id, command, body.trigger_id)}


@router.get("/jobs/{job_id}/checkpoints/{trigger_id}")
def checkpoint_status(
    job_id: JobId, trigger_id: TriggerId, context: Context, request: Request
) -> Any:
    """State and result of a requested checkpoint."""
    operation = context.dispatcher.operation(job_id, trigger_id)
    return _answer(operation, trigger_id, request, "checkpointId")


@router.patch("/jobs/{job_id}/rescaling", status_code=202)
def rescale_job(
    job_id: JobId,
    context: Context,
    parallelism: Annotated[int, Query(ge=1)],
    body: _Body | None = None,
) -> dict[str, Any]:
    """Continues a job with another parallelism, from a checkpoint that is taken now."""
    command = Command(CommandKind.RESCALE, parallelism=parallelism)
    trigger = None if body is None else body.trigger_id
    return {"request-id": context.dispatcher.trigger(job_id, command, trigger)}


@router.get("/jobs/{job_id}/rescaling/{trigger_id}")
def rescale_status(job_id: JobId, trigger_id: TriggerId, context: Context, request: Request) -> Any:
    """State and result of a rescale."""
    operation = context.dispatcher.operation(job_id, trigger_id)
    return _answer(operation, trigger_id, request, "checkpointId")


@router.get("/jobs/{job_id}/resource-requirements")
def resource_requirements(job_id: JobId, context: Context) -> dict[str, Any]:
    """How many subtasks each vertex has."""
    return {
        vertex["id"]: {"parallelism": {"lowerBound": 1, "upperBound": vertex["parallelism"]}}
        for vertex in context.job(job_id)["vertices"]
    }


@router.put("/jobs/{job_id}/resource-requirements", status_code=202)
def change_resource_requirements(
    job_id: JobId, context: Context, body: dict[str, Requirements]
) -> dict[str, Any]:
    """Continues a job with other parallelisms of the vertices that are named.

    The answer has a trigger id for `/jobs/{job_id}/rescaling/{trigger_id}`.
    """
    vertices = {vertex: wanted.parallelism.upper for vertex, wanted in body.items()}
    if not vertices:
        raise HTTPException(400, "The body names no vertex.")
    command = Command(CommandKind.RESCALE, vertices=vertices)
    return {"request-id": context.dispatcher.trigger(job_id, command)}


@router.post("/savepoint-disposal", status_code=202)
def dispose_savepoint(body: DisposalRequest, context: Context) -> dict[str, Any]:
    """Deletes a savepoint: only files that its valid `_metadata` names."""
    check_place(body.savepoint_path, context.settings.savepoint_roots)
    trigger = context.dispatcher.dispose_savepoint(body.savepoint_path, body.trigger_id)
    return {"request-id": trigger}


@router.get("/savepoint-disposal/{trigger_id}")
def disposal_status(trigger_id: TriggerId, context: Context, request: Request) -> Any:
    """State and result of a disposal."""
    return _answer(context.dispatcher.disposal(trigger_id), trigger_id, request, None)


def _answer(
    operation: Operation | None, trigger_id: str, request: Request, field: str | None
) -> dict[str, Any] | Response:
    if operation is None:
        raise HTTPException(404, f"There is no operation with trigger id {trigger_id}.")
    if operation.status is OperationStatus.IN_PROGRESS:
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    done: dict[str, Any] = {"status": {"id": "COMPLETED"}}
    if operation.status is OperationStatus.FAILED:
        error = without_secrets(operation.error or "The operation failed.")
        if is_flink_client(request.headers):
            # Without a serialised Java exception it would wait without end; it shows this text.
            return problem(500, error)
        cause = {"class": _FAILURE_CLASS, "stack-trace": error}
        return done | {"operation": {"failure-cause": cause}}
    values = {"location": operation.location, "checkpointId": operation.checkpoint_id}
    return done | {"operation": {} if field is None else {field: values[field]}}
