"""A job whose process died for the last time: its checkpoints go, unless output waits in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.coordination.instructions import Publish
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.manifest import Manifest, ManifestKind
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.checkpoint.snapshot_load import completed_from
from penstock.checkpoint.upload_plan import UploadPlan
from penstock.checkpoint.uploads import prepare_directories, write_metadata
from penstock.core.job import JobStatus
from penstock.core.times import SystemClock
from penstock.job.ended_jobs import clean_up
from penstock.jobmanager.job_directory import JobDirectory

JOB = "a" * 32
OWED = {"pending": [[7, {"part": "p"}]], "owes_other_jobs": True}
SHOWN = {"pending": [[7, "a line"]], "owes_other_jobs": False}


def dead_job(directory: Path, sink: dict[str, Any]) -> JobDirectory:
    """A job with one checkpoint whose process has died."""
    settings = CheckpointSettings(
        interval_ms=1_000, storage=StorageKind.FILE_SYSTEM, directory=str(directory / "checkpoints")
    )
    identity = JobIdentity(JOB, "job", str(directory / "state"))
    effects = CheckpointFiles(identity, settings, SystemClock())
    effects.probe()
    assert effects.reserve_id(1) == 1
    layout = layout_of(JOB)
    prepare_directories(effects._storage, layout, 1)
    manifest = Manifest(
        job_id=JOB,
        checkpoint_id=1,
        kind=ManifestKind.CHECKPOINT,
        created_ms=0,
        leader_epoch=1,
        epoch=7,
        penstock_version="0",
        sinks={"out": {"committer": None, **sink}},
    )
    plan = UploadPlan(effects._storage, layout.checkpoint(1), manifest, {}, CheckpointFigures())
    loaded = write_metadata(plan)
    effects.publish(Publish(1, None, (completed_from(loaded),), (), ()))
    effects.close()
    job = JobDirectory(directory / JOB)
    job.create()
    job.settings.write(
        {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "io.tmp.dirs": str(directory / "tmp"),
        }
    )
    return job


@pytest.mark.parametrize(
    ("sink", "status", "stays"),
    [
        (OWED, JobStatus.FAILED, True),
        (OWED, JobStatus.CANCELED, True),
        (OWED, JobStatus.FINISHED, False),  # It has committed all of it before.
        (SHOWN, JobStatus.FAILED, False),
        ({"pending": []}, JobStatus.FAILED, False),
    ],
    ids=["owed", "owed, cancelled", "finished", "printed", "nothing owed"],
)
def test_a_checkpoint_with_output_that_waits_stays(
    tmp_path: Path,
    sink: dict[str, Any],
    status: JobStatus,
    stays: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clean_up(dead_job(tmp_path, sink), status, 2)
    metadata = tmp_path / "checkpoints" / JOB / "chk-1" / "_metadata"
    assert metadata.exists() == stays
    assert ("sinks 'out' may not have been visible yet" in caplog.text) == stays
