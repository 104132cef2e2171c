"""The service itself: overview, configuration, logs, health, metrics, events."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from penstock.core.job import JobStatus
from penstock.core.redaction import without_secrets
from penstock.job import documents
from penstock.job.documents.configuration import pairs_view
from penstock.jobmanager.dispatching import NotLeaderError
from penstock.rest.context import Context, JobId, RestContext
from penstock.rest.prometheus import CONTENT_TYPE, exposition

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import JobRecord

router = APIRouter()
plain_router = APIRouter()
"""Routes without a version: what operators' tools ask for."""

_MANAGER_LOG: Final = "jobmanager.log"
_HEARTBEAT_S: Final = 15.0
_LOG_BYTES: Final = 256 * 1024
_MOST_LOG_BYTES: Final = 16 * 1024 * 1024
Bytes = Annotated[int, Query(ge=1, le=_MOST_LOG_BYTES, description="How much of the end.")]

Cursor = Annotated[
    str,
    Query(
        alias="from",
        pattern=r"^([0-9]{1,20}-[0-9]{1,18})?$",
        description="`next` of the answer before; empty for the beginning.",
    ),
]


def product() -> str:
    """Returns our name and version, where Flink shows its own."""
    return f"penstock-{version('penstock')}"


@router.get("/config")
def dashboard_config(context: Context) -> dict[str, Any]:
    """What the web page has to know."""
    now = datetime.fromtimestamp(context.clock.wall_ms() / 1000).astimezone()
    offset = now.utcoffset()
    return {
        "refresh-interval": context.settings.refresh_interval_ms,
        "timezone-name": now.tzname() or "UTC",
        "timezone-offset": int(offset.total_seconds() * 1000) if offset else 0,
        "flink-version": product(),
        "flink-revision": product(),
        "features": {
            "web-submit": context.settings.submit_enabled,
            "web-cancel": context.settings.cancel_enabled,
            "web-rescale": False,
            "web-history": False,
        },
    }


@router.get("/overview")
def overview(context: Context) -> dict[str, Any]:
    """How many jobs there are, and what they run on."""
    records = context.dispatcher.jobs()
    statuses = [record.status for record in records]
    engines = _engines(context, records)
    cores = sum(engine["cores"] for engine in engines)
    return {
        "taskmanagers": sum(engine["executors"] for engine in engines),
        "taskmanagers-blocked": 0,
        "slots-total": cores,
        "slots-available": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": sum(not status.is_terminal_state() for status in statuses),
        "jobs-finished": statuses.count(JobStatus.FINISHED),
        "jobs-cancelled": statuses.count(JobStatus.CANCELED),
        "jobs-failed": statuses.count(JobStatus.FAILED),
        "flink-version": product(),
        "flink-commit": product(),
    }


def _engines(context: RestContext, records: Iterable[JobRecord]) -> list[dict[str, Any]]:
    engines = []
    for record in records:
        if not record.status.is_terminal_state():
            found = context.find(record.job_id, documents.JOB) or {}
            engine = found.get("engine")
            if engine:
                engines.append(engine | {"job": record.job_id})
    return engines


@router.get("/taskmanagers")
def task_managers(context: Context) -> dict[str, Any]:
    """What stands in for task managers: the executors of each running job, or its engine."""
    return {
        "taskmanagers": [
            {
                "id": f"{engine['job']}-{each['id']}" if each["id"] else engine["job"],
                "path": each["host"],
                "dataPort": 0,
                "jmxPort": -1,
                "timeSinceLastHeartbeat": 0,
                "slotsNumber": each["slots"],
                "freeSlots": max(each["slots"] - each["subtasks"], 0),
                "blocked": False,
            }
            for engine in _engines(context, context.dispatcher.jobs())
            for each in engine.get("table") or [_whole(engine)]
        ]
    }


def _whole(engine: dict[str, Any]) -> dict[str, Any]:
    """Returns an engine that is no cluster as an executor; all its slots are in use."""
    cores = engine["cores"]
    return {"id": "", "host": engine["name"], "slots": cores, "subtasks": cores}


@router.get("/jobmanager/config")
def job_manager_config(context: Context) -> list[dict[str, str]]:
    """Settings of this process, secrets taken out."""
    return pairs_view(context.settings.configuration)


@router.get("/jobmanager/environment")
def job_manager_environment() -> dict[str, Any]:
    """The interpreter, where Flink shows its virtual machine."""
    return {
        "jvm": {
            "version": f"Python {platform.python_version()} ({platform.python_implementation()})",
            "arch": platform.machine(),
            "options": [],
        },
        "classpath": [without_secrets(path) for path in sys.path if path],
        "pid": os.getpid(),
    }


@router.get("/jobmanager/logs")
def logs(context: Context) -> dict[str, Any]:
    """Names of all logs."""
    names = [_MANAGER_LOG, *(_job_log(each.job_id) for each in context.dispatcher.jobs())]
    return {"logs": [{"name": name, "size": 0, "mtime": 0} for name in names]}


@router.get("/jobmanager/log", response_class=PlainTextResponse)
def job_manager_log(context: Context, bytes: Bytes = _LOG_BYTES) -> Response:
    """The end of the job manager's log."""
    return _text(context.dispatcher.log_tail(None, bytes))


@router.get("/jobmanager/logs/{name}", response_class=PlainTextResponse)
def named_log(name: str, context: Context, bytes: Bytes = _LOG_BYTES) -> Response:
    """The end of one of the logs that the list names; no other name is looked at."""
    if name == _MANAGER_LOG:
        return job_manager_log(context, bytes)
    for record in context.dispatcher.jobs():
        if name == _job_log(record.job_id):
            return job_log(record.job_id, context, bytes)
    raise HTTPException(404, "There is no log of this name; /jobmanager/logs lists them.")


@router.get("/jobs/{job_id}/log", response_class=PlainTextResponse)
def job_log(job_id: JobId, context: Context, bytes: Bytes = _LOG_BYTES) -> Response:
    """The end of what a job's driver wrote."""
    context.dispatcher.job(job_id)
    return _text(context.dispatcher.log_tail(job_id, bytes))


@router.get("/jobs/{job_id}/stdout")
def job_output(
    job_id: JobId, context: Context, start: Cursor = "", bytes: Bytes = _LOG_BYTES
) -> dict[str, str]:
    """What a job's program printed on its standard output, and where to read on."""
    piece = context.dispatcher.output(job_id, start, bytes)
    text = without_secrets(piece.data.decode("utf-8", "replace"))
    return {"text": text, "next": piece.cursor}


def _job_log(job_id: str) -> str:
    return f"job-{job_id}.log"


def _text(content: bytes) -> Response:
    text = without_secrets(content.decode("utf-8", "replace"))
    return PlainTextResponse(text, headers={"content-disposition": "inline"})


@router.get("/jobs/{job_id}/events", response_class=StreamingResponse)
async def job_events(job_id: JobId, context: Context) -> Response:
    """Server-sent events: the name of each document that has changed."""
    context.dispatcher.job(job_id)
    reader = context.hub.subscribe(job_id)

    async def stream() -> AsyncIterator[str]:
        try:
            yield "retry: 3000\n\n"
            async for name in reader.names(_HEARTBEAT_S):
                # A comment keeps proxies from closing a quiet stream.
                yield ": quiet\n\n" if name is None else f"event: changed\ndata: {name}\n\n"
            yield "event: ended\ndata: job\n\n"
        finally:
            context.hub.unsubscribe(job_id, reader)

    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


@plain_router.get("/health/live")
async def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "UP"}


@plain_router.get("/health/ready")
def ready(context: Context) -> Response:
    """A leader is known and its jobs can be read."""
    leadership = context.dispatcher.leadership()
    if not leadership.is_leader and leadership.leader_url is None:
        return JSONResponse({"status": "DOWN", "reason": "no leader is known"}, 503)
    role = "leader" if leadership.is_leader else "standby"
    if leadership.is_leader:
        context.dispatcher.jobs()
    return JSONResponse({"status": "UP", "role": role, "epoch": leadership.epoch})


@plain_router.get("/metrics", response_class=Response)
def metrics(context: Context) -> Response:
    """All figures as Prometheus reads them, by the names of Flink's reporter."""
    found = {}
    records = []
    try:
        records = context.dispatcher.jobs()
        for record in records:
            if not record.status.is_globally_terminal_state():
                found[record.job_id] = context.find(record.job_id, documents.METRICS)
    except NotLeaderError:
        # A standby says who it is, and nothing about jobs.
        found = {}
    text = exposition(context.dispatcher.leadership(), records, found)
    return Response(text, media_type=CONTENT_TYPE)
