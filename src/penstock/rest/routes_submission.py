"""`POST /jobs`: a job is handed in. The guard has seen to the token already."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from penstock.rest.routes_jobs import Context
from penstock.rest.submission import read_submission

router = APIRouter()


@router.post("/jobs", status_code=202)
async def submit_job(request: Request, context: Context) -> dict[str, Any]:
    """Stores a job and starts it; answers with its id."""
    body = await request.body()
    kind = request.headers.get("content-type", "")
    submission = await run_in_threadpool(read_submission, body, kind)
    job_id = await run_in_threadpool(context.dispatcher.submit, submission)
    return {"jobid": job_id, "jobUrl": f"/jobs/{job_id}"}
