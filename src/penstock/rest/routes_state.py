"""`/jobs/:jobid/state`: what a retained snapshot of a job holds, operator by operator.

A client names a checkpoint by its number; where that is, the job's own history says. Only metadata
is read, which is plain data: no value of any state is looked at, and nothing is unpickled.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException

from penstock.core.errors import PenstockError
from penstock.jobmanager import documents
from penstock.rest.context import JobId, RestContext
from penstock.rest.routes_jobs import Context
from penstock.rest.views.configuration import without_secrets

router = APIRouter()
_TRIES: Final = 3


@router.get("/jobs/{job_id}/state")
def job_state(
    job_id: JobId,
    context: Context,
    checkpoint: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> dict[str, Any]:
    """Operators and states of a checkpoint or savepoint; of the latest one without a number."""
    list_states = context.settings.list_states
    if list_states is None:
        raise HTTPException(404, "This service reads no snapshots; use `penstock state ls`.")
    for tries_left in reversed(range(_TRIES)):
        place = _place(job_id, context, checkpoint)
        try:
            found = list_states(place)
        except PenstockError as error:
            # It may have been deleted since the history was written; there is a later one then.
            if tries_left == 0:
                raise HTTPException(409, str(error)) from None
        else:
            return found | {"path": without_secrets(found["path"])}
    raise AssertionError("unreachable")


def _place(job_id: str, context: RestContext, checkpoint: int | None) -> str:
    for line in context.document(job_id, documents.CHECKPOINTS)["history"]:
        is_there = line["status"] == "COMPLETED" and not line.get("discarded", False)
        if is_there and checkpoint in (None, line["id"]):
            place = str(line["external_path"])
            if place.startswith("memory:"):
                raise HTTPException(
                    404,
                    "Checkpoints of this job are in its process's memory; take a savepoint and "
                    "read that.",
                )
            return place
    which = "retained snapshot" if checkpoint is None else f"retained snapshot {checkpoint}"
    raise HTTPException(404, f"Job {job_id} has no {which} in its history.")
