"""Documents of a job: every field of Flink's, always; values by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_samples import GRAPH, JOB_ID, SOURCE_ID, SUM_ID, facts, totals
from stored_jobs_dispatcher import job_record

from penstock.core.configuration import Configuration, Rank
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.job.documents.configuration import effective_config_view, pairs_view
from penstock.job.documents.current import current_job, overview_row
from penstock.job.documents.job import (
    exceptions_view,
    execution_result_view,
    job_view,
    plan_view,
    vertex_view,
)
from penstock.job.record import FailureRecord, task_state

TASK_STATES = {
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
}
OVERVIEW = {
    "jid",
    "name",
    "start-time",
    "end-time",
    "duration",
    "state",
    "last-modification",
    "schedulerType",
    "job-type",
    "pending-operators",
    "tasks",
}
JOB = {
    "jid",
    "name",
    "isStoppable",
    "state",
    "job-type",
    "start-time",
    "end-time",
    "duration",
    "maxParallelism",
    "now",
    "timestamps",
    "vertices",
    "status-counts",
    "plan",
    "stream-graph",
    "pending-operators",
}
VERTEX = {
    "id",
    "slotSharingGroupId",
    "name",
    "maxParallelism",
    "parallelism",
    "status",
    "start-time",
    "end-time",
    "duration",
    "tasks",
    "metrics",
}


def test_the_job_has_all_fields_of_flink() -> None:
    view = job_view(facts(), 62_000)
    assert view.keys() >= JOB
    assert set(view["timestamps"]) == {status.name for status in JobStatus}
    assert set(view["status-counts"]) == TASK_STATES
    assert (view["jid"], view["name"], view["state"]) == (JOB_ID, "word count", "RUNNING")
    assert (view["start-time"], view["end-time"], view["duration"]) == (1_000, -1, 61_000)
    assert view["timestamps"]["RUNNING"] == 2_000
    assert view["timestamps"]["FAILED"] == 0
    for vertex in view["vertices"]:
        assert vertex.keys() >= VERTEX
        assert set(vertex["tasks"]) == TASK_STATES
    source, count = view["vertices"]
    assert (source["id"], count["id"]) == (SOURCE_ID, SUM_ID)
    assert (count["name"], count["parallelism"]) == ("Sum -> Sink: out", 2)
    assert count["metrics"]["read-records"] == 60
    # Two subtasks through epochs of 2 s, each 500 ms busy and 100 ms held up.
    assert count["metrics"]["accumulated-busy-time"] == 1_000
    assert count["metrics"]["accumulated-backpressured-time"] == 200
    assert count["metrics"]["accumulated-idle-time"] == 2_800
    assert count["duration"] == 60_000
    # 60 records in the ten seconds since the attempt started, 500 of 10,000 ms busy.
    assert source["figures"]["records-in-per-second"] == 6.0
    assert source["figures"]["busy-share"] == 0.05
    assert count["figures"]["state-bytes"] == 400
    assert count["figures"]["watermark"] == 1_000
    assert count["figures"]["late-records-dropped"] == 2


def test_only_the_time_distinguishes_two_looks_at_a_quiet_job() -> None:
    first, second = job_view(facts(), 10), job_view(facts(), 20)
    assert first != second
    assert job_view(facts(), 10) == first


@pytest.mark.parametrize(
    ("status", "ended", "expected"),
    [
        (JobStatus.INITIALIZING, False, "CREATED"),
        (JobStatus.CREATED, False, "SCHEDULED"),
        (JobStatus.RUNNING, False, "RUNNING"),
        (JobStatus.RUNNING, True, "FINISHED"),
        (JobStatus.RESTARTING, False, "SCHEDULED"),
        (JobStatus.CANCELLING, False, "CANCELING"),
        (JobStatus.CANCELED, False, "CANCELED"),
        (JobStatus.FINISHED, True, "FINISHED"),
        (JobStatus.FAILING, False, "CANCELING"),
        (JobStatus.SUSPENDED, False, "CANCELED"),
        (JobStatus.RECONCILING, False, "RECONCILING"),
    ],
)
def test_subtasks_stand_where_their_job_does(status: JobStatus, ended: bool, expected: str) -> None:
    job = facts(status=status)
    subtasks = job.metrics.totals.subtasks | {(0, 0): totals(1, uid="words", ended=ended)}
    metrics = replace(job.metrics, totals=replace(job.metrics.totals, subtasks=subtasks))
    assert task_state(replace(job, metrics=metrics), GRAPH.stages[0], 0) == expected


def test_a_failure_marks_its_subtask_and_cancels_the_others() -> None:
    failure = FailureRecord(5, "ValueError", "boom", "Sum -> Sink: out", 1)
    view = job_view(facts(status=JobStatus.FAILED, ended_ms=9_000, failures=(failure,)), 99_000)
    source, count = view["vertices"]
    assert source["status"] == "CANCELED"
    assert (count["status"], count["tasks"]["FAILED"], count["tasks"]["CANCELED"]) == (
        "FAILED",
        1,
        1,
    )
    assert (view["end-time"], view["duration"]) == (9_000, 8_000)


def test_a_vertex_shows_its_subtasks_and_their_skew() -> None:
    view = vertex_view(facts(), GRAPH.stages[1], 62_000)
    assert [each["metrics"]["read-records"] for each in view["subtasks"]] == [20, 40]
    assert view["subtasks"][1]["figures"]["records-in-per-second"] == 4.0
    assert view["subtasks"][0]["figures"]["idle-share"] == 0.94
    assert view["subtasks"][0]["endpoint"] == "host1"
    # 40 over the median of 20 and 40.
    assert view["skew"] == 1.33
    assert [each["uid"] for each in view["operators"]] == ["sum", "out"]


def test_the_plan_names_exchanges_as_flink_does() -> None:
    nodes = plan_view(JOB_ID, GRAPH)["nodes"]
    assert nodes[1]["inputs"] == [
        {"num": 0, "id": SOURCE_ID, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
    ]
    assert nodes[1]["description"] == "Sum -> Sink: out"


def test_exceptions_show_the_newest_first() -> None:
    failures = (
        FailureRecord(9, "KeyError", "the second", "Sum -> Sink: out", 1, 1, 12),
        FailureRecord(5, "ValueError", "the first", None, None, 0, None),
    )
    view = exceptions_view(facts(failures=failures, failures_dropped=True))
    history = view["exceptionHistory"]
    assert history["truncated"] is True
    assert [entry["stacktrace"] for entry in history["entries"]] == ["the second", "the first"]
    newest = history["entries"][0]
    assert (newest["exceptionName"], newest["timestamp"]) == ("KeyError", 9)
    assert newest["taskName"] == "Sum -> Sink: out (2/2)"
    assert newest["restored-checkpoint"] == 12
    assert (view["root-exception"], view["timestamp"]) == ("the second", 9)


def test_failures_have_the_label_of_their_cause_and_are_counted_by_it() -> None:
    lost = FailureRecord(9, "ExecutorLostError", "gone", cause="executor-lost")
    counts = {"executor-lost": 3, "user-function": 1}
    job = facts(failures=(lost,), failure_counts=counts)
    [entry] = exceptions_view(job)["exceptionHistory"]["entries"]
    assert entry["failureLabels"] == {"cause": "executor-lost"}
    assert job_view(job, 62_000)["failures-by-cause"] == counts


def test_a_job_shows_how_often_state_was_at_home() -> None:
    totals = replace(facts().metrics.totals, home_hits=99, restores=1, moves=2)
    view = job_view(facts(metrics=replace(facts().metrics, totals=totals)), 62_000)
    assert view["state-placement"] == {"home-hits": 99, "restores": 1, "moves": 2}


def test_a_result_is_there_when_the_job_has_ended() -> None:
    assert execution_result_view(facts(), None) == {"status": {"id": "IN_PROGRESS"}}
    result = JobExecutionResult(JobID(JOB_ID), 777)
    done = execution_result_view(facts(status=JobStatus.FINISHED, ended_ms=9), result)
    assert done["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert done["job-execution-result"]["net-runtime"] == 777
    failure = FailureRecord(5, "ValueError", "boom")
    failed = execution_result_view(
        facts(status=JobStatus.FAILED, ended_ms=1_500, failures=(failure,)), None
    )
    assert failed["job-execution-result"]["failure-cause"] == {
        "class": "ValueError",
        "stack-trace": "boom",
    }
    assert failed["job-execution-result"]["net-runtime"] == 500


# -- configuration and secrets --------------------------------------------------------------------


def test_settings_show_their_sources_and_no_secrets() -> None:
    configuration = Configuration()
    configuration.put("fs.s3a.secret.key", "hunter2", Rank.FILE, "conf/config.yaml:1")
    configuration.put("penstock.spark.conf.spark.x.password", "hunter2", Rank.COMMAND_LINE, "-D")
    url = "s3://key:hunter2@bucket/c"
    configuration.put("execution.checkpointing.dir", url, Rank.COMMAND_LINE, "-D")
    settings = {each["key"]: each for each in effective_config_view(configuration)["settings"]}
    assert settings["fs.s3a.secret.key"]["value"] == "******"
    assert settings["fs.s3a.secret.key"]["source"] == "conf/config.yaml:1"
    assert settings["execution.checkpointing.dir"]["value"] == "s3://******@bucket/c"
    assert settings["parallelism.default"]["is-default"] is True
    assert "hunter2" not in str(settings)
    assert "hunter2" not in str(pairs_view(configuration))


# -- as of now ------------------------------------------------------------------------------------


def test_lists_have_all_fields_of_flink() -> None:
    summary = job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000, tasks={"running": 3})
    row = overview_row(summary, 5_000)
    assert row.keys() >= OVERVIEW
    assert set(row["tasks"]) == {"total", *(state.lower() for state in TASK_STATES)}
    assert (row["tasks"]["total"], row["tasks"]["running"], row["duration"]) == (3, 3, 4_000)
    assert current_job(None, summary, 5_000).keys() >= JOB


def test_the_manager_knows_better_than_a_driver_that_was_killed() -> None:
    document = job_view(facts(), 10_000)
    summary = job_record(JOB_ID, "n", JobStatus.FAILED, 1_000, 30_000, 30_000, restarts=2)
    view = current_job(document, summary, 99_000)
    assert (view["state"], view["end-time"], view["duration"]) == ("FAILED", 30_000, 29_000)
    assert {vertex["status"] for vertex in view["vertices"]} == {"FAILED"}
    assert view["vertices"][1]["tasks"]["FAILED"] == 2
    assert view["status-counts"]["FAILED"] == 2
    assert view["timestamps"]["FAILED"] == 30_000
    assert view["restarts"] == 2


def test_a_living_driver_is_believed() -> None:
    summary = job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000)
    view = current_job(job_view(facts(), 10_000), summary, 60_000)
    assert (view["now"], view["duration"]) == (60_000, 59_000)
    assert {vertex["status"] for vertex in view["vertices"]} == {"RUNNING"}
    assert view["vertices"][0]["duration"] == 58_000
