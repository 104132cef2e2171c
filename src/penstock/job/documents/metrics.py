"""The figures of a job by Flink's names: for `/jobs/:jobid/metrics`, vertices and Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.core.job import JobStatus
from penstock.core.redaction import without_secrets
from penstock.job.documents.job import state_bytes, watermark
from penstock.runtime.job_metrics import LATE_DROPPED, OperatorTotals, Rates, SubtaskTotals

if TYPE_CHECKING:
    from penstock.checkpoint.statistics import CheckpointStatistics
    from penstock.graph.job_graph import Stage
    from penstock.job.record import JobFacts

_DOWN: Final = (JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.RECONCILING, JobStatus.CREATED)


def metrics_view(
    facts: JobFacts, statistics: CheckpointStatistics | None, now_ms: int
) -> dict[str, Any]:
    """Returns all figures; which are a count, a number of now or a text, their names say."""
    rates = facts.metrics.rates(facts.rates_at_ms)
    return {
        "job-name": facts.graph.job_name,
        "job": job_figures(facts, statistics, now_ms),
        "phases": facts.metrics.totals.phases_ms,
        "failures": dict(facts.failure_counts),
        "storage": _storage(facts),
        "vertices": [_vertex(facts, stage, rates) for stage in facts.graph.stages],
    }


def _storage(facts: JobFacts) -> dict[str, Any]:
    storage = facts.storage
    return {
        "requests": [
            {"op": operation, "outcome": outcome, "count": count}
            for (operation, outcome), count in sorted(storage.requests.items())
        ],
        "retries": storage.retries,
        "fenced-writes": storage.fenced_writes,
        "orphan-bytes": storage.orphan_bytes,
    }


def job_figures(
    facts: JobFacts, statistics: CheckpointStatistics | None, now_ms: int
) -> dict[str, Any]:
    """Returns the figures of the job as a whole; times it has run are as of `now_ms`."""
    totals = facts.metrics.totals
    record = facts.record
    is_down = record.status in _DOWN and record.restarts > 0
    since = max(record.timestamps.get(state, 0) for state in _DOWN)
    figures: dict[str, Any] = {
        "uptime": now_ms - facts.uptime_ms if facts.uptime_ms else 0,
        "downtime": now_ms - since if is_down else 0,
        "numRestarts": record.restarts,
        "fullRestarts": record.restarts,
        "epoch": totals.epoch,
        "lastEpochDuration": totals.last_epoch_ms,
        "lastEpochRecords": totals.last_epoch_records,
        "epochs": totals.epochs,
        "epochDurationTotal": totals.epoch_ms,
        "taskRetries": totals.task_retries,
        "stateHomeHits": totals.home_hits,
        "stateRestores": totals.restores,
        "stateMoves": totals.moves,
    }
    if statistics is None:
        return figures
    counts, latest = statistics.counts, statistics.latest
    completed = latest.completed
    return figures | {
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "lastCheckpointDuration": completed.duration_ms if completed else -1,
        "lastCheckpointSize": completed.figures.checkpointed_bytes if completed else -1,
        "lastCheckpointFullSize": completed.figures.state_bytes if completed else -1,
        "lastCheckpointInlineSize": completed.figures.inline_bytes if completed else -1,
        "lastCheckpointFilesNew": completed.figures.files_new if completed else -1,
        "lastCheckpointFilesReused": completed.figures.files_reused if completed else -1,
        "lastCompletedCheckpointId": completed.checkpoint_id if completed else -1,
        "lastCheckpointCompletedTimestamp": (completed.ended_ms if completed else -1),
        "lastCheckpointExternalPath": completed.location if completed else "n/a",
        "lastCheckpointRestoreTimestamp": (
            latest.restored.restored_ms if latest.restored is not None else -1
        ),
    }


def _vertex(facts: JobFacts, stage: Stage, rates: Rates) -> dict[str, Any]:
    subtasks = []
    for index in range(stage.parallelism):
        key = stage.stage_id, index
        totals = facts.metrics.totals.subtasks.get(key)
        if totals is None:
            continue
        subtasks.append(
            {
                "subtask": index,
                "task": _task(totals, rates.subtask(key), rates),
                "operators": {
                    operator.uid: _operator(
                        totals.operators[operator.uid], rates.operator(key, operator.uid), rates
                    )
                    for operator in stage.operators
                    if operator.uid in totals.operators
                },
            }
        )
    names = {operator.uid: without_secrets(operator.name) for operator in stage.operators}
    return {
        "id": stage.vertex_id,
        "name": without_secrets(stage.name),
        "operators": names,
        "subtasks": subtasks,
    }


def _task(totals: SubtaskTotals, growth: SubtaskTotals, rates: Rates) -> dict[str, Any]:
    busy, pressed = rates.per_mille(growth.busy_ms), rates.per_mille(growth.back_pressured_ms)
    return {
        "numRecordsIn": totals.records_in,
        "numRecordsOut": totals.records_out,
        "numRecordsInPerSecond": round(rates.per_second(growth.records_in), 3),
        "numRecordsOutPerSecond": round(rates.per_second(growth.records_out), 3),
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": pressed,
        "idleTimeMsPerSecond": max(1000 - busy - pressed, 0),
        "currentInputWatermark": watermark(totals.watermark),
        "checkpointAlignmentTime": 0,
        "stateBytes": state_bytes(totals),
    }


def _operator(totals: OperatorTotals, growth: OperatorTotals, rates: Rates) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "numRecordsIn": totals.records_in,
        "numRecordsOut": totals.records_out,
        "numRecordsInPerSecond": round(rates.per_second(growth.records_in), 3),
        "numRecordsOutPerSecond": round(rates.per_second(growth.records_out), 3),
        LATE_DROPPED: totals.late_dropped,
        "numFiredTimers": totals.fired_timers,
        "currentInputWatermark": watermark(totals.watermark_in),
        "currentOutputWatermark": watermark(totals.watermark_out),
        "stateBytes": totals.state_bytes,
    }
    for name, value in (totals.counters | totals.gauges).items():
        # What a source measures itself has one of Flink's names.
        figures[name[1:] if name.startswith(".") else f"user.{name}"] = value
    for name, events in totals.meters.items():
        figures[f"user.{name}.count"] = events
        figures[f"user.{name}.rate"] = round(rates.per_second(growth.meters.get(name, 0)), 3)
    for name, values in totals.distributions.items():
        figures |= {f"user.{name}.{part}": value for part, value in values.items()}
    return figures
