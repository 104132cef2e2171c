"""Figures as Prometheus reads them, parsed by its own parser."""

from __future__ import annotations

from job_samples import JOB_ID, facts
from prometheus_client.parser import text_string_to_metric_families

from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.core.job import JobStatus
from penstock.jobmanager.dispatching import JobSummary, Leadership
from penstock.rest.prometheus import exposition
from penstock.rest.views.metrics import metrics_view

Found = dict[str, list[tuple[dict[str, str], float]]]


def parsed(name: str = "word count") -> Found:
    summary = JobSummary(JOB_ID, name, JobStatus.RUNNING, 1_000)
    ended = JobSummary("f" * 32, "done", JobStatus.FINISHED, 1_000, 2_000)
    documents = {JOB_ID: metrics_view(facts(), CheckpointStatistics(), 12_000)}
    text = exposition(Leadership(True, 7, None), [summary, ended], documents)
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_names_are_those_of_flinks_reporter() -> None:
    found = parsed()
    assert found["flink_jobmanager_numRunningJobs"][0][1] == 1
    labels, value = found["flink_jobmanager_job_uptime"][0]
    assert value == 10_000
    assert (labels["job_id"], labels["job_name"]) == (JOB_ID, "word count")
    assert found["flink_jobmanager_job_numberOfCompletedCheckpoints"][0][1] == 0
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
