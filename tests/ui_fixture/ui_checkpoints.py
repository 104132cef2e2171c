"""Made-up checkpoints in the shapes of the service."""

from __future__ import annotations

from typing import Any

from ui_documents import JSON, Job, scatter

DIRECTORY = "s3://streams/checkpoints"
ZEROES = {name: 0 for name in ("min", "max", "avg", "p50", "p90", "p95", "p99", "p999")}


def record(job: Job, number: int, triggered_ms: int, status: str = "COMPLETED") -> JSON:
    """Returns one line of the history."""
    took = 700 + round(1_400 * scatter(number))
    size = sum(stage.state_bytes for stage in job.stages)
    subtasks = sum(stage.parallelism for stage in job.stages)
    is_savepoint = number % 17 == 0
    is_done = status == "COMPLETED"
    found: JSON = {
        "className": status.lower(),
        "id": number,
        "status": status,
        "is_savepoint": is_savepoint,
        "savepointFormat": "CANONICAL" if is_savepoint else None,
        "checkpoint_type": "SAVEPOINT" if is_savepoint else "CHECKPOINT",
        "trigger_timestamp": triggered_ms,
        "latest_ack_timestamp": triggered_ms + took if is_done else triggered_ms + 300,
        "checkpointed_size": size
        if is_savepoint
        else round(size * 0.04 * (1 + scatter(number, 1))),
        "state_size": size,
        "end_to_end_duration": took if is_done else took * 3,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": subtasks if is_done else subtasks // 2,
        "tasks": {},
        "epoch": number * 14,
        "is_periodic": not is_savepoint,
        "files": subtasks,
        "files_reused": subtasks * 5,
        "bytes_inline": 14_321,
        "leader_epoch": 0,
        "failure_reason": None,
    }
    if is_done:
        kind = (
            f"savepoint-{job.jid[:6]}-{number:012x}" if is_savepoint else f"{job.jid}/chk-{number}"
        )
        found |= {"external_path": f"{DIRECTORY}/{kind}", "discarded": False}
    if status == "FAILED":
        found |= {
            "failure_reason": "CHECKPOINT_EXPIRED",
            "failure_timestamp": triggered_ms + took * 3,
            "failure_message": "Checkpoint expired before completing: 3 of 8 subtasks had "
            "acknowledged after 10 min. The slowest was 'count per channel (4/4)'.",
        }
    return found


def summary(values: list[int]) -> dict[str, Any]:
    ordered = sorted(values) or [0]
    at = lambda part: ordered[min(int(part * len(ordered)), len(ordered) - 1)]  # noqa: E731
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "p50": at(0.5),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
    }


def checkpoints_document(history: list[JSON], restored: JSON | None = None) -> JSON:
    """Returns the document of all checkpoints; the history is newest first."""

    def newest(status: str, is_savepoint: bool | None = None) -> JSON | None:
        fits = (
            each
            for each in history
            if each["status"] == status and is_savepoint in (None, each["is_savepoint"])
        )
        return next(fits, None)

    done = [each for each in history if each["status"] == "COMPLETED"]
    count = lambda status: sum(each["status"] == status for each in history)  # noqa: E731
    return {
        "counts": {
            "restored": int(restored is not None),
            "total": len(history),
            "in_progress": count("IN_PROGRESS"),
            "completed": len(done),
            "failed": count("FAILED"),
        },
        "summary": {
            name: summary([each[name] for each in done])
            for name in ("checkpointed_size", "state_size", "end_to_end_duration")
        }
        | dict.fromkeys(("alignment_buffered", "processed_data", "persisted_data"), ZEROES),
        "latest": {
            "completed": newest("COMPLETED", False),
            "savepoint": newest("COMPLETED", True),
            "failed": newest("FAILED"),
            "restored": restored,
        },
        "history": history,
        "declined": {},
    }


def details(job: Job, found: JSON) -> JSON:
    """Returns one checkpoint with its tasks."""
    tasks = {}
    for index, stage in enumerate(job.stages):
        rows = subtasks(job, found, index)["subtasks"]
        tasks[job.vertex(index)] = {
            "id": found["id"],
            "status": found["status"],
            "latest_ack_timestamp": max(each["ack_timestamp"] for each in rows),
            "checkpointed_size": sum(each["checkpointed_size"] for each in rows),
            "state_size": sum(each["state_size"] for each in rows),
            "end_to_end_duration": max(each["end_to_end_duration"] for each in rows),
            "num_subtasks": stage.parallelism,
            "num_acknowledged_subtasks": stage.parallelism,
            "name": stage.name,
        }
    return found | {"tasks": tasks}


def subtasks(job: Job, found: JSON, index: int) -> JSON:
    """Returns the subtasks of one stage in a checkpoint."""
    stage = job.stages[index]
    number, took = found["id"], min(found["end_to_end_duration"], 4_000)
    rows = []
    for each in range(stage.parallelism):
        is_slow = each == stage.parallelism - 1 and stage.parallelism > 3
        part = 0.95 if is_slow else 0.3 + 0.2 * scatter(number, index, each)
        whole = round(took * part)
        delay, sync = round(whole * 0.3), round(whole * 0.18)
        state = stage.state_bytes // stage.parallelism
        rows.append(
            {
                "className": "completed",
                "index": each,
                "status": "completed",
                "ack_timestamp": found["trigger_timestamp"] + whole,
                "end_to_end_duration": whole,
                "checkpointed_size": round(state * 0.04),
                "state_size": state,
                "checkpoint": {"sync": sync, "async": whole - delay - sync},
                "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0},
                "start_delay": delay,
                "unaligned_checkpoint": False,
                "aborted": False,
            }
        )
    column = lambda pick: summary([pick(row) for row in rows])  # noqa: E731
    return {
        "id": number,
        "status": found["status"],
        "summary": {
            "checkpointed_size": column(lambda row: row["checkpointed_size"]),
            "state_size": column(lambda row: row["state_size"]),
            "end_to_end_duration": column(lambda row: row["end_to_end_duration"]),
            "checkpoint_duration": {
                "sync": column(lambda row: row["checkpoint"]["sync"]),
                "async": column(lambda row: row["checkpoint"]["async"]),
            },
            "alignment": dict.fromkeys(("buffered", "processed", "persisted", "duration"), ZEROES),
            "start_delay": column(lambda row: row["start_delay"]),
        },
        "subtasks": rows,
    }


def config_document(interval_ms: int = 30_000) -> JSON:
    code = "code channels.py:41"
    return {
        "mode": "exactly_once",
        "interval": interval_ms,
        "timeout": 600_000,
        "min_pause": 0,
        "max_concurrent": 1,
        "externalization": {"enabled": True, "delete_on_cancellation": False},
        "state_backend": "rocksdb",
        "checkpoint_storage": "FileSystemCheckpointStorage",
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": 2,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_storage": None,
        "changelog_periodic_materialization_interval": None,
        "enabled": interval_ms < 2**53,
        "directory": DIRECTORY,
        "savepoint_directory": "s3://streams/savepoints",
        "num_retained": 3,
        "incremental": True,
        "inline_threshold": 20 * 1024,
        "sources": {
            "mode": "default",
            "interval": code,
            "directory": "conf/config.yaml:5",
            "state_backend": "conf/config.yaml:3",
            "num_retained": "-D",
        },
    }
