"""Sizes and durations of a checkpoint, measured by whoever does the work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """What one subtask contributed.

    Attributes:
        subtask: Its index.
        acknowledged_ms: Wall time of its acknowledgement.
        end_to_end_ms: From trigger to acknowledgement.
        sync_ms: Flush inside the epoch.
        async_ms: Upload.
        start_delay_ms: From trigger to the end of the epoch.
        checkpointed_bytes: Newly written.
        state_bytes: Full size.
    """

    subtask: int
    acknowledged_ms: int
    end_to_end_ms: int = 0
    sync_ms: int = 0
    async_ms: int = 0
    start_delay_ms: int = 0
    checkpointed_bytes: int = 0
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What the subtasks of one task contributed.

    Attributes:
        task_id: Names the task.
        name: Its name for people.
        subtasks: In the order of their indices.
    """

    task_id: str
    name: str
    subtasks: tuple[SubtaskFigures, ...]


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """What a whole checkpoint weighs.

    Attributes:
        checkpointed_bytes: Newly written.
        state_bytes: Full size.
        files_new: Files written.
        files_reused: Files of earlier checkpoints that it refers to.
        inline_bytes: State inside `_metadata`.
        tasks: Figures by task.
    """

    checkpointed_bytes: int = 0
    state_bytes: int = 0
    files_new: int = 0
    files_reused: int = 0
    inline_bytes: int = 0
    tasks: tuple[TaskFigures, ...] = ()
