"""What can be read of jobs: lists, the job, its vertices, plan, failures, checkpoints and state.

For state a client names a checkpoint by its number; where that is, the job's own history says. The
list comes from metadata alone. Rows are read within bounds, by a process of their own, and no
pickle is ever loaded: a pickled value is shown by its size.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from penstock.core.drawing import Box, drawing
from penstock.core.errors import PenstockError
from penstock.core.redaction import without_secrets
from penstock.job import documents
from penstock.job.documents.checkpoints import checkpoints_view
from penstock.job.documents.current import current_exceptions, current_result, overview_row
from penstock.rest.context import (
    CheckpointId,
    CheckpointsDocument,
    Context,
    JobId,
    RestContext,
    VertexId,
)

if TYPE_CHECKING:
    from penstock.rest.settings import SnapshotReader

router = APIRouter()
_MOST_BOXES: Final = 1_000
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
    plan = context.job(job_id)["plan"]
    boxes = {
        node["id"]: Box(
            str(node["description"]),
            str(node["description"]),
            f"parallelism {node['parallelism']}",
            node.get("level", 0),
            [(each["id"], each["ship_strategy"]) for each in node["inputs"]],
        )
        for node in plan["nodes"][:_MOST_BOXES]
    }
    return Response(drawing(f"Plan of {plan['name']}", boxes), media_type="image/svg+xml")


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


# -- checkpoints, and the state in them ------------------------------------------------------------


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
    return Response(_timeline(lines), media_type="image/svg+xml")


_MOST_BARS: Final = 100
_WIDTH: Final = 960
_HEIGHT: Final = 72
_COLOURS: Final = {"COMPLETED": "#2e7d4f", "FAILED": "#c0392b", "IN_PROGRESS": "#2b6cb0"}


def _timeline(history: Iterable[dict[str, Any]]) -> str:
    """Returns the newest lines of a history: how long each took, and how long none ran."""
    lines = list(islice(history, _MOST_BARS))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" role="img" '
        'aria-label="Recent checkpoints">'
    )
    if not lines:
        text = '<text x="12" y="40" font-size="13" fill="#5b6570">No checkpoint yet.</text></svg>'
        return head + text
    first = min(line["trigger_timestamp"] for line in lines)
    last = max(line["trigger_timestamp"] + line["end_to_end_duration"] for line in lines)
    scale = (_WIDTH - 24) / max(last - first, 1)
    bars = []
    for line in lines:
        x = 12 + (line["trigger_timestamp"] - first) * scale
        width = max(line["end_to_end_duration"] * scale, 2.0)
        kind = "savepoint" if line["is_savepoint"] else "checkpoint"
        title = f"{kind} {line['id']}: {line['status']}, {line['end_to_end_duration']} ms"
        bars.append(
            f'<rect x="{x:.1f}" y="18" width="{width:.1f}" height="28" '
            f'fill="{_COLOURS.get(line["status"], "#888")}"><title>{escape(title)}</title></rect>'
        )
    scale_text = f"{(last - first) / 1000:.1f} s"
    foot = (
        f'<line x1="12" y1="50" x2="{_WIDTH - 12}" y2="50" stroke="#9aa3ad"/>'
        f'<text x="{_WIDTH - 12}" y="66" font-size="11" text-anchor="end" fill="#5b6570">'
        f"{scale_text}</text></svg>"
    )
    return head + "".join(bars) + foot


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


_TRIES: Final = 8
_WAIT_S: Final = 0.05
_MOST_WAITS: Final = 20
_DEFAULT_ROWS: Final = 50
_MOST_ROWS: Final = 200
_MOST_NAME: Final = 1_000

CheckpointNumber = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Name = Query(min_length=1, max_length=_MOST_NAME)


@router.get("/jobs/{job_id}/state")
def job_state(
    job_id: JobId, context: Context, checkpoint: CheckpointNumber = None
) -> dict[str, Any]:
    """Operators and states of a checkpoint or savepoint; of the latest one without a number."""
    return _read(job_id, context, checkpoint, _reader(context).list_states)


@router.get("/jobs/{job_id}/state/rows")
def job_state_rows(  # noqa: PLR0913, PLR0917 - what a client may ask
    job_id: JobId,
    context: Context,
    uid: Annotated[str, Name],
    state: Annotated[str | None, Name] = None,
    checkpoint: CheckpointNumber = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = _DEFAULT_ROWS,
    or_latest: Annotated[bool, Query(description="When the numbered one is gone.")] = False,
) -> dict[str, Any]:
    """The first rows of a state; of all states of an operator and its timers without a name."""
    reader = _reader(context)
    if not context.settings.shows_rows:
        raise HTTPException(403, "penstock.rest.state-rows is false: no values are shown here.")

    def read(place: str) -> dict[str, Any]:
        return reader.first_rows(place, uid, state, limit)

    if or_latest and checkpoint is not None:
        with contextlib.suppress(HTTPException):
            return _read(job_id, context, checkpoint, read)
        checkpoint = None
    return _read(job_id, context, checkpoint, read)


def _reader(context: RestContext) -> SnapshotReader:
    reader = context.settings.snapshots
    if reader is None:
        raise HTTPException(404, "This service reads no snapshots; use `penstock state ls`.")
    return reader


def _read(
    job_id: str, context: RestContext, checkpoint: int | None, read: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    for tries_left in reversed(range(_TRIES)):
        place = _place(job_id, context, checkpoint)
        try:
            found = read(place)
        except PenstockError as error:
            # The job may have replaced it since the history was written, and says so in a moment.
            if tries_left == 0 or not _has_successor(job_id, context, checkpoint, place):
                raise HTTPException(409, str(error)) from None
        else:
            return found | {"path": without_secrets(found["path"])}
    raise AssertionError("unreachable")


def _has_successor(job_id: str, context: RestContext, checkpoint: int | None, place: str) -> bool:
    # Asked often: a job may keep its checkpoints for a few dozen milliseconds only.
    for _ in range(_MOST_WAITS):
        if _place(job_id, context, checkpoint) != place:
            return True
        threading.Event().wait(_WAIT_S)
    return False


def _place(job_id: str, context: RestContext, checkpoint: int | None) -> str:
    found = context.checkpoints(job_id)
    lines: Iterator[dict[str, Any]] = iter(())
    lasting: list[Any] = []
    if found is not None:
        latest = found.latest()
        lines = (line for line in found.lines() if line["status"] == "COMPLETED")
        # A savepoint outlives its line of the history, also one that the job started from.
        lasting = [latest.get(name) for name in ("completed", "savepoint", "restored")]
        if lasting[2] is not None and not lasting[2]["is_savepoint"]:
            lasting.pop()
    for line in chain(lines, filter(None, lasting)):
        if checkpoint in (None, line["id"]) and not line.get("discarded", False):
            place = str(line["external_path"])
            if place.startswith("memory:"):
                raise HTTPException(
                    409,
                    "Checkpoints of this job are in its process's memory; take a savepoint and "
                    "read that.",
                )
            return place
    which = "retained snapshot" if checkpoint is None else f"retained snapshot {checkpoint}"
    raise HTTPException(404, f"Job {job_id} has no {which} in its history.")
