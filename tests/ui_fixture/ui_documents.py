"""Documents of a job as the service shows them, made up: the shapes are its, the figures are not.

Every figure comes from a number by arithmetic, so two runs show the same screens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]
MIB = 1 << 20
TASK_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)


def scatter(*numbers: int) -> float:
    """Returns a number from 0 to 1 that looks like chance."""
    mixed = 2166136261
    for number in numbers:
        mixed = (mixed ^ (number + 1)) * 16777619 % (1 << 32)
        mixed ^= mixed >> 13
    return mixed % 10_007 / 10_007


def hex_id(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"


@dataclass(frozen=True)
class Stage:
    """A stage of a made-up job: its name, subtasks, and the stages it reads with how."""

    name: str
    parallelism: int
    inputs: tuple[tuple[int, str], ...] = ()
    rate: float = 1_000.0
    state_bytes: int = 0
    busy: float = 0.3
    pressed: float = 0.0


@dataclass(frozen=True)
class Job:
    """A made-up job."""

    number: int
    name: str
    state: str
    stages: tuple[Stage, ...]
    started_ms: int
    ended_ms: int = -1
    restarts: int = 0
    last_checkpoint_ms: int = -1

    @property
    def jid(self) -> str:
        return hex_id(self.number)

    def vertex(self, index: int) -> str:
        return hex_id(self.number * 1_000 + index)


TASK_OF = {
    "FINISHED": "FINISHED",
    "FAILED": "CANCELED",
    "CANCELED": "CANCELED",
    "RESTARTING": "SCHEDULED",
}


def task_counts(stage: Stage, state: str) -> dict[str, int]:
    counts = dict.fromkeys(TASK_STATES, 0)
    counts[TASK_OF.get(state, "RUNNING")] = stage.parallelism
    return counts


def io_figures(rate: float, seconds: float) -> JSON:
    return {
        "read-bytes": 0,
        "read-bytes-complete": False,
        "write-bytes": 0,
        "write-bytes-complete": False,
        "read-records": round(rate * seconds),
        "read-records-complete": True,
        "write-records": round(rate * seconds * 0.9),
        "write-records-complete": True,
        "accumulated-backpressured-time": 0,
        "accumulated-idle-time": 0,
        "accumulated-busy-time": round(seconds * 300),
    }


def lately(stage: Stage, part: float, now_ms: int, state: str) -> JSON:
    is_running = state == "RUNNING"
    rate = stage.rate * part if is_running else 0.0
    watermark = 2**53 - 1 if state == "FINISHED" else None
    return {
        "records-in-per-second": round(rate, 1) if stage.inputs else 0.0,
        "records-out-per-second": round(rate * 0.9, 1),
        "watermark": now_ms - 4_200 - round(900 * part) if is_running else watermark,
        "output-watermark": now_ms - 4_200 if is_running else watermark,
        "state-bytes": round(stage.state_bytes * part),
        "pending-records": None if stage.inputs else round(rate * 3),
        "late-records-dropped": 0,
        "busy-share": stage.busy * min(part * stage.parallelism, 1.0) if is_running else 0,
        "back-pressured-share": stage.pressed if is_running else 0,
    }


def job_document(job: Job, now_ms: int) -> JSON:
    until = now_ms if job.ended_ms < 0 else job.ended_ms
    seconds = (until - job.started_ms) / 1_000
    return {
        "jid": job.jid,
        "name": job.name,
        "isStoppable": False,
        "state": job.state,
        "job-type": "STREAMING",
        "start-time": job.started_ms,
        "end-time": job.ended_ms,
        "duration": until - job.started_ms,
        "maxParallelism": 128,
        "now": now_ms,
        "timestamps": {"RUNNING": job.started_ms + 900},
        "vertices": [
            {
                "id": job.vertex(index),
                "slotSharingGroupId": "0" * 32,
                "name": stage.name,
                "maxParallelism": 128,
                "parallelism": stage.parallelism,
                "status": TASK_OF.get(job.state, "RUNNING"),
                "start-time": job.started_ms,
                "end-time": job.ended_ms,
                "duration": until - job.started_ms,
                "tasks": task_counts(stage, job.state),
                "metrics": io_figures(stage.rate, seconds),
                "figures": lately(stage, 1.0, now_ms, job.state),
            }
            for index, stage in enumerate(job.stages)
        ],
        "status-counts": {},
        "plan": plan_document(job),
        "restarts": job.restarts,
        "attempt": job.restarts,
        "last-checkpoint-timestamp": job.last_checkpoint_ms,
    }


def plan_document(job: Job) -> JSON:
    return {
        "jid": job.jid,
        "name": job.name,
        "type": "STREAMING",
        "nodes": [
            {
                "id": job.vertex(index),
                "parallelism": stage.parallelism,
                "operator": "",
                "operator_strategy": "",
                "description": stage.name,
                "inputs": [
                    {
                        "num": number,
                        "id": job.vertex(source),
                        "ship_strategy": how,
                        "exchange": "pipelined_bounded",
                    }
                    for number, (source, how) in enumerate(stage.inputs)
                ],
                "optimizer_properties": {},
            }
            for index, stage in enumerate(job.stages)
        ],
    }


def vertex_document(job: Job, index: int, now_ms: int) -> JSON:
    stage = job.stages[index]
    shares = [0.4 + scatter(index, each) for each in range(stage.parallelism)]
    if stage.parallelism > 3:
        shares[-1] = 3.5  # One subtask has most of the keys.
    shares = [share / sum(shares) for share in shares]
    seconds = (now_ms - job.started_ms) / 1_000
    return {
        "id": job.vertex(index),
        "name": stage.name,
        "parallelism": stage.parallelism,
        "maxParallelism": 128,
        "now": now_ms,
        "subtasks": [
            {
                "subtask": each,
                "status": TASK_OF.get(job.state, "RUNNING"),
                "attempt": job.restarts,
                "endpoint": f"worker-{each % 3}.example.org",
                "start-time": job.started_ms,
                "end-time": job.ended_ms,
                "duration": now_ms - job.started_ms,
                "metrics": io_figures(stage.rate * share, seconds),
                "taskmanager-id": f"worker-{each % 3}",
                "figures": lately(stage, share, now_ms, job.state),
            }
            for each, share in enumerate(shares)
        ],
        "operators": [],
        "skew": None,
    }


def overview_row(job: Job, now_ms: int) -> JSON:
    tasks = dict.fromkeys([state.lower() for state in TASK_STATES], 0)
    for stage in job.stages:
        for state, number in task_counts(stage, job.state).items():
            tasks[state.lower()] += number
    until = now_ms if job.ended_ms < 0 else job.ended_ms
    return {
        "jid": job.jid,
        "name": job.name,
        "start-time": job.started_ms,
        "end-time": job.ended_ms,
        "duration": until - job.started_ms,
        "state": job.state,
        "last-modification": job.started_ms,
        "schedulerType": "Default",
        "job-type": "STREAMING",
        "pending-operators": 0,
        "tasks": {"total": sum(tasks.values()), **tasks},
        "restarts": job.restarts,
        "last-checkpoint-timestamp": job.last_checkpoint_ms,
    }
