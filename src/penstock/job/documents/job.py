"""`/jobs/:jobid`, `/vertices/:v`, `/plan`, `/config`, `/exceptions`, `/execution-result`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobExecutionResult, JobStatus
from penstock.core.redaction import without_secrets
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.graph.nodes import KeyGroups, PartialAggregates
from penstock.job.documents.current import (
    execution_result,
    failure_entry,
    failure_history,
    job_head,
    until,
)
from penstock.job.record import TASK_STATES, stage_counts, stage_state, task_counts, task_state
from penstock.runtime.job_metrics import PENDING_RECORDS, Rates, SubtaskTotals

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.job.record import FailureRecord, JobFacts
    from penstock.jobmanager.job_records import JobRecord


_NOTHING: Final = SubtaskTotals()


def job_view(facts: JobFacts, now_ms: int) -> dict[str, Any]:
    """Returns the document of a job.

    Args:
        facts: The job.
        now_ms: Wall time that the document shows.
    """
    graph = facts.graph
    states = [stage_state(facts, stage) for stage in graph.stages]
    rates = facts.metrics.rates(facts.rates_at_ms)
    return job_head(facts.record, now_ms) | {
        "maxParallelism": max((stage.max_parallelism for stage in graph.stages), default=-1),
        "vertices": [_vertex(facts, stage, rates, now_ms) for stage in graph.stages],
        "status-counts": {state: states.count(state) for state in TASK_STATES},
        "plan": plan_view(facts.record.job_id, graph),
        # Ours.
        "epoch": facts.metrics.totals.epoch,
        "backlog": facts.metrics.totals.backlog,
        "overdue": _overdue(facts),
        "tasks": task_counts(facts),
        "engine": {
            "name": facts.engine.name,
            "executors": facts.engine.executors,
            "cores": facts.engine.cores,
            "table": _executors(facts),
        },
        "failures-by-cause": dict(facts.failure_counts),
        "state-placement": {
            "home-hits": facts.metrics.totals.home_hits,
            "restores": facts.metrics.totals.restores,
            "moves": facts.metrics.totals.moves,
        },
    }


def _executors(facts: JobFacts) -> list[dict[str, Any]]:
    """Returns each executor of a cluster with what it has: subtasks, records, state, memory."""
    found = []
    subtasks = facts.metrics.totals.subtasks.values()
    for executor in sorted(facts.engine.known, key=lambda each: (len(each.id), each.id)):
        at_home = [each for each in subtasks if each.home.partition("/")[0] == executor.id]
        workers = {each.home: each.worker_bytes for each in at_home}
        states = [each.state_bytes for mine in at_home for each in mine.operators.values()]
        found.append(
            {
                "id": executor.id,
                "host": executor.host,
                "slots": executor.slots,
                "subtasks": len(at_home),
                "records-in": sum(each.records_in for each in at_home),
                "state-bytes": sum(states),
                # Of its Python workers, one for each slot: functions and state are there.
                "memory-bytes": sum(workers.values()),
            }
        )
    return found


def _overdue(facts: JobFacts) -> dict[str, Any] | None:
    """Returns the running epoch, if it should have ended long ago, and what keeps it."""
    found = facts.overdue
    if found is None:
        return None
    tasks = [asdict(task) for task in found.tasks]
    return {"epoch": found.epoch, "start-time": found.started_ms, "tasks": tasks}


def _vertex(facts: JobFacts, stage: Stage, rates: Rates, now_ms: int) -> dict[str, Any]:
    state = stage_state(facts, stage)
    totals = [facts.totals(stage, index) or _NOTHING for index in range(stage.parallelism)]
    return {
        "id": stage.vertex_id,
        "slotSharingGroupId": "0" * 32,
        "name": without_secrets(stage.name),
        "maxParallelism": stage.max_parallelism,
        "parallelism": stage.parallelism,
        "status": state,
        **_times(facts.record, now_ms),
        "tasks": stage_counts(facts, stage),
        "metrics": _io(totals, facts.metrics.totals.epoch_ms),
        # Ours.
        "figures": stage_figures(stage, totals, rates),
    }


def _times(record: JobRecord, now_ms: int) -> dict[str, int]:
    """Returns when the tasks of a job ran: they begin and end together."""
    started = record.timestamps.get(JobStatus.RUNNING, -1)
    return {
        "start-time": started,
        "end-time": -1 if record.ended_ms is None else record.ended_ms,
        "duration": -1 if started < 0 else until(record, now_ms) - started,
    }


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
        "pending-records": pending_records(totals),
        "late-records-dropped": sum(
            operator.late_dropped for each in totals for operator in each.operators.values()
        ),
        "busy-share": max(busy, default=0) / 1000,
        "back-pressured-share": max(pressed, default=0) / 1000,
    }


def pending_records(totals: Iterable[SubtaskTotals]) -> int | None:
    """Returns how many records wait in what sources read from; None where no source knows."""
    found = [
        operator.gauges[PENDING_RECORDS]
        for each in totals
        for operator in each.operators.values()
        if PENDING_RECORDS in operator.gauges
    ]
    return sum(found) if found else None


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
    totals = facts.totals(stage, index) or _NOTHING
    times = _times(facts.record, now_ms)
    growth = rates.subtask((stage.stage_id, index))
    busy, pressed = rates.per_mille(growth.busy_ms), rates.per_mille(growth.back_pressured_ms)
    return {
        "subtask": index,
        "status": state,
        "attempt": facts.record.restarts,
        "endpoint": facts.engine.host,
        **times,
        "start_time": times["start-time"],
        "metrics": _io([totals], facts.metrics.totals.epoch_ms),
        "taskmanager-id": facts.engine.name,
        "status-duration": {
            name: times["duration"] if name == state else -1 for name in TASK_STATES
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


def execution_result_view(facts: JobFacts, result: JobExecutionResult | None) -> dict[str, Any]:
    """Returns the result of a job that has ended, or that it has not."""
    failure = (facts.failures[0].name, facts.failures[0].text) if facts.failures else None
    return execution_result(
        facts.record, failure, None if result is None else result.net_runtime_ms
    )


def exceptions_view(facts: JobFacts) -> dict[str, Any]:
    """Returns the history of failures."""
    entries = [_entry(facts, failure) for failure in facts.failures]
    return failure_history(entries, truncated=facts.failures_dropped)


def _entry(facts: JobFacts, failure: FailureRecord) -> dict[str, Any]:
    task = failure.task
    if task is not None and failure.subtask is not None:
        stage = next((each for each in facts.graph.stages if each.name == task), None)
        of = f"/{stage.parallelism}" if stage is not None else ""
        task = f"{task} ({failure.subtask + 1}{of})"
    return failure_entry(
        failure.name,
        failure.text,
        failure.time_ms,
        None if task is None else (task, facts.engine.host, facts.engine.name),
        attempt=failure.attempt,
        **{"restored-checkpoint": failure.restored_id, "failureLabels": {"cause": failure.cause}},
    )
