"""Documents of a job: every field of Flink's, always; values by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from job_samples import GRAPH, JOB_ID, SOURCE_ID, SUM_ID, facts, totals

from penstock.checkpoint import facts as checkpoint_facts
from penstock.checkpoint.completed import SnapshotKind
from penstock.checkpoint.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.figures import CheckpointFigures, SubtaskFigures, TaskFigures
from penstock.checkpoint.settings import CheckpointSettings
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.checkpoint.triggering import TriggerRequest
from penstock.core.configuration import Configuration, Rank
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.jobmanager.dispatching import JobSummary
from penstock.rest.views.checkpoint_config import checkpoint_config_view
from penstock.rest.views.checkpoints import checkpoints_view, details_view, record_view
from penstock.rest.views.configuration import effective_config_view, pairs_view, without_secrets
from penstock.rest.views.current import current_job, overview_row, stub_job
from penstock.rest.views.exceptions import exceptions_view
from penstock.rest.views.facts import FailureRecord, task_state
from penstock.rest.views.job import execution_result_view, job_view, plan_view, vertex_view
from penstock.rest.views.metrics import metrics_view

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
HISTORY = {
    "className",
    "id",
    "status",
    "is_savepoint",
    "savepointFormat",
    "checkpoint_type",
    "trigger_timestamp",
    "latest_ack_timestamp",
    "checkpointed_size",
    "state_size",
    "end_to_end_duration",
    "alignment_buffered",
    "processed_data",
    "persisted_data",
    "num_subtasks",
    "num_acknowledged_subtasks",
    "tasks",
}
SUMMARY = {"min", "max", "avg", "p50", "p90", "p95", "p99", "p999"}


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


# -- checkpoints ----------------------------------------------------------------------------------

FIGURES = CheckpointFigures(
    100,
    150,
    2,
    1,
    30,
    (
        TaskFigures(
            SUM_ID,
            "Sum -> Sink: out",
            (
                SubtaskFigures(0, 1_010, 10, 1, 4, 5, 40, 60),
                SubtaskFigures(1, 1_030, 30, 3, 22, 5, 60, 90),
            ),
        ),
    ),
)


def statistics() -> CheckpointStatistics:
    """Checkpoint 1 is complete, 2 has failed, 3 runs."""
    known = CheckpointStatistics(10, 3)
    for number in (1, 2, 3):
        request = TriggerRequest(number, 0)
        known.apply(checkpoint_facts.CheckpointTriggered(number, request), number * 1_000)
    known.apply(checkpoint_facts.CheckpointUploaded(1, FIGURES), 1_040)
    known.apply(
        checkpoint_facts.CheckpointCompleted(
            1, SnapshotKind.CHECKPOINT, "/c/chk-1", 7, 45, 5, FIGURES
        ),
        1_045,
    )
    failure = CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED, "s3://me:secret@b is slow")
    known.apply(checkpoint_facts.CheckpointFailed(2, failure, 600), 2_600)
    return known


def lines(known: CheckpointStatistics) -> list[dict[str, Any]]:
    return [record_view(record, 4) for record in known.history()]


def test_checkpoints_have_all_fields_of_flink() -> None:
    known = statistics()
    view = checkpoints_view(known, lines(known), 4)
    assert view["counts"] == {
        "restored": 0,
        "total": 3,
        "in_progress": 1,
        "completed": 1,
        "failed": 1,
    }
    assert set(view["summary"]) == {
        "checkpointed_size",
        "state_size",
        "end_to_end_duration",
        "alignment_buffered",
        "processed_data",
        "persisted_data",
    }
    assert all(set(each) == SUMMARY for each in view["summary"].values())
    assert view["summary"]["state_size"]["max"] == 150
    assert set(view["latest"]) == {"completed", "savepoint", "failed", "restored"}
    running, failed, done = view["history"]
    assert all(line.keys() >= HISTORY for line in view["history"])
    assert running["className"] == "in_progress"
    assert (failed["failure_timestamp"], failed["failure_reason"]) == (2_600, "CHECKPOINT_EXPIRED")
    assert "secret" not in failed["failure_message"]
    assert (done["external_path"], done["discarded"]) == ("/c/chk-1", False)
    assert (done["files"], done["files_reused"], done["bytes_inline"]) == (2, 1, 30)
    assert (done["latest_ack_timestamp"], done["leader_epoch"]) == (1_030, 4)
    assert view["latest"]["completed"]["id"] == 1


def test_before_the_first_checkpoint_everything_is_zero() -> None:
    view = checkpoints_view(None, [])
    assert set(view["counts"].values()) == {0}
    assert view["history"] == []
    assert all(set(each.values()) <= {0} for each in view["summary"].values())


def test_details_go_down_to_the_subtask() -> None:
    record = statistics().find(1)
    assert record is not None
    view = details_view(record, 4)
    task = view["tasks"][SUM_ID]
    assert (task["checkpointed_size"], task["state_size"]) == (100, 150)
    assert (task["latest_ack_timestamp"], task["end_to_end_duration"]) == (1_030, 30)
    detailed = view["subtasks"][SUM_ID]
    assert detailed["summary"]["checkpoint_duration"]["sync"]["max"] == 3
    assert detailed["summary"]["checkpoint_duration"]["async"]["avg"] == 13
    assert detailed["summary"]["start_delay"]["min"] == 5
    second = detailed["subtasks"][1]
    assert second["checkpoint"] == {"sync": 3, "async": 22}
    assert (second["index"], second["ack_timestamp"], second["state_size"]) == (1, 1_030, 90)
    assert second["alignment"] == {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0}


def test_the_configuration_of_checkpoints_names_its_sources() -> None:
    configuration = Configuration()
    configuration.put("execution.checkpointing.interval", "5 s", Rank.FILE, "conf/config.yaml:3")
    settings = CheckpointSettings.from_configuration(configuration)
    view = checkpoint_config_view(settings, "hashmap", configuration)
    assert view.keys() >= {
        "mode",
        "interval",
        "timeout",
        "min_pause",
        "max_concurrent",
        "externalization",
        "state_backend",
        "checkpoint_storage",
        "unaligned_checkpoints",
        "tolerable_failed_checkpoints",
        "aligned_checkpoint_timeout",
        "checkpoints_after_tasks_finish",
        "state_changelog_enabled",
        "changelog_storage",
        "changelog_periodic_materialization_interval",
    }
    assert (view["mode"], view["interval"], view["timeout"]) == ("exactly_once", 5_000, 600_000)
    assert view["externalization"] == {"enabled": False, "delete_on_cancellation": True}
    assert view["checkpoint_storage"] == "JobManagerCheckpointStorage"
    assert view["sources"]["interval"] == "conf/config.yaml:3"
    assert view["sources"]["timeout"] == "default"


def test_metrics_have_flinks_names() -> None:
    view = metrics_view(facts(), statistics(), 12_000)
    job = view["job"]
    assert job["uptime"] == 10_000
    assert (job["numberOfCompletedCheckpoints"], job["lastCheckpointDuration"]) == (1, 45)
    assert job["lastCheckpointExternalPath"] == "/c/chk-1"
    subtask = view["vertices"][1]["subtasks"][1]
    assert subtask["task"]["numRecordsIn"] == 40
    assert subtask["task"]["busyTimeMsPerSecond"] == 50
    assert subtask["operators"]["sum"]["numLateRecordsDropped"] == 1
    assert subtask["operators"]["sum"]["currentOutputWatermark"] == 900


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jdbc://u:pw@h/db failed", "jdbc://******@h/db failed"),
        ("password=hunter2, next", "password=******, next"),
        ('{"api_key": "abc"}', '{"api_key": "******"}'),
        ("aws.secret.access-key: abc def", "aws.secret.access-key: ****** def"),
        ("the token was None", "the token was None"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_in_texts(text: str, expected: str) -> None:
    assert without_secrets(text) == expected


# -- as of now ------------------------------------------------------------------------------------


def test_lists_have_all_fields_of_flink() -> None:
    summary = JobSummary(JOB_ID, "n", JobStatus.RUNNING, 1_000, tasks={"running": 3})
    row = overview_row(summary, 5_000)
    assert row.keys() >= OVERVIEW
    assert set(row["tasks"]) == {"total", *(state.lower() for state in TASK_STATES)}
    assert (row["tasks"]["total"], row["tasks"]["running"], row["duration"]) == (3, 3, 4_000)
    assert stub_job(summary, 5_000).keys() >= JOB


def test_the_manager_knows_better_than_a_driver_that_was_killed() -> None:
    document = job_view(facts(), 10_000)
    summary = JobSummary(JOB_ID, "n", JobStatus.FAILED, 1_000, 30_000, 30_000, restarts=2)
    view = current_job(document, summary, 99_000)
    assert (view["state"], view["end-time"], view["duration"]) == ("FAILED", 30_000, 29_000)
    assert {vertex["status"] for vertex in view["vertices"]} == {"FAILED"}
    assert view["vertices"][1]["tasks"]["FAILED"] == 2
    assert view["status-counts"]["FAILED"] == 2
    assert view["timestamps"]["FAILED"] == 30_000
    assert view["restarts"] == 2


def test_a_living_driver_is_believed() -> None:
    summary = JobSummary(JOB_ID, "n", JobStatus.RUNNING, 1_000)
    view = current_job(job_view(facts(), 10_000), summary, 60_000)
    assert (view["now"], view["duration"]) == (60_000, 59_000)
    assert {vertex["status"] for vertex in view["vertices"]} == {"RUNNING"}
    assert view["vertices"][0]["duration"] == 58_000
