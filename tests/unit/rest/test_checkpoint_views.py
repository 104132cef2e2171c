"""Documents of checkpoints: every field of Flink's, always; values by hand."""

from __future__ import annotations

from typing import Any

from job_samples import SUM_ID, facts

from penstock.checkpoint.coordination.checkpoints import (
    CheckpointFailure,
    FailureReason,
    PendingCheckpoint,
    TriggerRequest,
)
from penstock.checkpoint.coordination.instructions import (
    NotifyAborted,
    NotifyCompleted,
    RequestSnapshot,
    WriteMetadata,
)
from penstock.checkpoint.figures import CheckpointFigures, SubtaskFigures, TaskFigures
from penstock.checkpoint.settings import CheckpointSettings
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.core.configuration import Configuration, Rank
from penstock.job.documents.checkpoints import (
    checkpoint_config_view,
    checkpoints_view,
    details_view,
    record_view,
)
from penstock.job.documents.metrics import metrics_view

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
        known.apply(RequestSnapshot(number, request), number * 1_000)
    pending = PendingCheckpoint(
        1, TriggerRequest(1, 0), 0, 0, epoch=7, location="/c/chk-1", figures=FIGURES
    )
    known.apply(WriteMetadata(pending, None), 1_040)
    known.apply(NotifyCompleted(pending, 45, 5), 1_045)
    failure = CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED, "s3://me:secret@b is slow")
    known.apply(NotifyAborted(2, failure, 600), 2_600)
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
