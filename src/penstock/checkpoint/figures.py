"""Sizes and durations of a checkpoint, in all and for each subtask; plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """What one subtask contributed."""

    subtask: int
    acknowledged_ms: int  # Wall time of its acknowledgement.
    end_to_end_ms: int = 0  # From trigger to acknowledgement.
    sync_ms: int = 0  # Flush inside the epoch.
    async_ms: int = 0  # Upload.
    start_delay_ms: int = 0  # From trigger to the end of the epoch.
    checkpointed_bytes: int = 0  # Newly written.
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What the subtasks of one task contributed."""

    task_id: str
    name: str  # Its name for people.
    subtasks: tuple[SubtaskFigures, ...]  # In the order of their indices.


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """What a whole checkpoint weighs."""

    checkpointed_bytes: int = 0  # Newly written.
    state_bytes: int = 0
    files_new: int = 0
    files_reused: int = 0  # Files of earlier checkpoints that it refers to.
    inline_bytes: int = 0  # State inside `_metadata`.
    tasks: tuple[TaskFigures, ...] = ()  # Figures by task.
