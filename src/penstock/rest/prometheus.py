"""Figures in Prometheus' text format, named as Flink's own reporter names them.

Dashboards made for Flink load; what only Penstock has begins with `penstock_`. Labels are names of
jobs, tasks and operators, never of keys.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.core.redaction import without_secrets

if TYPE_CHECKING:
    from penstock.jobmanager.dispatching import Leadership
    from penstock.jobmanager.job_records import JobRecord

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_:]")
_OURS: Final = {
    "epoch": "penstock_last_epoch",
    "epochs": "penstock_epochs_total",
    "lastEpochRecords": "penstock_epoch_records",
    "lastCheckpointFilesNew": "penstock_checkpoint_files_new",
    "lastCheckpointFilesReused": "penstock_checkpoint_files_reused",
    "lastCheckpointInlineSize": "penstock_checkpoint_bytes_inline",
    "taskRetries": "penstock_spark_task_retries_total",
    "stateHomeHits": "penstock_state_home_hits_total",
    "stateRestores": "penstock_state_restores_total",
    "stateMoves": "penstock_state_moves_total",
}
_MILLISECONDS: Final = {
    "lastEpochDuration": "penstock_last_epoch_duration_seconds",
    "epochDurationTotal": "penstock_epoch_duration_seconds_total",
}
_STORAGE: Final = {
    "retries": "penstock_storage_retries_total",
    "fenced-writes": "penstock_fenced_writes_total",
    "orphan-bytes": "penstock_orphan_bytes",
}

Labels = dict[str, str]


class _Families:
    """Samples by name; a name is announced once, before its first sample."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}

    def add(self, name: str, labels: Labels, value: Any) -> None:
        number = _number(value)
        if number is None:
            return
        name = _INVALID.sub("_", name)
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        self._samples.setdefault(name, []).append(f"{name}{{{pairs}}} {number}")

    def text(self) -> str:
        lines = []
        for name, samples in sorted(self._samples.items()):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", *samples]
        return "\n".join(lines) + "\n"


def exposition(
    leadership: Leadership, jobs: Iterable[JobRecord], metrics: Mapping[str, dict[str, Any] | None]
) -> str:
    """Returns all figures.

    Args:
        leadership: Who leads.
        jobs: All jobs.
        metrics: Metrics documents of jobs that have not ended, by job id.
    """
    families = _Families()
    host = {"host": socket.gethostname()}
    jobs = list(jobs)
    running = [each for each in jobs if not each.status.is_terminal_state()]
    families.add("flink_jobmanager_numRunningJobs", host, len(running))
    families.add("penstock_jobs", host, len(jobs))
    families.add("penstock_leader", host | {"epoch": str(leadership.epoch)}, leadership.is_leader)
    for record in running:
        document = metrics.get(record.job_id)
        labels = host | {"job_id": record.job_id, "job_name": without_secrets(record.name)}
        if document is None:
            families.add("flink_jobmanager_job_numRestarts", labels, record.restarts)
            continue
        _add_job(families, labels, document)
    return families.text()


def _add_job(families: _Families, labels: Labels, document: dict[str, Any]) -> None:
    for name, value in document["job"].items():
        if name in _MILLISECONDS:
            families.add(_MILLISECONDS[name], labels, value / 1000)
        else:
            families.add(_OURS.get(name) or f"flink_jobmanager_job_{name}", labels, value)
    for phase, spent_ms in document["phases"].items():
        families.add("penstock_epoch_duration_seconds", labels | {"phase": phase}, spent_ms / 1000)
    for cause, number in document["failures"].items():
        families.add("penstock_failures_total", labels | {"cause": cause}, number)
    storage = document["storage"]
    for each in storage["requests"]:
        of_request = labels | {"op": each["op"], "outcome": each["outcome"]}
        families.add("penstock_storage_requests_total", of_request, each["count"])
    for name, family in _STORAGE.items():
        families.add(family, labels, storage[name])
    for vertex in document["vertices"]:
        for subtask in vertex["subtasks"]:
            of_task = labels | {
                "task_id": vertex["id"],
                "task_name": vertex["name"],
                "subtask_index": str(subtask["subtask"]),
                "task_attempt_num": str(document["job"]["numRestarts"]),
            }
            for name, value in subtask["task"].items():
                if name != "stateBytes":
                    families.add(f"flink_taskmanager_job_task_{name}", of_task, value)
            for uid, figures in subtask["operators"].items():
                of_operator = of_task | {
                    "operator_id": uid,
                    "operator_name": vertex["operators"].get(uid, uid),
                }
                _add_operator(families, of_operator, uid, figures)


def _add_operator(families: _Families, labels: Labels, uid: str, figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        if name == "stateBytes":
            families.add("penstock_state_bytes", labels | {"uid": uid}, value)
        else:
            plain = name.removeprefix("user.")
            families.add(f"flink_taskmanager_job_task_operator_{plain}", labels, value)


def _number(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return None


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
