"""Figures as Prometheus reads them, parsed by its own parser."""

from __future__ import annotations

from dataclasses import replace

from job_samples import JOB_ID, facts
from prometheus_client.parser import text_string_to_metric_families
from stored_jobs_dispatcher import job_record

from penstock.checkpoint.coordination.checkpoints import PendingCheckpoint, TriggerRequest
from penstock.checkpoint.coordination.instructions import NotifyCompleted, RequestSnapshot
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.core.job import JobStatus
from penstock.job.documents.metrics import metrics_view
from penstock.job.record import StorageFacts
from penstock.jobmanager.dispatching import Leadership
from penstock.rest.prometheus import exposition

Found = dict[str, list[tuple[dict[str, str], float]]]


def checkpointed() -> CheckpointStatistics:
    """One checkpoint: 3 files written, 5 reused, 700 bytes inside its metadata."""
    known = CheckpointStatistics()
    request = TriggerRequest(1, 11_000)
    figures = CheckpointFigures(
        checkpointed_bytes=1_700,
        state_bytes=9_000,
        files_new=3,
        files_reused=5,
        inline_bytes=700,
    )
    pending = PendingCheckpoint(1, request, 0, 0, epoch=8, location="/c/chk-1", figures=figures)
    for said in (RequestSnapshot(1, request), NotifyCompleted(pending, 40, 2)):
        known.apply(said, 11_000)
    return known


def parsed(name: str = "word count") -> Found:
    summary = job_record(JOB_ID, name, JobStatus.RUNNING, 1_000)
    ended = job_record("f" * 32, "done", JobStatus.FINISHED, 1_000, 2_000)
    asked = StorageFacts({("put", "ok"): 9, ("put", "failed"): 1, ("read", "ok"): 4}, 1, 2, 4_096)
    totals = replace(
        facts().metrics.totals, phases_ms={"plan": 5, "run": 80, "commit": 15}, task_retries=3
    )
    counts = {"executor-lost": 2, "fetch-failed": 1}
    metrics = replace(facts().metrics, totals=totals)
    job = facts(storage=asked, metrics=metrics, failure_counts=counts)
    documents = {JOB_ID: metrics_view(job, checkpointed(), 12_000)}
    text = exposition(Leadership(True, 7, None), [summary, ended], documents)
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def labelled(found: Found, name: str, *keys: str) -> dict[tuple[str, ...], float]:
    return {tuple(labels[key] for key in keys): value for labels, value in found[name]}


def test_names_are_those_of_flinks_reporter() -> None:
    found = parsed()
    assert found["flink_jobmanager_numRunningJobs"][0][1] == 1
    labels, value = found["flink_jobmanager_job_uptime"][0]
    assert value == 10_000
    assert (labels["job_id"], labels["job_name"]) == (JOB_ID, "word count")
    assert found["flink_jobmanager_job_numberOfCompletedCheckpoints"][0][1] == 1
    tasks = {
        (labels["task_name"], labels["subtask_index"]): value
        for labels, value in found["flink_taskmanager_job_task_numRecordsIn"]
    }
    assert tasks == {
        ("Source: words", "0"): 60,
        ("Sum -> Sink: out", "0"): 20,
        ("Sum -> Sink: out", "1"): 40,
    }
    operators = found["flink_taskmanager_job_task_operator_numLateRecordsDropped"]
    assert {labels["operator_name"] for labels, _ in operators} == {"Source: words", "Sum"}


def test_ours_have_a_prefix_of_their_own() -> None:
    found = parsed()
    assert {labels["uid"]: value for labels, value in found["penstock_state_bytes"][1:]} == {
        "sum": 100
    }
    assert found["penstock_epoch_duration_seconds_total"][0][1] == 2.0
    assert found["penstock_epoch_records"][0][1] == 60
    assert labelled(found, "penstock_epoch_duration_seconds", "phase") == {
        ("plan",): 0.005, ("run",): 0.08, ("commit",): 0.015
    }  # fmt: skip
    assert labelled(found, "penstock_storage_requests_total", "op", "outcome") == {
        ("put", "ok"): 9, ("put", "failed"): 1, ("read", "ok"): 4
    }  # fmt: skip
    assert labelled(found, "penstock_failures_total", "cause") == {
        ("executor-lost",): 2, ("fetch-failed",): 1
    }  # fmt: skip
    single = {
        "penstock_storage_retries_total": 1,
        "penstock_fenced_writes_total": 2,
        "penstock_orphan_bytes": 4_096,
        "penstock_spark_task_retries_total": 3,
        "penstock_checkpoint_files_new": 3,
        "penstock_checkpoint_files_reused": 5,
        "penstock_checkpoint_bytes_inline": 700,
    }
    assert {name: found[name][0][1] for name in single} == single
    labels, value = found["penstock_leader"][0]
    assert (labels["epoch"], value) == ("7", 1)
    assert all(name.startswith(("flink_", "penstock_")) for name in found)


def test_what_is_no_number_is_left_out() -> None:
    found = parsed()
    assert "flink_jobmanager_job_lastCheckpointExternalPath" not in found


def test_labels_are_escaped() -> None:
    evil = 'a"} 1\nfake_metric{x="\\'
    found = parsed(evil)
    assert found["flink_jobmanager_job_uptime"][0][0]["job_name"] == evil
    assert "fake_metric" not in found
