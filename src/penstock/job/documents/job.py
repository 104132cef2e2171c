"""`/jobs/:jobid`, `/vertices/:v`, `/plan`, `/config`, `/accumulators`, `/execution-result`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobStatus
from penstock.core.partitioning import KeyGroups, PartialAggregates
from penstock.core.redaction import shown_value, without_secrets
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.job.facts import stage_counts, stage_state, task_state
from penstock.runtime.job_metrics import Rates, SubtaskTotals

if TYPE_CHECKING:
    from penstock.core.job import JobExecutionResult
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.job.facts import FailureRecord, JobFacts


_NOTHING: Final = SubtaskTotals()


def job_view(facts: JobFacts, now_ms: int) -> dict[str, Any]:
    """Returns the document of a job.

    Args:
        facts: The job.
        now_ms: Wall time that the document shows.
    """
    graph = facts.graph
    counts = [stage_state(facts, stage) for stage in graph.stages]
    ended_ms = facts.ended_ms
    rates = facts.metrics.rates(facts.rates_at_ms)
    return {
        "jid": facts.job_id,
        "name": without_secrets(graph.job_name),
        "isStoppable": False,
        "state": facts.status.name,
        "job-type": "STREAMING",
        "start-time": facts.started_ms,
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": (now_ms if ended_ms is None else ended_ms) - facts.started_ms,
        "maxParallelism": max((stage.max_parallelism for stage in graph.stages), default=-1),
        "now": now_ms,
        "timestamps": {status.name: facts.entered.get(status, 0) for status in JobStatus},
        "vertices": [_vertex(facts, stage, rates, now_ms) for stage in graph.stages],
        "status-counts": {
            state: counts.count(state) for state in stage_counts(facts, graph.stages[0])
        },
        "plan": plan_view(facts.job_id, graph),
        "stream-graph": {},
        "pending-operators": 0,
        "schedulerType": "Default",
        # Ours.
        "attempt": facts.attempt,
        "restarts": facts.attempt,
        "last-checkpoint-timestamp": (
            -1 if facts.last_checkpoint_ms is None else facts.last_checkpoint_ms
        ),
        "epoch": facts.metrics.totals.epoch,
        "backlog": facts.metrics.totals.backlog,
        "overdue": _overdue(facts),
        "tasks": task_counts(facts),
        "engine": {
            "name": facts.engine.name,
            "executors": facts.engine.executors,
            "cores": facts.engine.cores,
        },
    }


def _overdue(facts: JobFacts) -> dict[str, Any] | None:
    """Returns the running epoch, if it should have ended long ago, and what keeps it."""
    found = facts.overdue
    if found is None:
        return None
    tasks = [asdict(task) for task in found.tasks]
    return {"epoch": found.epoch, "start-time": found.started_ms, "tasks": tasks}


def task_counts(facts: JobFacts) -> dict[str, int]:
    """Returns the number of subtasks in each state, as lists of jobs show them."""
    totals = {"total": 0}
    for stage in facts.graph.stages:
        for state, count in stage_counts(facts, stage).items():
            totals["total"] += count
            totals[state.lower()] = totals.get(state.lower(), 0) + count
    return totals


def _vertex(facts: JobFacts, stage: Stage, rates: Rates, now_ms: int) -> dict[str, Any]:
    state = stage_state(facts, stage)
    started = facts.entered.get(JobStatus.RUNNING, -1)
    ended_ms = facts.ended_ms
    totals = [facts.totals(stage, index) or _NOTHING for index in range(stage.parallelism)]
    return {
        "id": stage.vertex_id,
        "slotSharingGroupId": "0" * 32,
        "name": without_secrets(stage.name),
        "maxParallelism": stage.max_parallelism,
        "parallelism": stage.parallelism,
        "status": state,
        "start-time": started,
        "end-time": -1 if ended_ms is None else ended_ms,
        "duration": _duration(started, ended_ms, now_ms),
        "tasks": stage_counts(facts, stage),
        "metrics": _io(totals, facts.metrics.totals.epoch_ms),
        # Ours.
        "figures": stage_figures(stage, totals, rates),
    }


def _duration(started_ms: int, ended_ms: int | None, now_ms: int) -> int:
    return -1 if started_ms < 0 else (now_ms if ended_ms is None else ended_ms) - started_ms


def _io(totals: Sequence[SubtaskTotals], epoch_ms: int) -> dict[str, Any]:
    """Bytes between stages are counted by Spark, not by us: they are said to be incomplete.

    Args:
        totals: Of the subtasks.
        epoch_ms: How long all epochs of the attempt took.
    """
    busy = sum(each.busy_ms for each in totals)
    pressed = sum(each.back_pressured_ms for each in totals)
    return {
        "read-bytes": 0,
        "read-bytes-complete": False,
        "write-bytes": 0,
        "write-bytes-complete": False,
        "read-records": sum(each.records_in for each in totals),
        "read-records-complete": True,
        "write-records": sum(each.records_out for each in totals),
        "write-records-complete": True,
        "accumulated-backpressured-time": round(pressed),
        "accumulated-idle-time": round(max(epoch_ms * len(totals) - busy - pressed, 0)),
        "accumulated-busy-time": round(busy),
    }


def stage_figures(stage: Stage, totals: Sequence[SubtaskTotals], rates: Rates) -> dict[str, Any]:
    """Returns what a node of the job graph shows: rates, watermark, state, load."""
    growth = [rates.subtask((stage.stage_id, index)) for index in range(stage.parallelism)]
    busy = [rates.per_mille(each.busy_ms) for each in growth]
    pressed = [rates.per_mille(each.back_pressured_ms) for each in growth]
    seen = [each for each in totals if each.operators]
    last = stage.operators[-1].uid
    outputs = [each.operators[last].watermark_out for each in seen if last in each.operators]
    return {
        "records-in-per-second": _rate(rates, sum(each.records_in for each in growth)),
        "records-out-per-second": _rate(rates, sum(each.records_out for each in growth)),
        "watermark": watermark(min((each.watermark for each in seen), default=MIN_WATERMARK)),
        "output-watermark": watermark(min(outputs, default=MIN_WATERMARK)),
        "state-bytes": sum(state_bytes(each) for each in totals),
        "late-records-dropped": sum(
            operator.late_dropped for each in totals for operator in each.operators.values()
        ),
        "busy-share": max(busy, default=0) / 1000,
        "back-pressured-share": max(pressed, default=0) / 1000,
    }


def watermark(value: int) -> int | None:
    """Returns a watermark as JSON has it: null before the first one.

    The last one, which ends event time, is larger than JavaScript counts exactly; it becomes the
    largest whole number that it does.
    """
    if value == MIN_WATERMARK:
        return None
    return 2**53 - 1 if value == MAX_WATERMARK else value


def state_bytes(totals: SubtaskTotals) -> int:
    """Returns the size of all state of a subtask."""
    return sum(operator.state_bytes for operator in totals.operators.values())


def _rate(rates: Rates, growth: float) -> float:
    return round(rates.per_second(growth), 1)


def vertex_view(facts: JobFacts, stage: Stage, now_ms: int) -> dict[str, Any]:
    """Returns the document of one vertex with its subtasks."""
    rates = facts.metrics.rates(facts.rates_at_ms)
    return {
        "id": stage.vertex_id,
        "name": without_secrets(stage.name),
        "parallelism": stage.parallelism,
        "maxParallelism": stage.max_parallelism,
        "now": now_ms,
        "subtasks": [
            _subtask(facts, stage, index, rates, now_ms) for index in range(stage.parallelism)
        ],
        # Ours.
        "operators": [
            {
                "uid": operator.uid,
                "uid-is-generated": operator.uid_is_generated,
                "name": without_secrets(operator.name),
                "kind": operator.kind.value,
            }
            for operator in stage.operators
        ],
        "skew": _skew(facts, stage),
    }


def _subtask(
    facts: JobFacts, stage: Stage, index: int, rates: Rates, now_ms: int
) -> dict[str, Any]:
    state = task_state(facts, stage, index)
    started = facts.entered.get(JobStatus.RUNNING, -1)
    totals = facts.totals(stage, index) or _NOTHING
    duration = _duration(started, facts.ended_ms, now_ms)
    growth = rates.subtask((stage.stage_id, index))
    busy, pressed = rates.per_mille(growth.busy_ms), rates.per_mille(growth.back_pressured_ms)
    return {
        "subtask": index,
        "status": state,
        "attempt": facts.attempt,
        "endpoint": facts.engine.host,
        "start-time": started,
        "start_time": started,
        "end-time": -1 if facts.ended_ms is None else facts.ended_ms,
        "duration": duration,
        "metrics": _io([totals], facts.metrics.totals.epoch_ms),
        "taskmanager-id": facts.engine.name,
        "status-duration": {
            name: duration if name == state else -1 for name in stage_counts(facts, stage)
        },
        "other-concurrent-attempts": [],
        # Ours.
        "figures": stage_figures(stage, [totals], rates)
        | {
            "records-in-per-second": _rate(rates, growth.records_in),
            "records-out-per-second": _rate(rates, growth.records_out),
            "busy-share": busy / 1000,
            "back-pressured-share": pressed / 1000,
            "idle-share": max(1000 - busy - pressed, 0) / 1000,
        },
    }


def _skew(facts: JobFacts, stage: Stage) -> float | None:
    """Returns the records of the busiest subtask over those of the median one."""
    counts = sorted(
        (facts.totals(stage, index) or _NOTHING).records_in for index in range(stage.parallelism)
    )
    middle = len(counts) // 2
    median = counts[middle] if len(counts) % 2 else (counts[middle - 1] + counts[middle]) / 2
    return round(counts[-1] / median, 2) if median else None


def plan_view(job_id: str, graph: JobGraph) -> dict[str, Any]:
    """Returns the plan."""
    stages = graph.stages
    return {
        "jid": job_id,
        "name": without_secrets(graph.job_name),
        "type": "STREAMING",
        "nodes": [
            {
                "id": stage.vertex_id,
                "parallelism": stage.parallelism,
                "operator": "",
                "operator_strategy": "",
                "description": stage.name,
                "inputs": [
                    {
                        "num": number,
                        "id": stages[edge.source_stage].vertex_id,
                        "ship_strategy": ship_strategy(edge.partitioning),
                        "exchange": "pipelined_bounded",
                    }
                    for number, edge in enumerate(graph.inputs_of(stage))
                ],
                "optimizer_properties": {},
                # Ours.
                "level": stage.level,
            }
            for stage in stages
        ],
    }


def ship_strategy(partitioning: object) -> str:
    """Returns Flink's word for how records travel."""
    if isinstance(partitioning, KeyGroups | PartialAggregates):
        return "HASH"
    return type(partitioning).__name__.upper()


def config_view(
    job_id: str,
    graph: JobGraph,
    restart_strategy: str,
    parameters: dict[str, str],
    *,
    object_reuse: bool,
) -> dict[str, Any]:
    """Returns the execution configuration."""
    return {
        "jid": job_id,
        "name": without_secrets(graph.job_name),
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": restart_strategy,
            "job-parallelism": max((stage.parallelism for stage in graph.stages), default=1),
            "object-reuse-mode": object_reuse,
            "user-config": parameters,
        },
    }


def accumulators_view(values: dict[str, Any]) -> dict[str, Any]:
    """Returns accumulated values."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": [
            {"name": name, "type": type(value).__name__, "value": shown_value(name, str(value))}
            for name, value in sorted(values.items())
        ],
        "serialized-user-task-accumulators": {},
    }


def execution_result_view(facts: JobFacts, result: JobExecutionResult | None) -> dict[str, Any]:
    """Returns the result of a job that has ended, or that it has not."""
    if not facts.status.is_globally_terminal_state():
        return {"status": {"id": "IN_PROGRESS"}}
    outcome: dict[str, Any] = {
        "id": facts.job_id,
        "application-status": {JobStatus.FINISHED: "SUCCEEDED", JobStatus.CANCELED: "CANCELED"}.get(
            facts.status, "FAILED"
        ),
        "accumulator-results": {},
        "net-runtime": (
            result.net_runtime_ms
            if result is not None
            else (facts.ended_ms or facts.started_ms) - facts.started_ms
        ),
    }
    if facts.status is JobStatus.FAILED and facts.failures:
        outcome["failure-cause"] = {
            "class": facts.failures[0].name,
            "stack-trace": facts.failures[0].text,
        }
    return {"status": {"id": "COMPLETED"}, "job-execution-result": outcome}


def exceptions_view(facts: JobFacts) -> dict[str, Any]:
    """Returns the history of failures, in today's and in the older shape."""
    latest = facts.failures[0] if facts.failures else None
    return {
        "exceptionHistory": {
            "entries": [_entry(facts, failure) for failure in facts.failures],
            "truncated": facts.failures_dropped,
        },
        # The older shape, which scripts still read.
        "root-exception": None if latest is None else latest.text,
        "timestamp": None if latest is None else latest.time_ms,
        "all-exceptions": [],
        "truncated": facts.failures_dropped,
    }


def _entry(facts: JobFacts, failure: FailureRecord) -> dict[str, Any]:
    task = failure.task
    if task is not None and failure.subtask is not None:
        stage = next((each for each in facts.graph.stages if each.name == task), None)
        of = f"/{stage.parallelism}" if stage is not None else ""
        task = f"{task} ({failure.subtask + 1}{of})"
    return {
        "exceptionName": failure.name,
        "stacktrace": failure.text,
        "timestamp": failure.time_ms,
        "taskName": task,
        "endpoint": facts.engine.host if task is not None else None,
        "taskManagerId": facts.engine.name if task is not None else None,
        "failureLabels": {},
        "concurrentExceptions": [],
        # Ours.
        "attempt": failure.attempt,
        "restored-checkpoint": failure.restored_id,
    }
