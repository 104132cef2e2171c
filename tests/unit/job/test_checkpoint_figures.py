"""What subtasks contributed to a checkpoint: sizes and times by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.manifest import (
    ChunkCodec,
    Manifest,
    ManifestKind,
    OperatorRecord,
    StoredChunk,
    StoredHandle,
    SubtaskRecord,
)
from penstock.checkpoint.statistics import SnapshotTimes, task_figures
from penstock.checkpoint.upload_plan import UploadPlan
from penstock.files.memory import MemoryStorage
from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage
from penstock.graph.nodes import NodeKind
from penstock.job.snapshot import JobForCheckpoints

STAGE = Stage(
    0,
    0,
    2,
    128,
    (
        ChainedOperator(1, NodeKind.SOURCE, "numbers", False, "Numbers", None, None, None),
        ChainedOperator(2, NodeKind.OPERATOR, "sum", False, "Sum", None, 0, None),
    ),
)
FILES: Any = SimpleNamespace(pin=None, pin_again=None, unpin=None)
TASKS = JobForCheckpoints(JobGraph("job", (STAGE,), ()), FILES, FILES).tasks
NUMBER = 7


def handle(size: int, *, created_by: int = NUMBER, inline: bool = False) -> StoredHandle:
    content = b"x" * size if inline else None
    path = None if inline else "file"
    return StoredHandle(
        name="n",
        size_bytes=size,
        sha256="0" * 64,
        inline=content,
        path=path,
        created_by=created_by,
    )


def operator(uid: str, *subtasks: tuple[StoredHandle, ...]) -> OperatorRecord:
    records = tuple(
        SubtaskRecord(
            chunks=tuple(
                StoredChunk(name=str(number), codec=ChunkCodec.PICKLE, handle=each)
                for number, each in enumerate(handles)
            )
        )
        for handles in subtasks
    )
    return OperatorRecord(
        uid=uid,
        uid_hash="",
        name=uid,
        parallelism=len(subtasks),
        max_parallelism=128,
        subtasks=records,
    )


def plan(*operators: OperatorRecord) -> UploadPlan:
    manifest = Manifest(
        job_id="a" * 32,
        checkpoint_id=NUMBER,
        kind=ManifestKind.CHECKPOINT,
        created_ms=0,
        leader_epoch=1,
        epoch=1,
        penstock_version="0",
        operators=operators,
    )
    return UploadPlan(MemoryStorage(), "chk-7", manifest, {}, CheckpointFigures())


def test_sizes_and_times_of_subtasks() -> None:
    """Triggered at 1000, epoch ended at 1200, files safe at 1500; the first subtask has none."""
    times = SnapshotTimes(1_000, 1_200, 1_500, {(0, 0): 3.4, (0, 1): 8.6})
    uploaded = plan(
        operator("numbers", (handle(10, inline=True),), (handle(20, inline=True),)),
        operator("sum", (handle(500, created_by=3),), (handle(300), handle(900, created_by=6))),
    )
    (task,) = task_figures(TASKS, uploaded, NUMBER, times)
    assert (task.task_id, task.name) == (STAGE.vertex_id, "Numbers -> Sum")
    first, second = task.subtasks
    # 500 bytes are in a file of checkpoint 3: part of the state, but not written again.
    assert (first.checkpointed_bytes, first.state_bytes) == (10, 510)
    assert (first.acknowledged_ms, first.async_ms, first.end_to_end_ms) == (1_200, 0, 200)
    assert (second.checkpointed_bytes, second.state_bytes) == (320, 1_220)
    assert (second.acknowledged_ms, second.async_ms, second.end_to_end_ms) == (1_500, 300, 500)
    assert (first.sync_ms, second.sync_ms) == (3, 9)
    assert first.start_delay_ms == second.start_delay_ms == 200


def test_a_clock_that_is_set_back_makes_no_negative_times() -> None:
    times = SnapshotTimes(5_000, 1_200, 900)
    (task,) = task_figures(TASKS, plan(operator("sum", (handle(1),), ())), NUMBER, times)
    for row in task.subtasks:
        assert row.start_delay_ms == row.async_ms == row.end_to_end_ms == 0
    # An operator without a record, as one without state may be, weighs nothing.
    assert task.subtasks[1].state_bytes == 0
